// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const child = "STOCKADE_PLAYGROUND_CHILD"

// A copy of the test binary must not run the tests, which would copy it again.
func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		_, _ = fmt.Fprintln(os.Stdout, "usage: none")
		os.Exit(1)
	}
	m.Run()
}

func TestTheLimitsOfThisProcessAreRead(t *testing.T) {
	all := readLimits(0)
	require.Len(t, all, len(resources))
	for _, l := range all {
		assert.NoError(t, l.err, l.name)
	}
}

func TestASoftLimitMovesBelowTheHardOne(t *testing.T) {
	steps := moveSoft(t.Context(), nil)
	require.Len(t, steps, 1)
	assert.True(t, steps[0].OK, steps[0].Detail)
}

func TestAProgramIsInstalledAndStarted(t *testing.T) {
	t.Setenv(child, "1")
	dir := t.TempDir()
	step := runFrom(t.Context(), dir, "n")
	assert.True(t, step.OK, step.Detail)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left, "nothing stays behind")
	assert.False(t, runFrom(t.Context(), dir+"/nowhere", "n").OK)
}
