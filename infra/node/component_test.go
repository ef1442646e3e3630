// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// checkout is this repository, seen from this package.
const checkout = "../.."

// everything is all that is built from the modules under tools.
func everything() []Component { return append(Components(), PulumiComponents()...) }

func TestEveryComponentIsPinnedInItsToolsModule(t *testing.T) {
	for _, c := range everything() {
		gomod, err := os.ReadFile(filepath.Join(checkout, "tools", c.Name, "go.mod"))
		require.NoError(t, err)
		version, err := c.version(gomod)
		require.NoError(t, err)
		assert.Regexp(t, `^v\d+\.\d+\.\d+`, version, c.Name)
		for _, p := range c.Programs {
			if strings.HasPrefix(p.Package, "./") {
				assert.DirExists(t, filepath.Join(checkout, "tools", c.Name, p.Package))
				continue
			}
			assert.Contains(t, string(gomod), p.Package, "a tool directive keeps the checksums of %s", p.Package)
		}
	}
}

func TestEveryToolsModuleIsAComponent(t *testing.T) {
	names := map[string]bool{}
	for _, c := range everything() {
		names[c.Name] = true
	}
	dirs, err := filepath.Glob(filepath.Join(checkout, "tools", "*", "go.mod"))
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	for _, d := range dirs {
		assert.True(t, names[filepath.Base(filepath.Dir(d))], "%s is built by nobody", d)
	}
}

func TestNoTwoComponentsMakeAProgramOfTheSameName(t *testing.T) {
	seen := map[string]string{}
	for _, c := range everything() {
		inside := map[string]bool{}
		for _, p := range c.Programs {
			assert.Empty(t, seen[p.Name], "%s comes from %s and %s", p.Name, c.Name, seen[p.Name])
			seen[p.Name] = c.Name
			// One call of the go command writes them into one folder.
			assert.False(t, inside[defaultName(p.Package)], "%s overwrites a sibling", p.Package)
			inside[defaultName(p.Package)] = true
		}
		assert.Positive(t, c.Memory, c.Name)
		assert.Positive(t, c.Disk, c.Name)
		assert.Positive(t, c.Cache, c.Name)
	}
}

func TestVersionsAreStampedIntoThePrograms(t *testing.T) {
	c := Component{Stamp: []string{"a/b.full=$version", "a/b.minor=$minor", "c.words=$bare of source"}}
	assert.Equal(t, "-s -w -X 'a/b.full=v1.36.3' -X 'a/b.minor=36' -X 'c.words=1.36.3 of source'", c.ldflags("v1.36.3"))
	assert.Equal(t, "-s -w", Component{}.ldflags("v0"))
}

func TestVersionIsThatOfTheModuleItselfAndNotOfOneWithALongerName(t *testing.T) {
	c := Component{Name: "x", Module: "example.org/x"}
	gomod := "module m\n\nrequire (\n\texample.org/x/api v9.9.9\n\texample.org/x v1.2.3 // indirect\n)\n"
	version, err := c.version([]byte(gomod))
	require.NoError(t, err)
	assert.Equal(t, "v1.2.3", version)

	version, err = c.version([]byte("module m\nrequire example.org/x v2.0.0\n"))
	require.NoError(t, err)
	assert.Equal(t, "v2.0.0", version)

	_, err = c.version([]byte("module m\n"))
	assert.ErrorContains(t, err, "tools/x/go.mod does not require example.org/x")
}

func TestProgramsAreNamedTheWayTheGoCommandNamesThem(t *testing.T) {
	assert.Equal(t, "kubelet", defaultName("k8s.io/kubernetes/cmd/kubelet"))
	assert.Equal(t, "server", defaultName("go.etcd.io/etcd/server/v3"))
	assert.Equal(t, "cmd", defaultName("sigs.k8s.io/agent-sandbox/sandbox-router/cmd"))
	assert.Equal(t, "shim", defaultName("./shim"))
}
