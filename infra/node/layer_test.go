// SPDX-License-Identifier: Apache-2.0

package node

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// contents reads a layer back: what is where.
func contents(t *testing.T, path string) map[string]*tar.Header {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	all := map[string]*tar.Header{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		require.NotContains(t, all, h.Name, "twice in one layer")
		all[h.Name] = h
	}
}

func TestSameEntriesInAnyOrderGiveTheSameLayer(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "kubelet")
	write(t, binary, "program")
	entries := []entry{
		{Path: "usr/bin/kubelet", Mode: 0o755, Source: binary},
		{Path: "etc/motd", Mode: 0o644, Content: []byte("hello")},
		{Path: "usr/bin/link", Link: "kubelet"},
		{Path: "var/empty", Mode: 0o700},
	}
	dir := t.TempDir()
	first, err := writeEntries(filepath.Join(dir, "a"), entries)
	require.NoError(t, err)

	// Another time stamp of the source and another order must not show.
	require.NoError(t, os.Chtimes(binary, time.Now(), time.Now().Add(-time.Hour)))
	entries[0], entries[3] = entries[3], entries[0]
	second, err := writeEntries(filepath.Join(dir, "b"), entries)
	require.NoError(t, err)
	assert.Equal(t, first.hash, second.hash)
	assert.Equal(t, first.size, second.size)
	info, err := os.Stat(first.path)
	require.NoError(t, err)
	assert.Equal(t, info.Size(), first.size)
}

func TestLayerHasTheModesAndOwnersAnImageNeeds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "layer")
	_, err := writeEntries(path, []entry{
		{Path: "usr/bin/tool", Mode: 0o755, Content: []byte("x")},
		{Path: "usr/bin/alias", Link: "tool"},
		{Path: "tmp", Mode: 0o777 | fs.ModeSticky},
		{Path: "empty", Mode: 0o600, Content: []byte{}},
	})
	require.NoError(t, err)
	got := contents(t, path)
	assert.Equal(t, int64(0o755), got["usr/bin/tool"].Mode)
	assert.Equal(t, int64(0o1777), got["tmp/"].Mode)
	assert.Equal(t, "tool", got["usr/bin/alias"].Linkname)
	assert.Equal(t, byte(tar.TypeReg), got["empty"].Typeflag, "an empty file is not a folder")
	require.Contains(t, got, "usr/", "parents come with the file")
	for name, h := range got {
		assert.Zero(t, h.Uid, name)
		assert.Empty(t, h.Uname, name)
		assert.Zero(t, h.ModTime.Unix(), name)
	}
}

func TestTreeOfFilesTakesItsModesFromTheImageAndMayLeaveFilesOut(t *testing.T) {
	tree := t.TempDir()
	write(t, filepath.Join(tree, "bin", "run"), "x")
	write(t, filepath.Join(tree, "tests", "big"), "x")
	path := filepath.Join(t.TempDir(), "layer")
	_, err := writeEntries(path, []entry{{Path: "opt", Tree: tree, ModeOf: func(p string) fs.FileMode {
		if p == "opt/tests/big" {
			return 0
		}
		return 0o755
	}}})
	require.NoError(t, err)
	got := contents(t, path)
	assert.Contains(t, got, "opt/bin/run")
	assert.NotContains(t, got, "opt/tests/big")
}

func TestTwoFilesAtOnePathAreAnError(t *testing.T) {
	_, err := writeEntries(filepath.Join(t.TempDir(), "layer"), []entry{
		{Path: "a", Content: []byte("1")}, {Path: "a", Content: []byte("2")},
	})
	assert.ErrorContains(t, err, "two files claim /a")
}

func TestFileSystemIsPackedWithLinksAndWithoutWhatIsSkipped(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "etc", "hosts"), "one file")
	require.NoError(t, os.Link(filepath.Join(root, "etc", "hosts"), filepath.Join(root, "etc", "same")))
	require.NoError(t, os.Symlink("etc/hosts", filepath.Join(root, "link")))
	write(t, filepath.Join(root, "proc", "version"), "of the host")
	write(t, filepath.Join(root, "process"), "kept")

	dir := t.TempDir()
	first, err := writeTree(filepath.Join(dir, "a"), root, treeOptions{Skip: []string{"proc"}})
	require.NoError(t, err)
	second, err := writeTree(filepath.Join(dir, "b"), root, treeOptions{Skip: []string{"proc"}})
	require.NoError(t, err)
	assert.Equal(t, first.hash, second.hash)

	got := contents(t, first.path)
	assert.Equal(t, byte(tar.TypeLink), got["etc/same"].Typeflag)
	assert.Equal(t, "etc/hosts", got["etc/same"].Linkname)
	assert.Equal(t, "etc/hosts", got["link"].Linkname)
	assert.Contains(t, got, "proc/", "the mountpoint stays")
	assert.NotContains(t, got, "proc/version")
	assert.Contains(t, got, "process", "only the folder of that very name is skipped")
}

func TestLayerIsFoundAgainOnlyWhenComplete(t *testing.T) {
	dir := t.TempDir()
	final := filepath.Join(dir, "minimal-0123.tar")
	l, err := writeEntries(filepath.Join(dir, "tmp"), []entry{{Path: "a", Content: []byte("1")}})
	require.NoError(t, err)
	published, err := publishLayer(l, final)
	require.NoError(t, err)

	found, ok := loadLayer(final)
	require.True(t, ok)
	assert.Equal(t, published, found)
	digest, err := found.Digest()
	require.NoError(t, err)
	assert.Equal(t, l.hash, digest)

	require.NoError(t, os.Truncate(final, 10))
	_, ok = loadLayer(final)
	assert.False(t, ok, "cut off")
	require.NoError(t, os.Remove(final))
	_, ok = loadLayer(final)
	assert.False(t, ok, "killed between the record and the layer")
}
