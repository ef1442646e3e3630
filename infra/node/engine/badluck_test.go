// SPDX-License-Identifier: Apache-2.0

//go:build linux

package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/probe/mountinfo"
)

// running returns an engine whose daemons are this process, in the namespace where
// it is, with an API that the handler answers.
func running(t *testing.T, answer http.HandlerFunc) *Engine {
	t.Helper()
	home, err := os.MkdirTemp("", "engine-") // a socket's path has to be short
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(home)) })
	e, err := New(Options{Home: home, Name: "../../proc/self/ns/net", Timeouts: Timeouts{Answer: 200 * time.Millisecond}})
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(e.path("run"), 0o711))
	r, err := newRecord(os.Getpid())
	require.NoError(t, err)
	for _, name := range []string{"containerd", "dockerd"} {
		require.NoError(t, r.write(e.recordPath(name)))
	}
	l, err := net.Listen("unix", e.Socket())
	require.NoError(t, err)
	server := &http.Server{Handler: answer, ReadHeaderTimeout: time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		assert.NoError(t, server.Close())
		assert.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	return e
}

func TestAnEngineThatAnswersStands(t *testing.T) {
	e := running(t, func(http.ResponseWriter, *http.Request) {})
	stands, err := e.stands(t.Context())
	require.NoError(t, err)
	assert.True(t, stands)
}

func TestAnEngineThatNeverAnswersDoesNotStand(t *testing.T) {
	e := running(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	stands, err := e.stands(ctx)
	require.NoError(t, err, "that is no reason to give up: it is cleared away")
	assert.False(t, stands)
	assert.NoError(t, ctx.Err(), "a wedged dockerd must not hang whoever asks")
}

func TestAnInterruptSaysNothingAboutTheEngine(t *testing.T) {
	e := running(t, func(http.ResponseWriter, *http.Request) {})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("ctrl-c"))
	stands, err := e.stands(ctx)
	assert.ErrorContains(t, err, "ctrl-c", "else the engine would be cleared away, with its cluster")
	assert.False(t, stands)
}

func TestOnlyTheVeryProcessIsSignalledAndNotAfterAnInterrupt(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	require.NoError(t, cmd.Start())
	r, err := newRecord(cmd.Process.Pid)
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("ctrl-c"))
	require.ErrorContains(t, r.end(ctx, time.Second), "ctrl-c")
	<-time.After(50 * time.Millisecond) // a signal takes its time
	assert.True(t, r.alive())
	reused := r
	reused.Start++
	require.NoError(t, reused.signal(syscall.SIGKILL), "that one is gone, and its number is somebody else's")
	<-time.After(50 * time.Millisecond)
	assert.True(t, r.alive())

	require.NoError(t, r.end(t.Context(), 5*time.Second))
	require.Error(t, cmd.Wait())
	require.NoError(t, r.signal(syscall.SIGKILL), "it is gone")
}

func TestADaemonsConfigurationSaysWhichEngineItServes(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"/usr/sbin/dockerd", "--config-file", "/u/stockade/engine/dockerd.json"}, "/u/stockade/engine"},
		{[]string{"containerd", "--config", "/u/stockade/engine/containerd.toml"}, "/u/stockade/engine"},
		{[]string{"dockerd", "--config-file", "/etc/docker/daemon.json"}, ""},
		{[]string{"dockerd", "-H", "fd://", "--containerd=/run/containerd/containerd.sock"}, ""},
		{[]string{"vi", "/u/stockade/engine/dockerd.json"}, ""},
		{[]string{""}, ""},
		{nil, ""},
	} {
		assert.Equal(t, tc.want, engineOf(process{Args: tc.args}), tc.args)
	}
}

func TestTheEngineOfAnotherHomeInTheNamespaceIsSeen(t *testing.T) {
	// A shell that calls itself dockerd. Its own namespace is what counts: this
	// process's threads may be in several, by other tests.
	other := filepath.Join(t.TempDir(), "engine")
	require.NoError(t, os.Mkdir(other, 0o755))
	cmd := exec.Command("sh")
	cmd.Args = []string{"dockerd", "-c", "echo ready; read x", "--config-file", filepath.Join(other, "dockerd.json")}
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait() // it reads nothing, and says so
	})
	_, err = stdout.Read(make([]byte, 6))
	require.NoError(t, err)
	all, err := processes()
	require.NoError(t, err)

	here := fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid)
	e, err := New(Options{Home: t.TempDir(), Name: "../.." + here})
	require.NoError(t, err)
	home, err := e.other()
	require.NoError(t, err)
	assert.Equal(t, filepath.Dir(other), home)
	s, err := e.Status(t.Context())
	require.NoError(t, err)
	assert.False(t, s.Exists, "nobody is told that something of ours is left")

	assert.Equal(t, other, engineIn(all, here, filepath.Join(t.TempDir(), "engine")))
	assert.Empty(t, engineIn(all, here, other), "our own")
	again := filepath.Join(t.TempDir(), "engine")
	require.NoError(t, os.Symlink(other, again))
	assert.Empty(t, engineIn(all, here, again), "our own, by another path")
	assert.Empty(t, engineIn(all, filepath.Join(t.TempDir(), "gone"), again), "in a namespace that is gone there is nobody")
}

func TestAHomeBehindASymbolicLinkHasItsMounts(t *testing.T) {
	disk, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	link := filepath.Join(t.TempDir(), "home")
	require.NoError(t, os.Symlink(disk, link))
	e, err := New(Options{Home: link})
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(e.Dir(), 0o755))
	want := disk + "/engine/run/docker/netns/x"
	assert.Equal(t, []string{want}, e.mounts([]mountinfo.Mount{{Root: "/", Point: want, Type: "nsfs"}}))
}

func TestANameThatIsNoNameIsNotTaken(t *testing.T) {
	for text, want := range map[string]string{"stockade-1\n": "stockade-1", "": "", "\n": "", "../x\n": "", "..": "", "/a": ""} {
		home := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(home, "engine"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(home, "engine", "namespace"), []byte(text), 0o600))
		assert.Equal(t, want, Recorded(home), "%q", text)
	}
	assert.Empty(t, Recorded(t.TempDir()))
}

func TestAShimTellsOfItsContainerWhenTheFolderIsGone(t *testing.T) {
	shim := func(dir, id string) process {
		return process{Args: []string{"/usr/bin/containerd-shim-runc-v2", "-namespace", "moby", "-id", id, "-address", dir + "/run/containerd.sock"}}
	}
	all := []process{
		shim("/h/engine", container), shim("/h/engine", "moby"), shim("/other/engine", container[1:]+"0"),
		{Args: []string{"containerd-shim-runc-v2", "-address", "/h/engine/run/containerd.sock", "-id"}}, {Args: []string{""}},
	}
	assert.Equal(t, []string{container}, shimmed(all, "/h/engine", nil))
	assert.Equal(t, []string{container}, shimmed(all, "/h/engine", []string{container}), "once")
}
