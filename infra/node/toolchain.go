// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Where the Go toolchain and the build cache lie in images that have them.
const (
	goRoot  = "usr/local/go"
	goCache = "usr/local/go-build"
	// trustDir is read by crypto/x509 besides Debian's own certificates.
	trustDir = "etc/pki/tls/certs"
)

// gopherTree is below the toolchain in an image: the certificates that programs
// need to speak TLS. Go itself needs nothing.
var gopherTree = debianTree{Name: "gopher", Packages: []string{"ca-certificates"}}

// goTools are the tools that compile and link a program without C.
var goTools = []string{"asm", "compile", "link"}

// goFiles chooses what of the host's Go installation an image gets: what builds
// programs, and neither the tools' own sources nor anybody's tests. It returns a
// file's mode by its path in the image, 0 to leave it out.
func goFiles(arch string) func(string) fs.FileMode {
	tools := map[string]bool{}
	for _, tool := range goTools {
		tools["pkg/tool/linux_"+arch+"/"+tool] = true
	}
	return func(p string) fs.FileMode {
		p = strings.TrimPrefix(p, goRoot+"/")
		top, _, _ := strings.Cut(p, "/")
		switch {
		case p == "bin/go", tools[p]:
			return 0o755
		case p == "VERSION", p == "go.env", p == "LICENSE", p == "lib/time/zoneinfo.zip", strings.HasPrefix(p, "pkg/include/"):
			return 0o644
		case top != "src", strings.HasPrefix(p, "src/cmd/"), strings.HasSuffix(p, "_test.go"), strings.Contains(p, "/testdata/"):
			return 0
		}
		return 0o644
	}
}

// goToolchainKey is the key of the toolchain's layer.
func (b *builder) goToolchainKey() string {
	k := newHasher("toolchain/1")
	k.add("go", b.tc.Version+" linux/"+b.tc.Arch)
	for _, e := range buildEnv(b.tc.Arch) {
		k.add("env", e)
	}
	k.add("tools", strings.Join(goTools, " "))
	k.add("places", goRoot+" "+goCache)
	return k.sum()
}

func (b *builder) goToolchainPath() string {
	return filepath.Join(b.imagesDir(), "toolchain-"+b.goToolchainKey()+".tar")
}

// goToolchain returns the layer with the Go toolchain and the standard library
// compiled, and makes it first if need be. Without the latter, the first build
// in a sandbox would take minutes.
func (b *builder) goToolchain(ctx context.Context, work string) (layer v1.Layer, err error) {
	if l, ok := loadLayer(b.goToolchainPath()); ok {
		return l, nil
	}
	done := b.rep.Step("compiling Go's standard library for sandboxes")
	defer func() { done(fileSize(b.goToolchainPath()), err) }()
	cache := filepath.Join(work, "go-build")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, fmt.Errorf("compiling the standard library: %w", err)
	}
	build := b.goCommand(b.Source, append(append([]string{"build"}, buildFlags...), "std")...)
	build.Env = append(build.Env, "GOCACHE="+cache)
	if _, err := build.run(ctx); err != nil {
		return nil, fmt.Errorf("compiling the standard library: %w", explain(err, ""))
	}
	l, err := writeEntries(filepath.Join(work, "toolchain.tar"), []entry{
		{Path: goRoot, Tree: b.tc.Root, ID: b.tc.Version, ModeOf: goFiles(b.tc.Arch)},
		// The cache has a file per entry in folders of two hexadecimal digits;
		// what lies beside them is the go command's own housekeeping.
		{Path: goCache, Tree: cache, ID: "std", ModeOf: func(p string) fs.FileMode {
			if len(path.Base(path.Dir(p))) != 2 {
				return 0
			}
			return 0o644
		}},
	})
	if err != nil {
		return nil, err
	}
	return publishLayer(l, b.goToolchainPath())
}
