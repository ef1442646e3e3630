// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var testToolchain = toolchain{Version: "go1.26.0", Arch: "amd64"}

// toolsModule writes a tools module and returns its folder.
func toolsModule(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module tools\n\nrequire example.org/x v1.2.3\n")
	write(t, filepath.Join(dir, "go.sum"), "example.org/x v1.2.3 h1:abc=\n")
	write(t, filepath.Join(dir, "shim", "main.go"), "package main\n")
	return dir
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

func testComponent() Component {
	return Component{Name: "x", Module: "example.org/x", Programs: []Binary{{"example.org/x/cmd/y", "y"}}}
}

func TestKeyIsTheSameForTheSameInputsAnywhere(t *testing.T) {
	first, version, err := componentKey(testComponent(), toolsModule(t), testToolchain)
	require.NoError(t, err)
	assert.Equal(t, "v1.2.3", version)
	assert.Len(t, first, keyLength)

	second, _, err := componentKey(testComponent(), toolsModule(t), testToolchain)
	require.NoError(t, err)
	assert.Equal(t, first, second, "the folder's own path must not matter")
}

func TestKeyChangesWithEverythingThatGoesIn(t *testing.T) {
	base, _, err := componentKey(testComponent(), toolsModule(t), testToolchain)
	require.NoError(t, err)

	changes := map[string]func(dir string, c *Component, tc *toolchain){
		"a pin": func(dir string, _ *Component, _ *toolchain) {
			write(t, filepath.Join(dir, "go.mod"), "module tools\n\nrequire example.org/x v1.2.4\n")
		},
		"a checksum": func(dir string, _ *Component, _ *toolchain) {
			write(t, filepath.Join(dir, "go.sum"), "example.org/x v1.2.3 h1:def=\n")
		},
		"a file to embed": func(_ string, c *Component, _ *toolchain) {
			c.Embed = map[string]string{"shim/schema.json": "schema.json"}
		},
		"a source of ours": func(dir string, _ *Component, _ *toolchain) {
			write(t, filepath.Join(dir, "shim", "main.go"), "package main // changed\n")
		},
		"a new source of ours": func(dir string, _ *Component, _ *toolchain) {
			write(t, filepath.Join(dir, "shim", "more.go"), "package main\n")
		},
		"a linker flag":       func(_ string, c *Component, _ *toolchain) { c.Stamp = []string{"v=$version"} },
		"another program":     func(_ string, c *Component, _ *toolchain) { c.Programs = append(c.Programs, Binary{"z", "z"}) },
		"another output name": func(_ string, c *Component, _ *toolchain) { c.Programs[0].Name = "other" },
		"the compiler":        func(_ string, _ *Component, tc *toolchain) { tc.Version = "go1.26.1" },
		"the architecture":    func(_ string, _ *Component, tc *toolchain) { tc.Arch = "arm64" },
	}
	seen := map[string]string{base: "nothing"}
	for what, change := range changes {
		dir, c, tc := toolsModule(t), testComponent(), testToolchain
		change(dir, &c, &tc)
		key, _, err := componentKey(c, dir, tc)
		require.NoError(t, err)
		assert.Empty(t, seen[key], "changing %s gives the key of changing %s", what, seen[key])
		seen[key] = what
	}
}

func TestKeyDoesNotDependOnWhatOnlySteersTheBuild(t *testing.T) {
	c := testComponent()
	base, _, err := componentKey(c, toolsModule(t), testToolchain)
	require.NoError(t, err)
	c.Memory, c.Disk, c.Cache = 1, 2, 3
	tc := testToolchain
	tc.Cache, tc.ModPath, tc.Proxy = "/elsewhere", "/elsewhere", "direct"
	key, _, err := componentKey(c, toolsModule(t), tc)
	require.NoError(t, err)
	assert.Equal(t, base, key)
}

func TestTestBesideOurSourcesIsNoReasonToBuildAgain(t *testing.T) {
	dir := toolsModule(t)
	base, _, err := componentKey(testComponent(), dir, testToolchain)
	require.NoError(t, err)
	write(t, filepath.Join(dir, "shim", "main_test.go"), "package main\n")
	key, _, err := componentKey(testComponent(), dir, testToolchain)
	require.NoError(t, err)
	assert.Equal(t, base, key)
}

func TestCommentInAGoModFileIsNoReasonToBuildAgain(t *testing.T) {
	dir := toolsModule(t)
	base, _, err := componentKey(testComponent(), dir, testToolchain)
	require.NoError(t, err)
	write(t, filepath.Join(dir, "go.mod"), "// What this is.\nmodule tools\n\nrequire example.org/x v1.2.3 // indirect\n")
	key, _, err := componentKey(testComponent(), dir, testToolchain)
	require.NoError(t, err)
	assert.Equal(t, base, key)
}

func TestPartsOfAKeyDoNotRunIntoEachOther(t *testing.T) {
	a, b := newHasher("f"), newHasher("f")
	a.add("x", "1:y=")
	a.add("z", "")
	b.add("x", "")
	b.add("1:y=z", "")
	assert.NotEqual(t, a.sum(), b.sum())
}

func TestMissingPinsAreNamed(t *testing.T) {
	_, _, err := componentKey(testComponent(), t.TempDir(), testToolchain)
	assert.ErrorContains(t, err, "reading the pins of x")
}
