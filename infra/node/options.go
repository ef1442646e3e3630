// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/infra/home"
	"github.com/stockade-dev/stockade/infra/progress"
)

// rootModule is the first line of the go.mod that marks a checkout.
const rootModule = "module github.com/stockade-dev/stockade"

// Options says where Build works and what it takes. The zero value uses the
// default home, the checkout around the working directory and the default
// programs, and reports nothing.
type Options struct {
	// Home is the folder for all results; empty means DefaultHome.
	Home string

	// Source is the root of a checkout of this repository, whose tools/ folder
	// pins the third-party programs; empty means FindSource.
	Source string

	// Progress tells a person what happens; nil is silent.
	Progress *progress.Reporter

	// Programs are this repository's own programs that run inside the cluster.
	// Each becomes an image and an archive of its own, because they change
	// often and everything else does not. Nil means DefaultPrograms.
	Programs []Program
}

// Program is a main package of this repository that becomes an image with one
// static binary in it, and nothing else unless it has a base.
type Program struct {
	Name    string // file name of the binary, which lies in the image's root
	Package string // main package, relative to the checkout: "./cmd/probe"
	Image   string // name and tag without the repository: "probe:dev"
	// Python puts the binary into a Debian with Python, instead of into nothing.
	Python bool
	// Go puts it on top of a minimal Debian and the Go toolchain, with the
	// standard library compiled, for a program that builds programs.
	Go bool
}

// DefaultPrograms are the programs every cluster needs, the probe first.
func DefaultPrograms() []Program {
	return slices.Concat([]Program{{Name: "probe", Package: "./cmd/probe", Image: "probe:dev"}},
		PlaygroundPrograms(), KodeGopherPrograms())
}

// PlaygroundPrograms are those of the overlay base/playground: what its runs are
// made of, Python and the helper that starts them, and the execution service.
func PlaygroundPrograms() []Program {
	return []Program{
		{Name: "rlimit", Package: "./cmd/rlimit", Image: "playground:dev", Python: true},
		{Name: "execution", Package: "./cmd/execution", Image: "execution:dev"},
	}
}

// KodeGopherPrograms are those of the overlays base/kode-gopher and
// base/kode-gopher-shared.
func KodeGopherPrograms() []Program {
	return []Program{
		{Name: "gateway", Package: "./cmd/gateway", Image: "kode-gopher-gateway:dev"},
		{Name: "router", Package: "./cmd/router", Image: "kode-gopher-router:dev"},
		{Name: "metadata", Package: "./cmd/metadata", Image: "kode-gopher-metadata:dev"},
		{Name: "runner", Package: "./cmd/runner", Image: "kode-gopher-sandbox:dev", Go: true},
	}
}

// DefaultHome returns the folder that this process's environment names, see
// [home.Dir].
func DefaultHome() (string, error) { return home.Dir(os.Getenv) }

// FindSource returns the checkout that holds the working directory or, failing
// that, the running executable.
func FindSource() (string, error) {
	var starts []string
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	if exe, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(exe))
	}
	for _, start := range starts {
		if root, ok := checkoutAbove(start); ok {
			return root, nil
		}
	}
	return "", errNoSource
}

var errNoSource = errors.New("finding Stockade's sources: no checkout around the working directory or the executable; " +
	"run it in a clone of the repository")

func checkoutAbove(dir string) (string, bool) {
	for {
		if isCheckout(dir) {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

func isCheckout(dir string) bool {
	gomod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return false
	}
	first, _, _ := strings.Cut(string(gomod), "\n")
	info, err := os.Stat(filepath.Join(dir, "tools"))
	return strings.TrimSpace(first) == rootModule && err == nil && info.IsDir()
}

// resolve fills in the defaults.
func (o Options) resolve() (Options, error) {
	var err error
	if o.Home == "" {
		if o.Home, err = DefaultHome(); err != nil {
			return o, err
		}
	}
	if o.Source == "" {
		if o.Source, err = FindSource(); err != nil {
			return o, err
		}
	}
	if !isCheckout(o.Source) {
		return o, fmt.Errorf("reading the sources in %s: not a checkout of this repository (no tools folder beside its go.mod)", o.Source)
	}
	if o.Programs == nil {
		o.Programs = DefaultPrograms()
	}
	for _, dir := range []*string{&o.Home, &o.Source} {
		if *dir, err = filepath.Abs(*dir); err != nil {
			return o, fmt.Errorf("resolving %s: %w", *dir, err)
		}
	}
	return o, nil
}
