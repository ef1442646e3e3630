// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ownModule writes a checkout with one program that imports one package of it
// and leaves another alone.
func ownModule(t *testing.T) *builder {
	t.Helper()
	root := t.TempDir()
	write(t, filepath.Join(root, "go.mod"), rootModule+"\n\ngo 1.26.0\n")
	write(t, filepath.Join(root, "cmd", "p", "main.go"), "package main\n\nimport _ \"github.com/stockade-dev/stockade/used\"\n\nfunc main() {}\n")
	write(t, filepath.Join(root, "used", "used.go"), "package used\n\nimport _ \"embed\"\n\n//go:embed data\nvar Data string\n")
	write(t, filepath.Join(root, "used", "data"), "1")
	write(t, filepath.Join(root, "used", "used_test.go"), "package used\n")
	write(t, filepath.Join(root, "other", "other.go"), "package other\n")
	return &builder{Options: Options{Source: root}, tc: testToolchain}
}

func TestProgramIsBuiltAgainOnlyWhenItsOwnSourcesChange(t *testing.T) {
	program := Program{Name: "p", Package: "./cmd/p"}
	key := func(b *builder) string {
		k, err := b.programKey(t.Context(), program)
		require.NoError(t, err)
		return k
	}
	b := ownModule(t)
	base := key(b)
	assert.Equal(t, base, key(ownModule(t)), "wherever the checkout is")

	write(t, filepath.Join(b.Source, "other", "other.go"), "package other // changed\n")
	write(t, filepath.Join(b.Source, "used", "used_test.go"), "package used // changed\n")
	write(t, filepath.Join(b.Source, "go.sum"), "")
	assert.Equal(t, base, key(b), "none of this is in the program")

	write(t, filepath.Join(b.Source, "used", "data"), "2")
	embedded := key(b)
	assert.NotEqual(t, base, embedded)
	write(t, filepath.Join(b.Source, "used", "used.go"), "package used // changed\n")
	assert.NotEqual(t, embedded, key(b))
}

func TestProgramThatIsNotThereIsNamed(t *testing.T) {
	_, err := ownModule(t).programKey(t.Context(), Program{Name: "q", Package: "./cmd/q"})
	assert.ErrorContains(t, err, "listing the sources of ./cmd/q")
}

func TestWithoutGoTheErrorSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := readToolchain(t.Context(), t.TempDir())
	assert.ErrorContains(t, err, "looking for the go command: not on PATH; install Go")
}

func TestOwnProgramIsCompiledStatically(t *testing.T) {
	b := ownModule(t)
	tc, err := readToolchain(t.Context(), b.Source)
	require.NoError(t, err)
	b.tc = tc
	out := filepath.Join(t.TempDir(), "p")
	require.NoError(t, b.buildProgram(t.Context(), Program{Name: "p", Package: "./cmd/p"}, out))
	info, err := os.Stat(out)
	require.NoError(t, err)
	assert.NotZero(t, info.Mode()&0o111)
}

func TestTheUsersSettingsOfTheGoCommandDoNotCount(t *testing.T) {
	b := ownModule(t)
	written := filepath.Join(t.TempDir(), "env")
	write(t, written, "GOFLAGS=-mod=of-the-user\n")
	t.Setenv("GOENV", written) // as go env -w leaves it
	t.Setenv("GO111MODULE", "off")
	_, err := b.programKey(t.Context(), Program{Name: "p", Package: "./cmd/p"})
	require.NoError(t, err)
}

func TestMemoryIsMeasured(t *testing.T) {
	assert.Greater(t, availableMemory(), 100*mib)
}

func TestTheProxyOfProgramsIsTheMachinesUnlessAnotherIsNamed(t *testing.T) {
	t.Setenv("GOPROXY", "https://machine.example.com,direct")
	t.Setenv(GoProxyEnv, "")
	list, err := GoProxy(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "https://machine.example.com,direct", list)
	t.Setenv(GoProxyEnv, "off")
	list, err = GoProxy(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "off", list)
}

func TestAComponentIsThereWhenAllOfItsProgramsAre(t *testing.T) {
	c := built{Component: Component{Name: "cni", Programs: []Binary{{"x/loopback", "loopback"}, {"x/ptp", "ptp"}}}, Dir: t.TempDir()}
	assert.False(t, c.complete())
	write(t, c.path("loopback"), "program")
	assert.False(t, c.complete(), "one was removed")
	write(t, c.path("ptp"), "")
	assert.False(t, c.complete(), "one is empty, as a crash of the machine leaves it")
	write(t, c.path("ptp"), "program")
	assert.True(t, c.complete())
}
