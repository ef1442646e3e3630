// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

func TestTheFamilyRegisters(t *testing.T) {
	var r suite.Registry
	r.MustAdd(Scenarios()...)
	assert.Len(t, r.All(), 4)
}

func TestAWrittenFileIsASuccessOfTheAttack(t *testing.T) {
	dir := t.TempDir()
	step := create(dir, "n")
	assert.True(t, step.OK, step.Detail)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left, "the attack cleans up")
}

func TestAMissingFolderIsAbsent(t *testing.T) {
	step := create(filepath.Join(t.TempDir(), "nowhere"), "n")
	assert.False(t, step.OK)
	assert.Equal(t, verdict.Absent, step.Class)
}

func TestOpeningLeavesTheContentAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hosts")
	require.NoError(t, os.WriteFile(file, []byte("content"), 0o600))
	assert.True(t, open(file).OK)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "content", string(text))
	assert.Equal(t, verdict.Absent, open(file+"x").Class)
}

func TestAFolderOpenToAllIsFound(t *testing.T) {
	root := t.TempDir()
	open, shut := filepath.Join(root, "a", "open"), filepath.Join(root, "shut")
	require.NoError(t, os.MkdirAll(open, 0o755))
	require.NoError(t, os.Chmod(open, 0o777)) //nolint:gosec // that is the case
	require.NoError(t, os.Mkdir(shut, 0o755))
	assert.Equal(t, []string{open}, openFolders(t.Context(), root))
	assert.Empty(t, openFolders(t.Context(), root, filepath.Join(root, "a")))
}

func TestTmpIsWithinTmpAndItsNamesakesAreNot(t *testing.T) {
	assert.True(t, within("/tmp", scratch))
	assert.True(t, within("/tmp/a", scratch))
	assert.False(t, within("/tmpfs", scratch))
	assert.False(t, within("/var/tmp", scratch))
}

func TestMountPointsAreReadWithTheirEscapes(t *testing.T) {
	const info = "21 1 0:20 / / rw - overlay overlay rw\n22 21 0:21 / /mnt/a\\040b ro - tmpfs tmpfs ro\nshort line\n"
	assert.Equal(t, []string{"/", "/mnt/a b"}, parseMountPoints(info))
}

func TestMountinfoGivesTheNodesFoldersAway(t *testing.T) {
	dir := t.TempDir()
	line := func(source string) string { return "30 21 8:1 " + source + " " + dir + " rw - ext4 /dev/sda1 rw\n" }
	assert.True(t, sources(line("/var/lib/kubelet/pods")).OK)
	assert.False(t, sources(line("/")).OK)
	// An emptyDir is the Pod's own, wherever the kubelet keeps it.
	assert.False(t, sources(line("/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/scratch")).OK)
	assert.Equal(t, verdict.Absent, sources("").Class)
}

func TestFillCountsWhatTheFileHolds(t *testing.T) {
	n, err := fill(t.Context(), t.TempDir(), "n", 3*mib+5)
	require.NoError(t, err)
	assert.EqualValues(t, 3*mib+5, n)
}

func TestOverfillingAnUnlimitedFolderIsABreach(t *testing.T) {
	dir := t.TempDir()
	step := overfill(t.Context(), dir, "n", mib)
	assert.True(t, step.OK, step.Detail)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestOverfillingWhatIsNotThereIsNoEvidence(t *testing.T) {
	step := overfill(t.Context(), filepath.Join(t.TempDir(), "nowhere"), "n", mib)
	assert.False(t, step.OK)
	assert.Equal(t, verdict.Absent, step.Class)
	assert.NotContains(t, tmpSize().Accept, step.Class)
}

func TestTheEffectiveUserIsReadFromTheStatus(t *testing.T) {
	uid, err := parseEuid(strings.NewReader("Name:\tsu\nUid:\t1000\t0\t0\t0\n"))
	require.NoError(t, err)
	assert.Equal(t, 0, uid)
	for _, bad := range []string{"", "Uid:\t1000\n", "Uid:\t1\tx\t1\t1\n"} {
		_, err := parseEuid(strings.NewReader(bad))
		assert.Error(t, err, "%q", bad)
	}
}

func TestOnlySetuidProgramsCount(t *testing.T) {
	root := t.TempDir()
	bin := filepath.Join(root, "bin")
	require.NoError(t, os.Mkdir(bin, 0o755))
	for name, mode := range map[string]os.FileMode{"su": 0o755 | os.ModeSetuid, "passwd": 0o755, "other": 0o755 | os.ModeSetuid} {
		file := filepath.Join(bin, name)
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		require.NoError(t, os.Chmod(file, mode))
	}
	assert.Equal(t, []string{filepath.Join(bin, "su")}, setuidPrograms(root))
}
