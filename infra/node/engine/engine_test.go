// SPDX-License-Identifier: Apache-2.0

//go:build linux

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/probe/mountinfo"
	"github.com/stockade-dev/stockade/infra/node/engine/seal"
)

const container = "5673a8fafcba29d1b7a1e9f2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6"

func TestAHomeTooLongForASocketIsRefusedWithARemedy(t *testing.T) {
	_, err := New(Options{Home: "/" + strings.Repeat("x", 100)})
	require.ErrorContains(t, err, "set STOCKADE_HOME to a shorter path")
	_, err = New(Options{})
	require.ErrorContains(t, err, "no home folder")
}

func TestAHomeThatCannotBeMountedIsRefusedBeforeAnythingIsBuilt(t *testing.T) {
	for _, home := range []string{"/a:b", "/a,b", `/a\b`} {
		_, err := New(Options{Home: home})
		assert.ErrorContains(t, err, "set STOCKADE_HOME to another", home)
	}
	_, err := New(Options{Home: "/a b"})
	assert.NoError(t, err)
}

func TestTheEnginesEnvironmentLeadsToNoOtherDocker(t *testing.T) {
	t.Setenv("DOCKER_CONTEXT", "production")
	t.Setenv("DOCKER_HOST", "tcp://192.0.2.1:2376")
	t.Setenv("https_proxy", "http://192.0.2.1:3128")
	for _, kv := range (&Engine{}).Env() {
		name, _, _ := strings.Cut(kv, "=")
		t.Setenv(name, os.Getenv(name)) // restored when the test ends
	}
	e, err := New(Options{Home: "/h"})
	require.NoError(t, err)
	require.NoError(t, e.Setenv())
	assert.Equal(t, "unix:///h/engine/run/docker.sock", os.Getenv("DOCKER_HOST"))
	assert.Empty(t, os.Getenv("https_proxy"), "kind would hand it to the nodes")
	_, set := os.LookupEnv("DOCKER_CONTEXT")
	assert.False(t, set)
}

func TestAHomeRemembersItsNamespace(t *testing.T) {
	home := t.TempDir()
	e, err := New(Options{Home: home})
	require.NoError(t, err)
	assert.Equal(t, DefaultName, e.Name())
	require.NoError(t, os.MkdirAll(e.Dir(), 0o755))
	require.NoError(t, os.WriteFile(e.namePath(), []byte("other\n"), 0o644))
	e, err = New(Options{Home: home})
	require.NoError(t, err)
	assert.Equal(t, "other", e.Name())
	e, err = New(Options{Home: home, Name: "given"})
	require.NoError(t, err)
	assert.Equal(t, "given", e.Name())
}

func TestDaemonsDoNotInheritTheCallersDockerOrProxies(t *testing.T) {
	got := daemonEnv([]string{"PATH=/bin", "https_proxy=http://192.0.2.1", "NO_PROXY=x", "DOCKER_HOST=y", "LISTEN_FDS=3", "NOTIFY_SOCKET=z", enteredMark + "=stockade"})
	assert.Equal(t, []string{"PATH=/bin"}, got)
}

func TestNoProxyOfTheMachinesIsAskedForInTheSeal(t *testing.T) {
	e, err := New(Options{Home: t.TempDir(), Name: "stockade-1"})
	require.NoError(t, err)
	got := e.enteredEnv([]string{"PATH=/bin", "HTTPS_PROXY=http://192.0.2.1:3128", "http_proxy=x", "DOCKER_CONTEXT=y", "GOPROXY=https://goproxy.example"})
	assert.Equal(t, []string{"PATH=/bin", "GOPROXY=https://goproxy.example", "STOCKADE_ENTERED=stockade-1"}, got)
}

func TestTheDaemonsConfigurationStaysInItsFolder(t *testing.T) {
	e, err := New(Options{Home: "/h"})
	require.NoError(t, err)
	text, err := json.Marshal(e.dockerdConfig(""))
	require.NoError(t, err)
	var c map[string]any
	require.NoError(t, json.Unmarshal(text, &c))
	for _, key := range []string{"containerd", "data-root", "exec-root", "pidfile"} {
		assert.True(t, strings.HasPrefix(c[key].(string), "/h/engine/"), "%s = %v", key, c[key])
	}
	assert.Equal(t, []any{"unix:///h/engine/run/docker.sock"}, c["hosts"])
	assert.NotContains(t, c, "default-runtime", "a machine with all capabilities uses runc itself")

	wrapped := e.dockerdConfig("/h/engine/bin/runc-wrapper")
	assert.Equal(t, runtimeName, wrapped["default-runtime"])
	assert.NotContains(t, e.containerdConfig(), "/run/containerd/")
}

