// SPDX-License-Identifier: Apache-2.0

package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAFileIsReplacedAsAWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, []byte("a longer one"), 0o644))
	old, err := os.Open(path)
	require.NoError(t, err)
	defer old.Close()

	require.NoError(t, Write(path, []byte("new"), 0o600))
	assert.Equal(t, "new", content(t, path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm())

	// A reader that came first still has all of what it opened.
	was, err := io.ReadAll(old)
	require.NoError(t, err)
	assert.Equal(t, "a longer one", string(was))
	assert.Equal(t, []string{"f"}, names(t, filepath.Dir(path)))
}

func TestAnErrorLeavesWhatWasThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, Write(path, []byte("old"), 0o644))
	full := errors.New("no space left")
	assert.ErrorIs(t, WriteFunc(path, 0o644, func(w io.Writer) error {
		_, err := io.WriteString(w, "ne")
		return errors.Join(err, full)
	}), full)
	assert.Equal(t, "old", content(t, path))

	// A folder cannot be replaced by a file.
	require.NoError(t, os.Mkdir(path+".d", 0o755))
	assert.Error(t, Write(path+".d", []byte("new"), 0o644))
	assert.ErrorIs(t, Write(filepath.Join(path+".none", "f"), nil, 0o644), fs.ErrNotExist)
	assert.Equal(t, []string{"f", "f.d"}, names(t, filepath.Dir(path)), "nothing is left behind")
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
