// SPDX-License-Identifier: Apache-2.0

// Command gkemutate removes inputs from the source of infra/gke, one at a time, and
// runs the unit tests on each: they must fail. It does with the code what
// TestNothingThatMattersCanBeRemovedUnnoticed does with the graph that the code
// declares, and costs a build for each input (about 10 s, three quarters of an
// hour for all 242), so it is for now and then:
//
//	CGO_ENABLED=0 go run ./internal/gkemutate              # all
//	CGO_ENABLED=0 go run ./internal/gkemutate -only 'cluster.go.*Mode'
//	CGO_ENABLED=0 go run ./internal/gkemutate -list
//
// Run it at the top of the repository. Nothing in the tree is changed: the go
// command gets each mutant as an overlay. It exits with 1 when an input was
// removed that matters and no test failed.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const dir = "infra/gke"

// harmless are fields whose removal no test needs to notice. infra/gke/mutate_test.go says
// why for each.
var harmless = []string{
	"Cluster", "Description", "DiskSizeGb", "DiskType", "DisplayName", "InitialNodeCount", "Location",
	"LocationPolicy", "MachineType", "MaxSurge", "MaxUnavailable", "Name", "NatIpAllocateOption", "NodeLocations", "Project",
	"Region", "Router", "RoutingMode", "Title", "Ttl", "UpgradeSettings",
}

func main() {
	only := flag.String("only", "", "mutate only what fits this `expression` over FILE:LINE FIELD")
	list := flag.Bool("list", false, "say what there is to mutate, and stop")
	flag.Parse()
	ok, err := run(context.Background(), *only, *list)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gkemutate:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, list bool) (ok bool, err error) {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return false, fmt.Errorf("reading -only: %w", err)
	}
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil || len(files) == 0 {
		return false, fmt.Errorf("finding %s: there are %d files: %w", dir, len(files), err)
	}
	tmp, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return false, fmt.Errorf("making room for mutants: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	count := map[string]int{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for n := 0; ; n++ {
			m, err := mutate(file, n)
			if err != nil {
				return false, err
			}
			if m.field == "" {
				break
			}
			what := fmt.Sprintf("%s:%d %s", file, m.line, m.field)
			if !wanted.MatchString(what) {
				continue
			}
			verdict := "listed"
			if !list {
				if verdict, err = try(ctx, tmp, file, m.source); err != nil {
					return false, err
				}
				if verdict == "survived" && slices.Contains(harmless, m.field) {
					verdict = "harmless"
				}
			}
			count[verdict]++
			_, _ = fmt.Fprintf(os.Stdout, "%-13s %s\n", verdict, what)
		}
	}
	_, _ = fmt.Fprintln(os.Stdout, count)
	return count["survived"] == 0, nil
}

// mutant is one file without one input.
type mutant struct {
	field  string
	line   int
	source []byte
}

// mutate removes the nth input from the file. The field is "" when there are not
// so many.
func mutate(file string, n int) (mutant, error) {
	set := token.NewFileSet()
	// Without comments, which would be printed in odd places.
	tree, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return mutant{}, fmt.Errorf("reading %s: %w", file, err)
	}
	var m mutant
	next := func(field string, at ast.Node) bool {
		n--
		if n != -1 {
			return false
		}
		m.field, m.line = field, set.Position(at.Pos()).Line
		return true
	}
	ast.Inspect(tree, func(node ast.Node) bool {
		switch x := node.(type) {
		case *ast.CompositeLit:
			// container.ClusterArgs is an input of the SDK; ClusterArgs is ours.
			if sdk, ok := x.Type.(*ast.SelectorExpr); ok && (strings.HasSuffix(sdk.Sel.Name, "Args") || strings.HasSuffix(sdk.Sel.Name, "Map")) {
				x.Elts = slices.DeleteFunc(x.Elts, func(e ast.Expr) bool {
					kv, ok := e.(*ast.KeyValueExpr)
					return ok && next(text(kv.Key), kv)
				})
			}
		case *ast.BlockStmt:
			// in.DatapathProvider = … adds an input later.
			x.List = slices.DeleteFunc(x.List, func(s ast.Stmt) bool {
				a, ok := s.(*ast.AssignStmt)
				if !ok || len(a.Lhs) != 1 {
					return false
				}
				field, ok := a.Lhs[0].(*ast.SelectorExpr)
				return ok && slices.Contains([]string{"in", "node", "allow"}, text(field.X)) && next(field.Sel.Name, a)
			})
		}
		return m.field == ""
	})
	var out bytes.Buffer
	if err := format.Node(&out, set, tree); err != nil {
		return mutant{}, fmt.Errorf("writing a mutant of %s: %w", file, err)
	}
	m.source = out.Bytes()
	return m, nil
}

func text(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return text(x.X) + "." + x.Sel.Name
	default:
		return "?"
	}
}

// try runs the unit tests over the mutant.
func try(ctx context.Context, tmp, file string, source []byte) (string, error) {
	real, err := filepath.Abs(file)
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", file, err)
	}
	mutated, overlay := filepath.Join(tmp, "mutant.go"), filepath.Join(tmp, "overlay.json")
	doc, err := json.Marshal(map[string]any{"Replace": map[string]string{real: mutated}})
	if err != nil {
		return "", fmt.Errorf("writing the overlay: %w", err)
	}
	for path, content := range map[string][]byte{mutated: source, overlay: doc} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return "", fmt.Errorf("writing a mutant: %w", err)
		}
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-count=1", "-overlay", overlay, "./"+dir)
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return "survived", nil
	case bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
		// Then the input is needed for the code to be a program.
		return "no program", nil
	case bytes.Contains(out, []byte("--- FAIL")):
		return "killed", nil
	default:
		return "", fmt.Errorf("running the tests: %w: %s", err, out)
	}
}
