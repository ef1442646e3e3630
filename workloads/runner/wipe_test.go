// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/workloads/runner/wire"
)

func put(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestWipingLeavesOnlyWhatPersists(t *testing.T) {
	app := t.TempDir()
	put(t, filepath.Join(app, "main.go"), "x")
	put(t, filepath.Join(app, "a", "b", "c"), "x")
	put(t, filepath.Join(app, ".hidden"), "x")
	put(t, filepath.Join(app, "persist", "sub", "kept"), "still here")
	require.NoError(t, wipe(app))
	names, err := os.ReadDir(app)
	require.NoError(t, err)
	require.Len(t, names, 1)
	text, err := os.ReadFile(filepath.Join(app, "persist", "sub", "kept"))
	require.NoError(t, err)
	assert.Equal(t, "still here", string(text))
}

func TestWipingMakesTheFolderThatPersists(t *testing.T) {
	app := t.TempDir()
	require.NoError(t, wipe(app))
	assert.DirExists(t, filepath.Join(app, "persist"))
}

func TestWipingFollowsNoLink(t *testing.T) {
	outside, app := t.TempDir(), t.TempDir()
	put(t, filepath.Join(outside, "precious"), "x")
	require.NoError(t, os.Symlink(outside, filepath.Join(app, "link")))
	require.NoError(t, os.Mkdir(filepath.Join(app, "dir"), 0o755))
	require.NoError(t, os.Symlink("../../"+filepath.Base(outside), filepath.Join(app, "dir", "up")))
	require.NoError(t, os.Symlink(outside, filepath.Join(app, "persist")))
	require.NoError(t, wipe(app))
	assert.FileExists(t, filepath.Join(outside, "precious"))
	info, err := os.Lstat(filepath.Join(app, "persist"))
	require.NoError(t, err)
	assert.True(t, info.IsDir(), "a link must not take the place of the folder that persists")
	names, err := os.ReadDir(app)
	require.NoError(t, err)
	assert.Len(t, names, 1)
}

func TestWipingOpensLockedFolders(t *testing.T) {
	// To root every folder is open; that unlock works is seen at its modes.
	app := t.TempDir()
	put(t, filepath.Join(app, "locked", "in", "file"), "x")
	require.NoError(t, os.Chmod(filepath.Join(app, "locked", "in"), 0))
	require.NoError(t, os.Chmod(filepath.Join(app, "locked"), 0))
	root, err := os.OpenRoot(app)
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, unlock(root, "locked"))
	for _, dir := range []string{"locked", "locked/in"} {
		info, err := root.Stat(dir)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	}
	require.NoError(t, wipe(app))
	assert.NoDirExists(t, filepath.Join(app, "locked"))
}

func TestWipingGoesDeep(t *testing.T) {
	app := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(app, strings.Repeat("d/", 500)), 0o755))
	require.NoError(t, wipe(app))
	assert.NoDirExists(t, filepath.Join(app, "d"))
}

func TestOnlyTheCachesOfTheScratchAreKept(t *testing.T) {
	root := t.TempDir()
	o := Options{App: filepath.Join(root, "app"), Scratch: filepath.Join(root, "tmp")}
	for _, f := range []string{"go-build/kept", "go/kept", "go-build123/x", "run-1/program", ".config/go/env", "x"} {
		put(t, filepath.Join(o.Scratch, f), "x")
	}
	require.NoError(t, wipeScratch(o))
	assert.Equal(t, []string{"go", "go-build"}, names(t, o.Scratch))
	assert.FileExists(t, filepath.Join(o.Scratch, "go-build", "kept"))
	assert.FileExists(t, filepath.Join(o.Scratch, "go", "kept"))

	// A link is no cache, and where it leads nothing is removed.
	outside := t.TempDir()
	put(t, filepath.Join(outside, "precious"), "x")
	require.NoError(t, os.RemoveAll(filepath.Join(o.Scratch, "go")))
	require.NoError(t, os.Symlink(outside, filepath.Join(o.Scratch, "go")))
	require.NoError(t, wipeScratch(o))
	assert.Equal(t, []string{"go-build"}, names(t, o.Scratch))
	assert.FileExists(t, filepath.Join(outside, "precious"))

	// Programs may have their folder there.
	o.App = filepath.Join(o.Scratch, "some", "app")
	put(t, filepath.Join(o.App, "main.go"), "x")
	put(t, filepath.Join(o.Scratch, "x"), "x")
	require.NoError(t, wipeScratch(o))
	assert.Equal(t, []string{"go-build", "some"}, names(t, o.Scratch))
	assert.FileExists(t, filepath.Join(o.App, "main.go"))
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestNoFileIsWrittenThroughALink(t *testing.T) {
	outside, app := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(outside, filepath.Join(app, "out")))
	require.Error(t, write(app, []wire.File{{Path: "out/x", Content: "x"}}))
	names, err := os.ReadDir(outside)
	require.NoError(t, err)
	assert.Empty(t, names)
}
