// SPDX-License-Identifier: Apache-2.0

package rlimit

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The test binary plays the helper: to set a limit here would set it for all
// tests that follow.
func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv("RLIMIT_TEST"); ok {
		limits, err := Parse(text)
		if err == nil {
			err = Exec(limits, os.Args[1:], []string{"PATH=/usr/bin:/bin"})
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(126)
	}
	os.Exit(m.Run())
}

func helper(t *testing.T, limits string, argv ...string) (string, error) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, argv...)
	cmd.Env = []string{"RLIMIT_TEST=" + limits, "PATH=/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func TestTheProgramHasTheLimitsHardAndSoft(t *testing.T) {
	out, err := helper(t, "nofile=64,fsize=1Mi,core=0,as=1Gi", "cat", "/proc/self/limits")
	require.NoError(t, err, out)
	for name, want := range map[string]string{
		"Max open files": "64", "Max file size": "1048576", "Max core file size": "0", "Max address space": "1073741824",
	} {
		found := false
		for line := range strings.Lines(out) {
			if rest, ok := strings.CutPrefix(line, name); ok {
				f := strings.Fields(rest)
				assert.Equal(t, []string{want, want}, f[:2], name)
				found = true
			}
		}
		assert.True(t, found, name)
	}
}

func TestTheProgramFeelsItsLimits(t *testing.T) {
	_, err := helper(t, "fsize=1Ki", "sh", "-c", "head -c 4096 /dev/zero >"+t.TempDir()+"/f")
	assert.Error(t, err, "a file larger than the limit cannot be written")
	out, err := helper(t, "nofile=3", "cat", "/proc/self/limits")
	assert.Error(t, err, "cat has no descriptor left: %s", out)
}

func TestWithoutAProgramNothingIsStarted(t *testing.T) {
	out, err := helper(t, "core=0", "there-is-no-such-program")
	assert.Error(t, err)
	assert.Contains(t, out, "starting a run")
	assert.Error(t, Exec(Limits{}, nil, nil))
}

func TestALowerHardLimitStays(t *testing.T) {
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_CORE, &before))
	out, err := helper(t, "core=0", "sh", "-c", "ulimit -Hc; ulimit -Sc")
	require.NoError(t, err, out)
	assert.Equal(t, "0\n0", out)
	var after unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_CORE, &after))
	assert.Equal(t, before, after, "the test's own limits are as they were")
}
