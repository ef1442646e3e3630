// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/stockade-dev/stockade/workloads/runner/wire"
)

// Input is what the tool takes.
type Input struct {
	Code  string      `json:"code,omitempty" jsonschema:"a Go program, or a snippet: statements, which become the body of main; packages of the standard library are imported by themselves"`
	Files []wire.File `json:"files,omitempty" jsonschema:"a Go program of several files, instead of code; without a go.mod it gets one"`
	Args  []string    `json:"args,omitempty" jsonschema:"the program's arguments"`
	Stdin string      `json:"stdin,omitempty" jsonschema:"the program's standard input"`
	// TimeoutSeconds bounds the program's own time.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty" jsonschema:"how long the program may run, at most 120; 30 by default"`
}

// size is how many bytes a call holds while it waits and runs.
func (in Input) size() int64 {
	n := len(in.Code) + len(in.Stdin)
	for _, a := range in.Args {
		n += len(a)
	}
	for _, f := range in.Files {
		n += len(f.Path) + len(f.Content)
	}
	return int64(n)
}

const maxSnippet = 1 << 20 // bytes

// request makes a request for the runner out of what a client sent. Errors are
// for the client to read.
func (in Input) request(run string, goEnv map[string]string) (wire.Request, error) {
	q := wire.Request{Run: run, Files: in.Files, Args: in.Args, Stdin: in.Stdin, TimeoutMillis: int64(in.TimeoutSeconds) * 1000, Go: goEnv}
	switch {
	case (in.Code == "") == (len(in.Files) == 0):
		return wire.Request{}, errors.New("either code or files must be given")
	case len(in.Code) > maxSnippet:
		return wire.Request{}, fmt.Errorf("code must have at most %d bytes; files may have more", maxSnippet)
	case in.Code != "":
		q.Files = []wire.File{{Path: "main.go", Content: program(in.Code)}}
	}
	if err := q.Check(); err != nil {
		return wire.Request{}, err
	}
	// Now, and not when there is a sandbox and an identity for it.
	_, err := q.Encode()
	return q, err
}

// program makes a whole program out of a snippet. Code that is none of what it
// understands comes back as it is: the compiler says what is wrong with it.
func program(code string) string {
	if parses(code) {
		return code // it has a package clause
	}
	if whole := "package main\n\n" + code; parses(whole) {
		return withImports(whole)
	}
	imports, body := split(code)
	whole := "package main\n\n" + imports + "\nfunc main() {\n" + body + "\n}\n"
	if !parses(whole) {
		return code
	}
	return withImports(whole)
}

func parses(code string) bool {
	_, err := parser.ParseFile(token.NewFileSet(), "main.go", code, parser.SkipObjectResolution)
	return err == nil
}

// split separates the imports at a snippet's beginning from its statements.
func split(code string) (imports, body string) {
	const clause = "package main\n"
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "main.go", clause+code, parser.ImportsOnly)
	if err != nil || len(f.Decls) == 0 {
		return "", code
	}
	end := set.Position(f.Decls[len(f.Decls)-1].End()).Offset - len(clause)
	if end < 0 || end > len(code) {
		return "", code
	}
	return code[:end], code[end:]
}

// packages are those of the standard library that a snippet may use without an
// import, by the name that it uses.
var packages = byName(
	"bufio", "bytes", "cmp", "context", "crypto/sha256", "encoding/base64", "encoding/binary", "encoding/csv", "encoding/hex",
	"encoding/json", "errors", "fmt", "io", "io/fs", "log", "maps", "math", "math/big", "math/bits", "math/rand", "net", "net/http",
	"net/netip", "net/url", "os", "os/exec", "path", "path/filepath", "reflect", "regexp", "runtime", "slices", "sort", "strconv",
	"strings", "sync", "sync/atomic", "syscall", "text/tabwriter", "time", "unicode", "unicode/utf8",
)

func byName(paths ...string) map[string]string {
	m := map[string]string{}
	for _, p := range paths {
		m[path.Base(p)] = p
	}
	return m
}

// withImports adds the imports of the standard library's packages that a
// program uses by name and does not import.
func withImports(code string) string {
	f, err := parser.ParseFile(token.NewFileSet(), "main.go", code, 0)
	if err != nil {
		return code
	}
	has := map[string]bool{}
	for _, i := range f.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return code
		}
		name := path.Base(p)
		if i.Name != nil {
			name = i.Name.Name
		}
		has[name] = true
	}
	// What the parser could not resolve is of another file or of a package.
	free := map[*ast.Ident]bool{}
	for _, id := range f.Unresolved {
		free[id] = true
	}
	need := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && free[id] && !has[id.Name] && packages[id.Name] != "" {
				need[packages[id.Name]] = true
			}
		}
		return true
	})
	if len(need) == 0 {
		return code
	}
	var b strings.Builder
	for _, p := range slices.Sorted(maps.Keys(need)) {
		fmt.Fprintf(&b, "import %q\n", p)
	}
	clause, rest, _ := strings.Cut(code, "\n")
	return clause + "\n" + b.String() + rest
}
