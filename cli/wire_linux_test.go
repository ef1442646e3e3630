// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/infra/node/engine"
	"github.com/stockade-dev/stockade/overlays"
	"github.com/stockade-dev/stockade/scenarios/all"
)

func TestEveryHomeHasANamespaceOfItsOwn(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/cache")
	usual := machine{home: "/cache/stockade"}
	assert.Equal(t, "stockade", usual.netns())
	other := machine{home: "/elsewhere"}
	assert.Regexp(t, `^stockade-[0-9a-f]{8}$`, other.netns())
	assert.Equal(t, other.netns(), machine{home: "/elsewhere"}.netns())
	t.Setenv("STOCKADE_HOME", "/cache/stockade")
	assert.Equal(t, "stockade", usual.netns(), "said or not, it is the same home")
}

func TestAHomeKeepsTheNamespaceThatItWasSealedWith(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("STOCKADE_HOME", "")
	t.Setenv("XDG_CACHE_HOME", cache)
	m := machine{home: filepath.Join(cache, "stockade")}
	require.NoError(t, os.MkdirAll(filepath.Join(m.home, "engine"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(m.home, "engine", "namespace"), []byte(m.netns()+"\n"), 0o600))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	assert.Equal(t, "stockade", m.netns(), "asked by somebody whose default home is another one")
	assert.Equal(t, "/run/netns/stockade", m.netnsPath())
}

func TestWhatIsSealedComesAfterTheSeal(t *testing.T) {
	sealed := false
	for _, l := range (machine{}).layers() {
		if sealed {
			assert.True(t, l.Sealed(), "%s would be brought up before what comes ahead of it", l.Name())
		}
		sealed = l.Sealed()
	}
	assert.True(t, sealed)
}

func TestTheProbeComesOutOfItsImage(t *testing.T) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for name, text := range map[string]string{"other": "no", "probe": "the probe"} {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(text)), Mode: 0o755}))
		_, err := w.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	require.NoError(t, err)
	image, err := mutate.AppendLayers(empty.Image, l)
	require.NoError(t, err)

	to := filepath.Join(t.TempDir(), "probe")
	require.NoError(t, extract(image, "probe", to))
	got, err := os.ReadFile(to)
	require.NoError(t, err)
	assert.Equal(t, "the probe", string(got))
	assert.Error(t, extract(image, "absent", to))
}

func TestEveryMutantIsDescribed(t *testing.T) {
	described, err := overlays.LoadMutants()
	require.NoError(t, err)
	have := map[string]bool{}
	for _, m := range described {
		have[m.ID] = m.Title != ""
	}
	app := &App{Registry: all.Registry}
	for _, id := range app.Registry.Mutants() {
		assert.True(t, have[id], "a scenario names the mutant %s, which has no overlay or no title", id)
	}
}

func TestTheFirstInterruptIsAnswered(t *testing.T) {
	out, in := io.Pipe()
	ctx, stop := interruptible(in)
	defer stop()
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	assert.Contains(t, line, "the second Ctrl-C")
	assert.ErrorIs(t, ctx.Err(), context.Canceled)
	assert.True(t, signalled(ctx))
}

func TestAnOrdinaryEndIsNoInterrupt(t *testing.T) {
	ctx, stop := interruptible(io.Discard)
	assert.False(t, signalled(ctx))
	stop()
	assert.False(t, signalled(ctx))
}

func TestTheProgramsForTheClusterComeFirst(t *testing.T) {
	tools := map[string]string{"kubectl": "/h/bin/kubernetes-1/kubectl", "etcd": "/h/bin/etcd-1/etcd"}
	assert.Equal(t, "/h/bin/kubernetes-1:/usr/bin", toolPath(tools, "/usr/bin"), "what is not built is not there")
	assert.Equal(t, "/usr/bin", toolPath(nil, "/usr/bin"))
}

func TestWhoMayNotEnterIsNotToldThatThereIsNoCluster(t *testing.T) {
	there := engine.Status{Namespace: "stockade", Exists: true}
	assert.ErrorContains(t, mayEnter(there, 1000), "sudo")
	assert.NoError(t, mayEnter(there, 0))
	assert.NoError(t, mayEnter(engine.Status{}, 1000), "there is none")
}

func TestARelativeHomeIsTheSameForTheProgramsThatAreStarted(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("PATH", os.Getenv("PATH"))    // restored at the end
	t.Setenv("STOCKADE_HOME", ".stockade") // within the project, where CI systems look for caches
	require.Zero(t, Main([]string{"list", "reports"}))
	here, err := os.Getwd()
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(here, ".stockade"), os.Getenv("STOCKADE_HOME"))
}

func TestSystemProgramsAreFoundAfterSu(t *testing.T) {
	assert.Equal(t, "/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin", systemPath("/usr/bin:/bin"))
	assert.Equal(t, "/usr/sbin:/mine:/sbin:/usr/local/sbin", systemPath("/usr/sbin:/mine:/sbin"), "the user's order stays")
}
