// SPDX-License-Identifier: Apache-2.0

// Command pins brings the modules under tools and our own to one version of every
// dependency that they share, the highest that any of them wants. Each of those
// modules builds programs of its own, and a package that two of them want in two
// versions, or with two versions of anything below it, is compiled twice: on two cores
// that was 40 of 100 minutes. Run it at the top of the repository, after a version was
// changed by hand:
//
//	CGO_ENABLED=0 go run ./internal/pins
//
// It raises versions, never lowers any, and lets the go command write the files. What
// cannot be brought together is listed under exceptions.
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"github.com/stockade-dev/stockade/infra/node"
)

// exceptions are the modules in which some dependencies have versions of their own:
// by folder, prefixes of paths, and why.
var exceptions = map[string]exception{
	"tools/gvisor": {
		[]string{""},
		"gVisor shares a few packages of 400 with the others, and is what everything here is about: it is built as its authors pinned it",
	},
	"tools/containerd": {
		[]string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go", "k8s.io/cri-", "k8s.io/streaming"},
		"containerd 2.4 wants the CRI of the Kubernetes after ours",
	},
	"tools/pulumi-kubernetes": {
		[]string{""},
		"the provider is of another year than the engine, and compiles with its Kubernetes and its Pulumi alone",
	},
}

type exception struct {
	prefixes []string
	why      string
}

// excepted tells whether a module decides about a dependency alone.
func excepted(folder, path string) bool {
	return slices.ContainsFunc(exceptions[folder].prefixes, func(p string) bool { return strings.HasPrefix(path, p) })
}

// module is one go.mod.
type module struct {
	folder string // from the top, with slashes; "." is our own
	file   *modfile.File
}

// modules are our own and those whose programs are built for a cluster.
func modules(top string) ([]module, error) {
	paths, err := filepath.Glob(filepath.Join(top, "tools", "*", "go.mod"))
	if err != nil {
		return nil, err
	}
	var out []module
	for _, path := range append([]string{filepath.Join(top, "go.mod")}, paths...) {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading a module's pins: %w", err)
		}
		file, err := modfile.Parse(path, data, nil)
		if err != nil {
			return nil, fmt.Errorf("reading a module's pins: %w", err)
		}
		folder, err := filepath.Rel(top, filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		out = append(out, module{filepath.ToSlash(folder), file})
	}
	return out, nil
}

// highest are the versions that everything shared is to have, by path.
func highest(all []module) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		for _, r := range m.file.Require {
			if v := r.Mod; !excepted(m.folder, v.Path) && semver.Compare(v.Version, out[v.Path]) > 0 {
				out[v.Path] = v.Version
			}
		}
	}
	return out
}

// behind are the arguments with which `go mod edit` raises a module's versions.
func (m module) behind(to map[string]string) (edits []string) {
	for _, r := range m.file.Require {
		if v := r.Mod; !excepted(m.folder, v.Path) && v.Version != to[v.Path] {
			edits = append(edits, "-require="+v.Path+"@"+to[v.Path])
		}
	}
	return edits
}

// settle lets the go command complete a module's files after an edit. Not all of
// tools can be tidied: Cilium's tests want packages that are not served.
func (m module) settle() error {
	if m.folder == "." {
		return golang(m.folder, "mod", "tidy")
	}
	args := []string{"list", "-mod=mod", "-e", "-deps"}
	for _, c := range slices.Concat(node.Components(), node.PulumiComponents()) {
		if m.folder == "tools/"+c.Name {
			for _, p := range c.Programs {
				args = append(args, p.Package)
			}
		}
	}
	return golang(m.folder, args...)
}

func golang(folder string, args ...string) error {
	cmd := exec.Command("go", args...) //nolint:noctx // it ends by itself
	cmd.Dir = filepath.FromSlash(folder)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("in %s: go %s: %w\n%s", folder, strings.Join(args, " "), err, said.String())
	}
	return nil
}

// maxRounds bounds the search: raising one module may raise what it wants.
const maxRounds = 10

func align() error {
	for range maxRounds {
		all, err := modules(".")
		if err != nil {
			return err
		}
		to, changed := highest(all), 0
		for _, m := range all {
			edits := m.behind(to)
			if len(edits) == 0 {
				continue
			}
			changed += len(edits)
			_, _ = fmt.Fprintf(os.Stdout, "%s: %d raised\n", m.folder, len(edits))
			if err := golang(m.folder, append([]string{"mod", "edit"}, edits...)...); err != nil {
				return err
			}
			if err := m.settle(); err != nil {
				return err
			}
		}
		if changed == 0 {
			return nil
		}
	}
	return fmt.Errorf("the versions still change after %d rounds", maxRounds)
}

func main() {
	if err := align(); err != nil {
		fmt.Fprintln(os.Stderr, "pins:", err)
		os.Exit(1)
	}
}
