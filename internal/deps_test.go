// SPDX-License-Identifier: Apache-2.0

// Package internal holds the rules of the whole repository as tests.
package internal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/stockade-dev/stockade"

// pkg is what `go list -json` says of a package.
type pkg struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
}

// all asks the go command once for every package of this repository and what
// it depends on.
var all = sync.OnceValues(func() (map[string]pkg, error) {
	// go test keeps what passed until something changes that the test itself has
	// looked at, and it is another process that reads the sources here.
	if err := filepath.WalkDir("..", func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "out") {
			return filepath.SkipDir
		}
		return err
	}); err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Imports,Deps", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("go list: %s", failed.Stderr)
	}
	if err != nil {
		return nil, err
	}
	packages := map[string]pkg{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages[p.ImportPath] = p
	}
})

// under returns the packages of this repository at or below any of the paths.
// A path with none is a mistake in the test: it would prove nothing.
func under(t *testing.T, paths ...string) (out []pkg) {
	t.Helper()
	packages, err := all()
	require.NoError(t, err)
	for _, path := range paths {
		before := len(out)
		for _, p := range packages {
			if name, own := ours(p.ImportPath); own && within(name, path) {
				out = append(out, p)
			}
		}
		require.Greater(t, len(out), before, "there is no package under %s", path)
	}
	return out
}

func ours(path string) (string, bool) { return strings.CutPrefix(path, module+"/") }

func within(name, path string) bool { return name == path || strings.HasPrefix(name, path+"/") }

func TestTheSuiteKnowsNothingOfPulumiAndTheCloud(t *testing.T) {
	for _, p := range under(t, "conformance", "scenarios", "cmd/probe") {
		for _, dep := range p.Deps {
			for _, bad := range []string{"github.com/pulumi/", "cloud.google.com/go/", "google.golang.org/api/"} {
				assert.False(t, strings.HasPrefix(dep, bad), "%s needs %s", p.ImportPath, dep)
			}
		}
	}
}

func TestDependenciesPointOneWay(t *testing.T) {
	// The keys are layers; the values are what of ours each may import.
	layers := map[string][]string{
		"conformance/verdict": {},
		"conformance/probe":   {"conformance/verdict"},
		"conformance/suite":   {"conformance/probe", "conformance/verdict"},
		"conformance/report":  {"conformance/runner", "conformance/suite", "conformance/verdict"},
		"conformance":         {"conformance", "overlays", "workloads", "infra/atomicfile", "infra/kube", "infra/progress"},
		"scenarios":           {"scenarios", "conformance/suite", "conformance/probe", "conformance/verdict"},
		"overlays":            {"overlays"},
		"infra":               {"infra", "overlays/kind", "conformance/probe/mountinfo"},
		"infra/atomicfile":    {},
		"infra/procstat":      {},
		"workloads":           {"workloads", "infra/kube", "infra/procstat"},
		// Programs of the sandbox and of every image.
		"workloads/program":           {},
		"workloads/range/rangeclient": {},
		// The engine looks for mounts as well as attacks do.
		"conformance/probe/mountinfo": {},
		"stacks":                      {"stacks", "conformance/descriptor", "conformance/plan", "conformance/suite", "conformance/verdict", "infra", "overlays", "workloads"},
		// The command line knows the stacks as programs that Pulumi runs.
		"cli": {"cli", "conformance", "scenarios", "infra", "overlays", "workloads"},
		"cmd": {"cli", "conformance", "scenarios", "infra", "stacks", "workloads"},
	}
	for layer, allowed := range layers {
		for _, p := range under(t, layer) {
			for _, dep := range p.Imports {
				name, own := ours(dep)
				ok := !own
				for _, a := range allowed {
					ok = ok || within(name, a)
				}
				assert.True(t, ok, "%s must not import %s", p.ImportPath, dep)
			}
		}
	}
	packages, err := all()
	require.NoError(t, err)
	for path := range packages {
		name, own := ours(path)
		layer, _, _ := strings.Cut(name, "/")
		assert.True(t, !own || layer == "internal" || layers[layer] != nil, "%s is in no layer: say what it may import", path)
	}
}

func TestTheProbeLinksOursAndTheStandardLibraryOnly(t *testing.T) {
	packages, err := all()
	require.NoError(t, err)
	for _, p := range under(t, "scenarios", "conformance/suite", "conformance/probe", "conformance/verdict", "cmd/probe") {
		for _, dep := range p.Deps {
			_, own := ours(dep)
			assert.True(t, own || packages[dep].Standard || strings.HasPrefix(dep, "golang.org/x/sys/"), "%s needs %s", p.ImportPath, dep)
		}
	}
}

// forTests are the packages, by the last part of their paths, that stand in for
// something.
var forTests = []string{"fake", "faketarget", "gketest", "kubetest", "standin"}

func TestNoProgramLinksAFake(t *testing.T) {
	packages, err := all()
	require.NoError(t, err)
	seen := map[string]bool{}
	for path := range packages {
		if _, own := ours(path); own {
			seen[path[strings.LastIndexByte(path, '/')+1:]] = true
		}
	}
	for _, name := range forTests {
		assert.True(t, seen[name], "there is no package %s", name)
	}
	for _, p := range append(under(t, "cmd"), packages[module]) {
		for _, dep := range p.Deps {
			name, own := ours(dep)
			assert.False(t, own && slices.Contains(forTests, name[strings.LastIndexByte(name, '/')+1:]), "%s links %s", p.ImportPath, dep)
		}
	}
}
