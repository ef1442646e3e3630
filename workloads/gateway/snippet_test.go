// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/workloads/runner/wire"
)

func TestASnippetBecomesAProgram(t *testing.T) {
	for what, c := range map[string]struct{ code, want string }{
		"a program":             {"package main\nfunc main() {}\n", "package main\nfunc main() {}\n"},
		"another package":       {"package x\n", "package x\n"},
		"declarations":          {"func main() { fmt.Println(1) }", "package main\nimport \"fmt\"\n\nfunc main() { fmt.Println(1) }"},
		"statements":            {`fmt.Println("hi")`, "package main\nimport \"fmt\"\n\n\nfunc main() {\nfmt.Println(\"hi\")\n}\n"},
		"statements, imports":   {"import \"os\"\nos.Exit(3)", "package main\n\nimport \"os\"\nfunc main() {\n\nos.Exit(3)\n}\n"},
		"two more imports":      {"os.Exit(len(strings.Fields(``)))", "package main\nimport \"os\"\nimport \"strings\"\n\n\nfunc main() {\nos.Exit(len(strings.Fields(``)))\n}\n"},
		"a variable named os":   {"os := x{}\nos.y()", "package main\n\n\nfunc main() {\nos := x{}\nos.y()\n}\n"},
		"an import of its own":  {"import fmt \"example.com/x\"\nfmt.Y()", "package main\n\nimport fmt \"example.com/x\"\nfunc main() {\n\nfmt.Y()\n}\n"},
		"nothing understood":    {"}{", "}{"},
		"an unfinished program": {"package main\nfunc main() {", "package main\nfunc main() {"},
	} {
		assert.Equal(t, c.want, program(c.code), what)
	}
}

func TestAnInputIsChecked(t *testing.T) {
	file := []wire.File{{Path: "main.go", Content: "package main"}}
	for what, in := range map[string]Input{
		"either code or files": {},
		"either":               {Code: "x", Files: file},
		"at most":              {Code: strings.Repeat("x", maxSnippet+1)},
		"timeoutMillis":        {Code: "x", TimeoutSeconds: 121},
		"timeoutMillis must":   {Code: "x", TimeoutSeconds: -1},
		"relative path":        {Files: []wire.File{{Path: "../main.go"}}},
		// Each is small enough by itself, and the last by its own bytes.
		"as JSON":     {Files: []wire.File{{Path: "main.go", Content: strings.Repeat("x", 3<<20)}}, Stdin: strings.Repeat("x", 2<<20)},
		"bytes as":    {Code: "x", Args: []string{strings.Repeat("x", wire.MaxRequest)}},
		"4194304 are": {Files: []wire.File{{Path: "main.go", Content: strings.Repeat("\n", 3<<20)}}},
	} {
		_, err := in.request("r", nil)
		assert.ErrorContains(t, err, what)
	}
	q, err := Input{Files: file, TimeoutSeconds: 2}.request("r", map[string]string{"GOPROXY": "off"})
	require.NoError(t, err)
	assert.Equal(t, wire.Request{Run: "r", Files: file, TimeoutMillis: 2000, Go: map[string]string{"GOPROXY": "off"}}, q)
}

func FuzzProgram(f *testing.F) {
	f.Add(`fmt.Println("hi")`)
	f.Add("import \"os\"\nos.Exit(3)")
	f.Add("package main\nfunc main() {")
	f.Fuzz(func(t *testing.T, code string) {
		if got := program(code); !strings.Contains(got, strings.TrimSpace(code)) && !parses(got) {
			t.Fatalf("%q became %q", code, got)
		}
	})
}