func TestOnlyOurOwnProcessesAreOurs(t *testing.T) {
	for _, tc := range []struct {
		name string
		p    process
		want bool
	}{
		{"our shim", process{Args: []string{"/usr/bin/containerd-shim-runc-v2", "-namespace", "moby", "-address", "/h/engine/run/containerd.sock"}}, true},
		{"our dockerd", process{Args: []string{"dockerd", "--config-file", "/h/engine/dockerd.json"}}, true},
		{"a node's process", process{Args: []string{"/sbin/init"}, Cgroups: "5:memory:/docker/" + container + "\n"}, true},
		{"a Pod's process in a node", process{Args: []string{"sleep"}, Cgroups: "0::/docker/" + container + "/kubelet/pod1\n"}, true},
		{"the machine's shim", process{Args: []string{"/usr/bin/containerd-shim-runc-v2", "-address", "/run/containerd/containerd.sock"}}, false},
		{"another home's engine", process{Args: []string{"dockerd", "--config-file", "/h/engine2/dockerd.json"}}, false},
		{"an editor in our folder", process{Args: []string{"vi", "/h/engine/dockerd.json"}}, false},
		{"another container", process{Args: []string{"/sbin/init"}, Cgroups: "0::/docker/" + strings.Repeat("0", 64)}, false},
		{"a kernel thread", process{Args: []string{""}}, false},
		{"one without arguments", process{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, ours(tc.p, "/h/engine", []string{container}))
		})
	}
}

func TestMountsAreUndoneFromTheInsideOut(t *testing.T) {
	const info = `1 0 8:1 / / rw - ext4 /dev/vda rw
2 1 0:30 / /h/engine/data rw - ext4 /dev/vda rw
3 2 0:31 / /h/engine/data/overlay2/a/merged rw - overlay overlay rw
4 2 0:32 / /h/engine/run/docker/netns/x rw - nsfs nsfs rw
5 1 0:33 / /h/engine2/data rw - ext4 /dev/vda rw
6 3 0:34 / /h/engine/with\040space rw - tmpfs tmpfs rw
`
	assert.Equal(t, []string{
		"/h/engine/run/docker/netns/x", "/h/engine/data/overlay2/a/merged", "/h/engine/with space", "/h/engine/data",
	}, mountsBelow(mountinfo.Parse(info), "/h/engine"))
}

func TestADeadContainerIsNotBootedAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hostconfig.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"Memory":7,"RestartPolicy":{"Name":"on-failure","MaximumRetryCount":1}}`), 0o600))
	require.NoError(t, forbidRestart(file))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.JSONEq(t, `{"Memory":7,"RestartPolicy":{"Name":"no","MaximumRetryCount":0}}`, string(text))
	require.NoError(t, forbidRestart(filepath.Join(t.TempDir(), "missing.json")))
}

func TestAProcessIsKnownByItsStartAndNotItsNumber(t *testing.T) {
	r, err := newRecord(os.Getpid())
	require.NoError(t, err)
	assert.True(t, r.alive())

	reused := r
	reused.Start++
	assert.False(t, reused.alive(), "the number belongs to another process now")
	rebooted := r
	rebooted.Boot = "another"
	assert.False(t, rebooted.alive())
	assert.False(t, record{}.alive())
}

func TestARecordSurvivesTheDisk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dockerd.json")
	none, err := readRecord(file)
	require.NoError(t, err)
	assert.Equal(t, record{}, none)

	want, err := newRecord(os.Getpid())
	require.NoError(t, err)
	require.NoError(t, want.write(file))
	got, err := readRecord(file)
	require.NoError(t, err)
	assert.Equal(t, want, got)

	require.NoError(t, os.WriteFile(file, []byte(`{"pid": 12`), 0o600))
	torn, err := readRecord(file)
	require.NoError(t, err, "half a file is what a crash leaves")
	assert.Equal(t, record{}, torn)
}

func TestAProcessThatIgnoresSIGTERMIsKilled(t *testing.T) {
	cmd := exec.Command("sh", "-c", `trap "" TERM; echo ready; while :; do sleep 1; done`)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = out.Read(make([]byte, 6)) // the trap is set
	require.NoError(t, err)
	r, err := newRecord(cmd.Process.Pid)
	require.NoError(t, err)

	require.NoError(t, r.end(t.Context(), 2*time.Second))
	assert.False(t, r.alive())
	require.Error(t, cmd.Wait(), "it was killed")
	require.NoError(t, r.end(t.Context(), time.Second), "ending it once more is no error")
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	require.ErrorContains(t, poll(ctx, func() (bool, error) { return false, nil }), "enough")
}

func TestOnlyUnknownOpeningsAreLookedAtAgain(t *testing.T) {
	assert.True(t, onlyUnknown(&seal.OpenError{Openings: []seal.Opening{{Code: seal.ToUnknown}}}))
	assert.False(t, onlyUnknown(&seal.OpenError{Openings: []seal.Opening{{Code: seal.ToUnknown}, {Code: seal.ToHost}}}))
}

func TestNoSuchNamespaceMeansNotInside(t *testing.T) {
	e, err := New(Options{Home: "/h", Name: "stockade-test-that-is-not-there"})
	require.NoError(t, err)
	inside, err := e.Inside()
	require.NoError(t, err)
	assert.False(t, inside)
}
