// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
)

func TestWhatIsSharedHasOneVersionInAllModules(t *testing.T) {
	all, err := modules("../..")
	require.NoError(t, err)
	require.Greater(t, len(all), 10, "ours and those of tools")
	to := highest(all)
	for _, m := range all {
		assert.Empty(t, m.behind(to), "%s compiles packages again that others compile: `make pins`", m.folder)
		for _, r := range m.file.Replace {
			assert.True(t, excepted(m.folder, r.Old.Path) || r.New.Path != r.Old.Path || r.New.Version == to[r.Old.Path] || !shared(all, r.Old.Path),
				"%s replaces %s by another version than the others have", m.folder, r.Old.Path)
		}
	}
}

// shared tells whether more than one module wants a dependency in the common version.
func shared(all []module, path string) bool {
	n := 0
	for _, m := range all {
		for _, r := range m.file.Require {
			if r.Mod.Path == path && !excepted(m.folder, path) {
				n++
			}
		}
	}
	return n > 1
}

func TestEveryExceptionIsOneThatIsNeeded(t *testing.T) {
	all, err := modules("../..")
	require.NoError(t, err)
	to := highest(all)
	for folder, e := range exceptions {
		assert.NotEmpty(t, e.why, folder)
		for _, prefix := range e.prefixes {
			var differs bool
			for _, m := range all {
				for _, r := range m.file.Require {
					v := r.Mod
					differs = differs || m.folder == folder && strings.HasPrefix(v.Path, prefix) && to[v.Path] != "" && to[v.Path] != v.Version
				}
			}
			assert.True(t, differs, "%s has the same versions of %s* as the others", folder, prefix)
		}
	}
}

func TestTheHighestVersionWins(t *testing.T) {
	of := func(folder, text string) module {
		f, err := modfile.Parse("go.mod", []byte("module m\n"+text), nil)
		require.NoError(t, err)
		return module{folder, f}
	}
	all := []module{
		of(".", "require (\n a.example/x v1.2.0\n a.example/y v0.0.0-20250101000000-000000000000\n)"),
		of("tools/kind", "require (\n a.example/x v1.10.0\n a.example/y v0.0.0-20260101000000-000000000000\n)"),
		of("tools/gvisor", "require a.example/x v1.99.0"),
	}
	to := highest(all)
	assert.Equal(t, map[string]string{"a.example/x": "v1.10.0", "a.example/y": "v0.0.0-20260101000000-000000000000"}, to)
	assert.Len(t, all[0].behind(to), 2)
	assert.Empty(t, all[1].behind(to))
	assert.Empty(t, all[2].behind(to), "gVisor decides alone")
}
