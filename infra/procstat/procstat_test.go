// SPDX-License-Identifier: Apache-2.0

package procstat

import (
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheFieldsAreFoundBehindAnyName(t *testing.T) {
	const rest = " S 7 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20"
	for _, name := range []string{"(sh)", "(a) b (c)", "(a) R 1 (b) S)"} {
		s, err := parse("77 " + name + rest)
		require.NoError(t, err, name)
		assert.Equal(t, Stat{State: "S", Parent: 7, Start: 4242}, s, name)
	}
	for _, broken := range []string{"", "77 (a", "77 (a) S 1 2", "77 (a) S x" + rest[4:], "77 (a)" + rest[:len(rest)-7] + "x 20"} {
		_, err := parse(broken)
		assert.Error(t, err, broken)
	}
}

func TestThisProcessIsItsParentsChild(t *testing.T) {
	s, err := Read(os.Getpid())
	require.NoError(t, err)
	assert.Equal(t, os.Getppid(), s.Parent)
	assert.NotZero(t, s.Start)
	_, err = Read(1 << 30)
	assert.ErrorIs(t, err, fs.ErrNotExist)
}
