// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/probe/mountinfo"
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

// nobody owns nothing of what a test makes.
var nobody = identity{uid: 54321, groups: []int{54321}}

func TestAFolderOpenToAllIsFound(t *testing.T) {
	root := t.TempDir()
	open, shut := filepath.Join(root, "a", "open"), filepath.Join(root, "shut")
	require.NoError(t, os.MkdirAll(open, 0o755))
	require.NoError(t, os.Chmod(open, 0o777))
	require.NoError(t, os.Mkdir(shut, 0o755))
	found, err := openFolders(t.Context(), root, nobody)
	require.NoError(t, err)
	assert.Equal(t, []string{open}, found)
	found, err = openFolders(t.Context(), root, nobody, filepath.Join(root, "a"))
	require.NoError(t, err)
	assert.Empty(t, found)
}

func TestAFolderOfTheUsersOwnIsFound(t *testing.T) {
	root := t.TempDir()
	own := filepath.Join(root, "own")
	require.NoError(t, os.Mkdir(own, 0o500))
	info, err := os.Stat(own)
	require.NoError(t, err)
	st := info.Sys().(*syscall.Stat_t) //nolint:forcetypeassert // a file's
	found, err := openFolders(t.Context(), root, identity{uid: int(st.Uid)})
	require.NoError(t, err)
	assert.Contains(t, found, own, "the owner may give itself the right")

	require.NoError(t, os.Chmod(own, 0o770))
	found, err = openFolders(t.Context(), root, identity{uid: nobody.uid, groups: []int{int(st.Gid)}})
	require.NoError(t, err)
	assert.Equal(t, []string{own}, found)
}

func TestAWalkThatWasCutProvesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := openFolders(ctx, t.TempDir(), nobody)
	require.Error(t, err)
	assert.False(t, unseen("x", err).Class.IsEvidence())
	_, err = openFolders(t.Context(), filepath.Join(t.TempDir(), "nowhere"), nobody)
	require.Error(t, err)
	assert.False(t, createIn(ctx, []string{t.TempDir()}, "n").Class.IsEvidence())
}

// Not every folder that cannot be entered is shut.
func TestAFolderWhosePathIsTooLongWasNotLookedAt(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, root.Close()) }()
	long := strings.Repeat(strings.Repeat("x", 200)+"/", 25)
	require.NoError(t, root.MkdirAll(strings.TrimSuffix(long, "/"), 0o755))
	_, err = openFolders(t.Context(), dir, nobody)
	require.ErrorIs(t, err, syscall.ENAMETOOLONG)
}

func TestOfManyFoldersTheOneThatLetsAFileInCounts(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	assert.True(t, createIn(t.Context(), []string{nowhere, t.TempDir()}, "n").OK)
	none := createIn(t.Context(), []string{nowhere}, "n")
	assert.Equal(t, verdict.Absent, none.Class)
	// A name too long is a denial of nothing, wherever it stands in the list.
	odd := filepath.Join(t.TempDir(), strings.Repeat("x", 300))
	for _, dirs := range [][]string{{odd, nowhere}, {nowhere, odd}} {
		assert.NotContains(t, writeOutsideTmp().Accept, createIn(t.Context(), dirs, "n").Class)
	}
}

func TestWhatWasNotLookedAtWasNotDenied(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, steps := range map[string][]verdict.Step{
		"write-outside-tmp": attackWriteOutside(ctx, &probe.Env{Nonce: "n"}), "host-mounts": attackHostMounts(ctx, &probe.Env{}),
	} {
		assert.True(t, slices.ContainsFunc(steps, func(s verdict.Step) bool { return !s.OK && !s.Class.IsEvidence() }), name)
	}
	assert.False(t, unseen("read mountinfo", os.ErrPermission).Class.IsEvidence(), "that it is denied does not make it empty")
}

