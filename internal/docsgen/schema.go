// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"

	"github.com/invopop/jsonschema"

	"github.com/stockade-dev/stockade/conformance/report"
	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

const module = "github.com/stockade-dev/stockade"

// schema returns the JSON schema of a report. Denial classes stay open: a
// sandbox may have sent any, and the report has to carry it.
func schema() (string, error) {
	enums := map[reflect.Type][]string{}
	for _, e := range []struct {
		of  reflect.Type
		dir string
	}{
		{reflect.TypeFor[verdict.Reason](), "conformance/verdict"},
		{reflect.TypeFor[runner.Fate](), "conformance/runner"},
		{reflect.TypeFor[suite.Kind](), "conformance/suite"},
		{reflect.TypeFor[suite.Severity](), "conformance/suite"},
	} {
		values, err := constants(e.dir, e.of.Name())
		if err != nil {
			return "", err
		}
		enums[e.of] = values
	}
	for v := verdict.NotRun; v <= verdict.Breached; v++ {
		t := reflect.TypeFor[verdict.Verdict]()
		enums[t] = append(enums[t], v.String())
	}
	r := &jsonschema.Reflector{
		Anonymous: true,
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			values, ok := enums[t]
			if !ok {
				return nil
			}
			s := &jsonschema.Schema{Type: "string"}
			for _, v := range values {
				s.Enum = append(s.Enum, v)
			}
			return s
		},
	}
	for _, dir := range []string{"report", "verdict"} {
		if err := r.AddGoComments(module, "./conformance/"+dir, jsonschema.WithFullComment()); err != nil {
			return "", fmt.Errorf("reading the comments of %s: %w", dir, err)
		}
	}
	s := r.Reflect(&report.Report{})
	s.Title = report.APIVersion + " " + report.Kind
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing the schema: %w", err)
	}
	return string(out) + "\n", nil
}

// constants returns the values of a package's string constants of one type,
// without the empty one, sorted. Go has no way to ask for them at run time,
// and a list kept by hand would be forgotten.
func constants(dir, typeName string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("reading the constants of %s: %w", typeName, err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != typeName {
				return true
			}
			for _, v := range spec.Values {
				if lit, ok := v.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if s, err := strconv.Unquote(lit.Value); err == nil && s != "" {
						out = append(out, s)
					}
				}
			}
			return true
		})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("reading the constants of %s in %s: there are none", typeName, dir)
	}
	slices.Sort(out)
	return out, nil
}
