// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestRestOfAKilledBuildIsRemovedAndFinishedWorkIsKept(t *testing.T) {
	bin := t.TempDir()
	unfinished, err := tempDir(bin, "kubernetes")
	require.NoError(t, err)
	write(t, filepath.Join(unfinished, "kubelet"), "half of it")
	finished := filepath.Join(bin, "etcd-0123456789ab")
	write(t, filepath.Join(finished, "etcd"), "all of it")

	require.NoError(t, sweep(bin, filepath.Join(bin, "missing")))
	assert.NoDirExists(t, unfinished)
	assert.FileExists(t, filepath.Join(finished, "etcd"))
}

func TestWorkAppearsUnderItsFinalNameOnlyWhenPublished(t *testing.T) {
	bin := t.TempDir()
	tmp, err := tempDir(bin, "etcd")
	require.NoError(t, err)
	write(t, filepath.Join(tmp, "etcd"), "program")
	final := filepath.Join(bin, "etcd-0123456789ab")
	assert.False(t, exists(final))
	require.NoError(t, publish(tmp, final))
	assert.FileExists(t, filepath.Join(final, "etcd"))
	assert.NoDirExists(t, tmp)
	assert.ErrorContains(t, publish(tmp, final), "publishing etcd-0123456789ab")
}

func TestWhatIsPublishedIsOnTheDiskAsAWhole(t *testing.T) {
	sync := flush
	t.Cleanup(func() { flush = sync })
	bin := t.TempDir()
	tmp, err := tempDir(bin, "kubernetes")
	require.NoError(t, err)
	write(t, filepath.Join(tmp, "kubelet"), "program")
	write(t, filepath.Join(tmp, "kubeadm"), "program")
	final := filepath.Join(bin, "kubernetes-0123456789ab")

	flush = func(*os.File) error { return errors.New("no space left on device") }
	require.ErrorContains(t, publish(tmp, final), "no space left")
	assert.False(t, exists(final), "half a program would count as built for good")

	var flushed []string
	flush = func(f *os.File) error {
		assert.NotContains(t, f.Name(), final, "before the rename")
		flushed = append(flushed, filepath.Base(f.Name()))
		return sync(f)
	}
	require.NoError(t, publish(tmp, final))
	assert.Equal(t, []string{"kubeadm", "kubelet"}, flushed)

	archive := filepath.Join(bin, ".building-node.tar")
	write(t, archive, "image")
	require.NoError(t, publish(archive, filepath.Join(bin, "node.tar")))
	assert.Equal(t, ".building-node.tar", flushed[len(flushed)-1])
}

func TestLackOfSpaceIsToldWithWhatIsNeededAndWhatToDo(t *testing.T) {
	require.NoError(t, spaceError("/home", "building", 2*gib, 2*gib))
	err := spaceError("/home", "building the third-party programs", 3*gib, 512*mib)
	require.Error(t, err)
	assert.Equal(t, "building the third-party programs needs about 3.0 GiB in /home but only 512 MiB are free; "+
		"make room, or set STOCKADE_HOME (or GOCACHE, GOMODCACHE) to a larger disk", err.Error())
}

func TestSpaceIsMeasuredWhereTheFolderWillBe(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "not", "there", "yet")
	require.NoError(t, checkSpace(missing, "nothing", 0))
	assert.ErrorContains(t, checkSpace(missing, "everything", 1<<62), "everything needs about")
}

// Root's umask is 027 or 077 on many a machine.
func TestTheUmaskIsNotBuiltIntoTheImages(t *testing.T) {
	mask := unix.Umask(0o077)
	defer unix.Umask(mask)
	dir := filepath.Join(t.TempDir(), "var", "lib")
	var said []byte
	require.NoError(t, openly(func() (err error) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		said, err = command{Args: []string{"sh", "-c", "umask"}}.run(t.Context())
		return err
	}))
	assert.Equal(t, "0022\n", string(said))
	for _, d := range []string{dir, filepath.Dir(dir)} {
		info, err := os.Stat(d)
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o755), info.Mode().Perm(), d)
	}
	assert.Equal(t, 0o077, unix.Umask(0o077), "the rest is as private as the user wants it")
}
