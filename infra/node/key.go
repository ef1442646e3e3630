// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// keyLength is how many hex digits of a key appear in names: 48 bits are
// plenty among the few results that ever lie side by side.
const keyLength = 12

// hasher builds a key out of labelled parts. Each part is written with its
// length, so that no two different lists of parts can collide.
type hasher struct{ h hash.Hash }

func newHasher(format string) *hasher {
	k := &hasher{sha256.New()}
	k.add("format", format)
	return k
}

func (k *hasher) add(label, value string) {
	_, _ = fmt.Fprintf(k.h, "%d:%s=%d:", len(label), label, len(value))
	_, _ = io.WriteString(k.h, value)
}

func (k *hasher) sum() string { return hex.EncodeToString(k.h.Sum(nil))[:keyLength] }

// modComment is a comment in a go.mod file. Editing one must not cost a build
// of Kubernetes.
var modComment = regexp.MustCompile(`(?m)^//.*\n|[ \t]+//.*$`)

// addTree adds the path and content of every regular file under dir, except
// tests, which are in no program.
func (k *hasher) addTree(dir string) error {
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasSuffix(p, "_test.go") {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(p) //nolint:gosec // our own source
		if err != nil {
			return err
		}
		if d.Name() == "go.mod" {
			content = modComment.ReplaceAll(content, nil)
		}
		k.add(filepath.ToSlash(rel), string(content))
		return nil
	})
}

// toolchain is what the go command says about itself where it is run.
type toolchain struct {
	Version string `json:"GOVERSION"`
	Arch    string `json:"GOARCH"`
	Cache   string `json:"GOCACHE"`
	ModPath string `json:"GOMODCACHE"`
	Proxy   string `json:"GOPROXY"`
	Root    string `json:"GOROOT"`
}

// componentKey hashes everything a component's programs are made of: the pins,
// the checksums, our own sources beside them, the flags and the compiler.
func componentKey(c Component, dir string, tc toolchain) (key, version string, err error) {
	gomod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", "", fmt.Errorf("reading the pins of %s: %w", c.Name, err)
	}
	if version, err = c.version(gomod); err != nil {
		return "", "", err
	}
	k := newHasher("component/1")
	k.add("go", tc.Version+" linux/"+tc.Arch)
	for _, f := range buildFlags {
		k.add("flag", f)
	}
	for _, e := range buildEnv(tc.Arch) {
		k.add("env", e)
	}
	k.add("ldflags", c.ldflags(version))
	for _, b := range c.Programs {
		k.add(b.Package, b.Name)
	}
	for _, to := range slices.Sorted(maps.Keys(c.Embed)) {
		k.add("embed "+to, c.Embed[to])
	}
	if err := k.addTree(dir); err != nil {
		return "", "", fmt.Errorf("hashing tools/%s: %w", c.Name, err)
	}
	return k.sum(), version, nil
}
