// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// Root may put a file in the place of /dev/null, and the whole machine with it.
func TestWhatIsNoOrdinaryFileStaysWhatItIs(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	both, err := os.OpenFile(pipe, os.O_RDWR, 0)
	require.NoError(t, err)
	defer both.Close()

	require.NoError(t, writeFile(pipe, text("report")))
	info, err := os.Lstat(pipe)
	require.NoError(t, err)
	require.Equal(t, fs.ModeNamedPipe, info.Mode().Type())
	got := make([]byte, 6)
	_, err = io.ReadFull(both, got)
	require.NoError(t, err)
	assert.Equal(t, "report", string(got))
	assert.Error(t, writeFile(filepath.Dir(pipe), text("report")), "a folder")
}

func TestALinkGoesOnLeadingToTheReport(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(file, []byte("before"), 0o600))
	require.NoError(t, os.Symlink(file, link))
	require.NoError(t, writeFile(link, text("after")))
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "after", string(got))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	assert.Equal(t, fs.ModeSymlink, info.Mode().Type())
}

// A report is as confidential as what the sandbox holds.
func TestAReportIsReadByWhomTheUserLets(t *testing.T) {
	mask := unix.Umask(0o077)
	defer unix.Umask(mask)
	dir := t.TempDir()
	fresh, shut := filepath.Join(dir, "fresh"), filepath.Join(dir, "shut")
	require.NoError(t, writeFile(fresh, text("report")))
	unix.Umask(0o022)
	require.NoError(t, os.WriteFile(shut, nil, 0o600))
	require.NoError(t, writeFile(shut, text("report")))
	for _, path := range []string{fresh, shut} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), path)
	}
}
