// SPDX-License-Identifier: Apache-2.0

package node

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/infra/home"
)

func TestHomeFollowsTheEnvironment(t *testing.T) {
	t.Setenv(home.Env, "/somewhere/else")
	got, err := DefaultHome()
	require.NoError(t, err)
	assert.Equal(t, "/somewhere/else", got)
}

func TestSourcesAreFoundFromAnywhereInACheckout(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "go.mod"), rootModule+"\n\ngo 1.26.0\n")
	write(t, filepath.Join(root, "tools", "x", "go.mod"), "module x\n")
	inside := filepath.Join(root, "tools", "x")
	t.Chdir(inside)
	found, err := FindSource()
	require.NoError(t, err)
	assert.Equal(t, root, found)
}

func TestOutsideACheckoutTheErrorSaysWhatToDo(t *testing.T) {
	_, ok := checkoutAbove(t.TempDir())
	assert.False(t, ok)
	assert.ErrorContains(t, errNoSource, "run it in a clone of the repository")

	_, err := Options{Home: t.TempDir(), Source: t.TempDir()}.resolve()
	assert.ErrorContains(t, err, "not a checkout of this repository")
}

func TestAnotherModuleWithToolsIsNoCheckoutOfOurs(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "go.mod"), "module example.org/other\n")
	write(t, filepath.Join(root, "tools", "x", "go.mod"), "module x\n")
	assert.False(t, isCheckout(root))
}
