// SPDX-License-Identifier: Apache-2.0

package node

import (
	"io/fs"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnImageGetsWhatBuildsProgramsAndNoMore(t *testing.T) {
	mode := goFiles("amd64")
	for p, want := range map[string]fs.FileMode{
		"bin/go": 0o755, "bin/gofmt": 0, "pkg/tool/linux_amd64/compile": 0o755, "pkg/tool/linux_amd64/cgo": 0,
		"pkg/tool/linux_arm64/compile": 0, "pkg/include/textflag.h": 0o644, "VERSION": 0o644, "go.env": 0o644, "doc/x.html": 0,
		"src/fmt/print.go": 0o644, "src/fmt/print_test.go": 0, "src/go/parser/testdata/x.go": 0, "src/cmd/go/main.go": 0,
		"src/vendor/modules.txt": 0o644, "src/runtime/asm_amd64.s": 0o644, "lib/time/zoneinfo.zip": 0o644, "test/x.go": 0,
	} {
		assert.Equal(t, want, mode(goRoot+"/"+p), p)
	}
}

func gopher(t *testing.T) Program {
	t.Helper()
	i := slices.IndexFunc(KodeGopherPrograms(), func(p Program) bool { return p.Go })
	require.GreaterOrEqual(t, i, 0)
	return KodeGopherPrograms()[i]
}

func TestTheSandboxOfKodeGopherHasTheToolchain(t *testing.T) {
	b := testBuilder(t)
	p := gopher(t)
	s := b.programImage(p, "", "key")
	assert.Equal(t, []string{"/runner", "-go", "/usr/local/go/bin/go", "-cache", "/usr/local/go-build"}, s.Config.Entrypoint)
	var folders []string
	for _, e := range s.Entries[:2] {
		assert.True(t, e.Source == "" && e.Mode == 0o755, e.Path)
		folders = append(folders, e.Path)
	}
	assert.Equal(t, []string{"app", "etc/pki/tls/certs"}, folders, "the overlay mounts there")
	before := b.programArchive(keyedProgram{p, "key"})
	other := b.programArchive(keyedProgram{DefaultPrograms()[0], "key"})
	b.tc.Version = "go9.9"
	assert.NotEqual(t, before, b.programArchive(keyedProgram{p, "key"}), "another Go is another image")
	assert.Equal(t, other, b.programArchive(keyedProgram{DefaultPrograms()[0], "key"}), "of this one alone")
}

func TestTheToolchainsTreesAreMadeAndKept(t *testing.T) {
	b := testBuilder(t)
	b.programs = []keyedProgram{{gopher(t), "key"}}
	var names []string
	for _, tree := range trees(b.allImages()...) {
		names = append(names, tree.Name)
	}
	assert.Equal(t, "minimal", names[0])
	assert.Contains(t, names, "gopher")
	keep := b.current()
	assert.True(t, keep[b.goToolchainPath()])
	assert.True(t, keep[b.goToolchainPath()+".json"])
	assert.Regexp(t, resultName, filepath.Base(b.goToolchainPath()))
}
