// SPDX-License-Identifier: Apache-2.0

//go:build linux && cluster

package engine

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// moved is what became of the main thread, which the tests cannot get at.
var moved error

// TestMain leaves the main thread in another network namespace, as a call of
// within that happens to run there does.
func TestMain(m *testing.M) {
	runtime.LockOSThread() // the main goroutine is on the main thread
	moved = unix.Unshare(unix.CLONE_NEWNET)
	os.Exit(m.Run())
}

func TestAProcessWhoseMainThreadWentIntoTheSealIsNotInside(t *testing.T) {
	require.NoError(t, moved, "run as root")
	name := "stockade-main-thread"
	e, err := New(Options{Home: t.TempDir(), Name: name})
	require.NoError(t, err)
	// The namespace of the main thread takes the place of the seal.
	require.NoError(t, os.MkdirAll(netnsDir, 0o755))
	path := filepath.Join(netnsDir, name)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	t.Cleanup(func() {
		assert.NoError(t, unix.Unmount(path, unix.MNT_DETACH))
		assert.NoError(t, os.Remove(path))
	})
	require.NoError(t, unix.Mount("/proc/self/ns/net", path, "", unix.MS_BIND, ""))

	inside, err := e.Inside()
	require.NoError(t, err)
	assert.False(t, inside, "only the main thread is")
}