func TestTheSpecSpeaksWhereTheSandboxCouldLie(t *testing.T) {
	good := suite.PodFacts{Phase: "Running", Declared: true, ReadOnlyRoot: true, Writable: []string{"/tmp"}, Volumes: []string{"emptyDir:scratch"},
		InMemory: map[string]int64{"/tmp": claimedScratch}}
	for name, tc := range map[string]struct {
		change func(*suite.PodFacts)
		read   func(suite.Reading) verdict.Statement
		live   bool
		agrees bool
	}{
		"nothing writable":         {func(*suite.PodFacts) {}, nothingWritable, true, true},
		"a writable root":          {func(f *suite.PodFacts) { f.ReadOnlyRoot = false }, nothingWritable, true, false},
		"a writable mount":         {func(f *suite.PodFacts) { f.Writable = []string{"/tmp", "/data"} }, nothingWritable, true, false},
		"a namesake of /tmp":       {func(f *suite.PodFacts) { f.Writable = []string{"/tmpfs"} }, nothingWritable, true, false},
		"no folder of the node":    {func(*suite.PodFacts) {}, noHostPath, true, true},
		"a folder of the node":     {func(f *suite.PodFacts) { f.Volumes = []string{"hostPath:node"} }, noHostPath, true, false},
		"a disk that may be one":   {func(f *suite.PodFacts) { f.Volumes = []string{"emptyDir:tmp", "persistentVolumeClaim:data"} }, noHostPath, true, false},
		"a driver's":               {func(f *suite.PodFacts) { f.Volumes = []string{"csi:data"} }, noHostPath, true, false},
		"what nobody knows":        {func(f *suite.PodFacts) { f.Volumes = []string{"unknown:data"} }, noHostPath, true, false},
		"the kubelet's own":        {func(f *suite.PodFacts) { f.Volumes = []string{"emptyDir:a", "configMap:b", "image:c"} }, noHostPath, true, true},
		"no privilege":             {func(*suite.PodFacts) {}, setuidProgram().Witnesses[0].Read, true, true},
		"root":                     {func(f *suite.PodFacts) { f.Privileges = []string{"root"} }, setuidProgram().Witnesses[0].Read, true, false},
		"memory of 64 MiB":         {func(*suite.PodFacts) {}, tmpSize().Witnesses[0].Read, true, true},
		"memory of any size":       {func(f *suite.PodFacts) { f.InMemory = map[string]int64{"/tmp": 0} }, tmpSize().Witnesses[0].Read, true, false},
		"more memory":              {func(f *suite.PodFacts) { f.InMemory = map[string]int64{"/tmp": claimedScratch + 1} }, tmpSize().Witnesses[0].Read, true, false},
		"a disk below":             {func(f *suite.PodFacts) { f.Writable = []string{"/tmp", "/tmp/cache"} }, tmpSize().Witnesses[0].Read, true, false},
		"a disk":                   {func(f *suite.PodFacts) { f.InMemory = nil }, tmpSize().Witnesses[0].Read, true, false},
		"a spec that was not read": {func(f *suite.PodFacts) { f.Declared = false }, noHostPath, false, true},
		"a Pod that has ended":     {func(f *suite.PodFacts) { f.Phase = "Failed" }, nothingWritable, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := good
			tc.change(&pod)
			s := tc.read(suite.Reading{Pod: pod})
			assert.Equal(t, tc.live, s.Live)
			assert.Equal(t, tc.agrees, s.Agrees, s.Detail)
			assert.False(t, s.Breach, "a mutant must be caught by the attack itself")
		})
	}
}

func TestTmpIsWithinTmpAndItsNamesakesAreNot(t *testing.T) {
	assert.True(t, within("/tmp", scratch))
	assert.True(t, within("/tmp/a", scratch))
	assert.False(t, within("/tmpfs", scratch))
	assert.False(t, within("/var/tmp", scratch))
}

func TestMountinfoGivesTheNodesFoldersAway(t *testing.T) {
	dir := t.TempDir()
	from := func(root string) []mountinfo.Mount { return []mountinfo.Mount{{Root: root, Point: dir, Type: "ext4"}} }
	assert.True(t, sources(from("/var/lib/kubelet/pods")).OK)
	assert.False(t, sources(from("/")).OK)
	// An emptyDir is the Pod's own, wherever the kubelet keeps it.
	assert.False(t, sources(from("/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/scratch")).OK)
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

// stat is what the kernel says of a file that a test cannot make.
type stat struct {
	os.FileInfo
	mode os.FileMode
	uid  uint32
}

func (s stat) Mode() os.FileMode { return s.mode }
func (s stat) Sys() any          { return &syscall.Stat_t{Uid: s.uid} }

func TestWhatCountsIsTheFileAndNotWhoRuns(t *testing.T) {
	assert.True(t, setuidOf("x", stat{mode: 0o755 | os.ModeSetuid}).OK)
	for _, s := range []stat{{mode: 0o755}, {mode: 0o755 | os.ModeSetuid, uid: 1000}} {
		step := setuidOf("x", s)
		assert.False(t, step.OK, "%s of %d", s.mode, s.uid)
		assert.False(t, step.Class.IsEvidence(), "nothing was refused either")
	}
	dir := t.TempDir()
	step := giveToRoot(dir, "n", os.Geteuid())
	if os.Geteuid() == 0 {
		assert.True(t, step.OK, step.Detail)
		assert.True(t, giveToRoot(dir, "n", 1000).OK, "the control gives away somebody else's")
	} else {
		assert.Equal(t, verdict.Permission, step.Class, step.Detail)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
	// To be root is not to have made the file.
	assert.False(t, giveToRoot(filepath.Join(dir, "nowhere"), "n", os.Geteuid()).OK)
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
