// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryCallComesBackAndLeavesNothingOpen(t *testing.T) {
	before, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, c := range nodeCalls() {
		_ = c.do() // the answer is the machine's own affair
		assert.False(t, seen[c.name], "%s is listed twice", c.name)
		seen[c.name] = true
	}
	after, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	assert.Len(t, after, len(before))
}

func TestUnameIsNotEmpty(t *testing.T) {
	release, version, err := uname()
	require.NoError(t, err)
	assert.NotEmpty(t, release)
	assert.NotEmpty(t, version)
}

func TestOpeningForWritingWritesNothing(t *testing.T) {
	path := t.TempDir() + "/lever"
	require.NoError(t, os.WriteFile(path, []byte("core"), 0o600))
	require.NoError(t, openOnly(path, true))
	text, err := peek(path)
	require.NoError(t, err)
	assert.Equal(t, "core", text)
}

func TestTheStatusHasTheFieldsThatAreAskedFor(t *testing.T) {
	for _, f := range []string{"CapEff", "CapPrm", "CapBnd"} {
		v, err := status(f)
		require.NoError(t, err)
		assert.NotEmpty(t, v)
	}
	_, err := status("NoSuchField")
	assert.ErrorIs(t, err, os.ErrNotExist)
}
