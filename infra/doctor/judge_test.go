// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// good is a machine on which nothing is wrong.
func good() Facts {
	f := Facts{
		Arch: "amd64", Root: true, Kernel: "6.12.0",
		Features: map[string]bool{}, Programs: map[string]bool{},
		Cgroup: 2, SysResource: true, Go: "go1.26.3", GoWanted: "1.26",
		MemoryAvailable: 16 * gib, DiskFree: 100 * gib, Home: "/home",
		Images: ImageState{Checked: true, Cached: true, Detail: "built"},
	}
	for _, k := range kernelFeatures {
		f.Features[k.name] = true
	}
	for _, p := range programs {
		f.Programs[p.name] = true
	}
	return f
}

// worst is the worst level among findings; OK when there are none.
func worst(findings []Finding) Level {
	level := OK
	for _, f := range findings {
		if f.Level == Fail || f.Level == Warn && level == OK {
			level = f.Level
		}
	}
	return level
}

func TestAGoodMachineHasNothingToComplainAbout(t *testing.T) {
	for _, finding := range Judge(good()) {
		assert.Equal(t, OK, finding.Level, "%+v", finding)
		assert.Empty(t, finding.Remedy, "%+v", finding)
		assert.NotEmpty(t, finding.Detail, "%+v", finding)
	}
	assert.Equal(t, OK, worst(Judge(good())))
}

func TestEachDefectIsFoundByOneCheck(t *testing.T) {
	for _, tc := range []struct {
		name   string
		damage func(*Facts)
		check  string
		level  Level
		remedy string
	}{
		{"a user", func(f *Facts) { f.Root = false }, "privileges", Fail, "sudo"},
		{"no TPROXY", func(f *Facts) { f.Features["tproxy"] = false }, "kernel features", Fail, "modprobe"},
		{"no KVM", func(f *Facts) { f.Features["kvm"] = false }, "kernel features", Warn, ""},
		{"a kernel that does not tell", func(f *Facts) { delete(f.Features, "veth") }, "kernel features", Warn, ""},
		{"no cgroups", func(f *Facts) { f.Cgroup = 0 }, "cgroups", Fail, "mount"},
		{"no debootstrap", func(f *Facts) { f.Programs["debootstrap"] = false }, "programs", Fail, "apt-get install --no-install-recommends debootstrap"},
		{"no Docker", func(f *Facts) { f.Programs["docker"], f.Programs["dockerd"] = false, false }, "programs", Fail, "apt-get install --no-install-recommends docker.io"},
		{"no tcpdump", func(f *Facts) { f.Programs["tcpdump"] = false }, "programs", Warn, "tcpdump"},
		{"no Go", func(f *Facts) { f.Go = "" }, "Go", Fail, "install Go 1.26"},
		{"an old Go", func(f *Facts) { f.Go = "go1.9.7" }, "Go", Fail, "install Go 1.26"},
		{"little memory", func(f *Facts) { f.MemoryAvailable = 8 * gib }, "memory", Warn, ""},
		{"too little memory", func(f *Facts) { f.MemoryAvailable = gib }, "memory", Fail, "larger machine"},
		{"a full disk", func(f *Facts) { f.DiskFree = gib }, "disk", Fail, "STOCKADE_HOME"},
		{"an engine that was killed", func(f *Facts) { f.Leftovers = []string{"3 mounts"} }, "our engine", Warn, "stockade down"},
		{"no images", func(f *Facts) { f.Images.Cached, f.Images.Detail = false, "" }, "images", Warn, "stockade images"},
		{"sources that cannot be listed", func(f *Facts) { f.Images.Cached = false }, "images", Warn, "mend this first"},
		{"no checkout", func(f *Facts) { f.Images = ImageState{Detail: "no checkout"} }, "images", Warn, "checkout"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := good()
			tc.damage(&f)
			var found []Finding
			for _, finding := range Judge(f) {
				if finding.Level != OK {
					found = append(found, finding)
				}
			}
			require.Len(t, found, 1, "one defect, one finding")
			assert.Equal(t, tc.check, found[0].Name)
			assert.Equal(t, tc.level, found[0].Level)
			assert.Contains(t, found[0].Remedy, tc.remedy)
			assert.Equal(t, tc.level, worst(Judge(f)))
		})
	}
}

func TestLimitsThatAreAdaptedToAreNoDefects(t *testing.T) {
	f := good()
	f.Cgroup, f.SysResource, f.DockerSocket = 1, false, true
	assert.Equal(t, OK, worst(Judge(f)))
}

func TestNothingKnownIsNotFine(t *testing.T) {
	assert.Equal(t, Fail, worst(Judge(Facts{})))
}

func TestVersionsOfGoAreComparedByNumber(t *testing.T) {
	assert.True(t, goAtLeast("go1.26", "1.26"))
	assert.True(t, goAtLeast("go1.100.1", "1.26"))
	assert.True(t, goAtLeast("go2.0", "1.26"))
	assert.False(t, goAtLeast("go1.25.9", "1.26"))
	assert.True(t, goAtLeast("devel +abc", "1.26"), "a development build is let through")
}

func TestWhatTheClusterItselfTakesIsNoReasonToRefuseIt(t *testing.T) {
	f := good()
	f.MemoryAvailable, f.DiskFree = 3*gib, 8*gib
	assert.Equal(t, Fail, worst(Judge(f)))
	f.Engine = true
	assert.Equal(t, Warn, worst(Judge(f)), "else a second `up` could not bring another profile")
}

// Whoever follows the README must have what CI has, and what is looked for here.
func TestTheReadmeAndCIInstallWhatIsLookedFor(t *testing.T) {
	looked := []string{"git", "make"} // without them there is nothing to look with
	for _, p := range programs {
		if p.need == Fail {
			looked = append(looked, p.pkg)
		}
	}
	slices.Sort(looked)
	looked = slices.Compact(looked)
	for file, form := range map[string]string{"README.md": `(?m)^apt-get install -y (.*)$`, ".ci/run": `(?m)^packages=\((.*)\)$`} {
		text, err := os.ReadFile("../../" + file)
		require.NoError(t, err)
		m := regexp.MustCompile(form).FindStringSubmatch(string(text))
		require.NotNil(t, m, "%s names no packages", file)
		assert.Equal(t, looked, slices.Sorted(strings.FieldsSeq(m[1])), file)
	}
}
