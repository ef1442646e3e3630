// SPDX-License-Identifier: Apache-2.0

package home

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHomeIsWhereTheUserSays(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"our own variable first": {map[string]string{Env: "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"},
		"then the cache folder":  {map[string]string{"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/stockade"},
		"then the home folder":   {map[string]string{"HOME": "/c"}, "/c/.cache/stockade"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Dir(func(k string) string { return c.env[k] })
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
	_, err := Dir(func(string) string { return "" })
	assert.ErrorContains(t, err, Env)
}

func TestAHomeIsTheSameFromEveryFolder(t *testing.T) {
	for _, name := range []string{Env, "XDG_CACHE_HOME"} {
		got, err := Dir(func(k string) string {
			if k == name {
				return "relative"
			}
			return ""
		})
		require.NoError(t, err)
		assert.True(t, filepath.IsAbs(got), "%s gives %s", name, got)
	}
}
