// SPDX-License-Identifier: Apache-2.0

package rlimit

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLimitsAreReadAndWritten(t *testing.T) {
	l, err := Parse("nproc=128, nofile=256,fsize=32Mi,core=0,as=4Gi")
	require.NoError(t, err)
	assert.Equal(t, Limits{"nproc": 128, "nofile": 256, "fsize": 32 << 20, "core": 0, "as": 4 << 30}, l)
	again, err := Parse(l.String())
	require.NoError(t, err)
	assert.Equal(t, l, again)
	none, err := Parse("")
	require.NoError(t, err)
	assert.Empty(t, none)
	assert.Empty(t, none.String())
}

func TestWhatIsNoLimitIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"an unknown name":           "memory=1",
		"no number":                 "nproc",
		"a word":                    "nproc=many",
		"less than nothing":         "nproc=-1",
		"a unit of a count":         "nproc=1Ki",
		"a unit that is none":       "as=1MB",
		"twice":                     "core=0,core=1",
		"more than there is":        "as=99999999999Gi",
		"what the kernel calls inf": "as=18446744073709551615",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(text)
			assert.Error(t, err)
		})
	}
}

func TestAMoreSpecialLimitReplacesTheOther(t *testing.T) {
	base := Limits{"nproc": 8, "as": 4 << 30}
	assert.Equal(t, Limits{"nproc": 8, "as": 1 << 20}, base.With(Limits{"as": 1 << 20}))
	assert.Equal(t, Limits{"nproc": 8, "as": 4 << 30}, base, "the base stays")
	assert.Equal(t, Limits{"core": 0}, Limits(nil).With(Limits{"core": 0}))
}
