// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tool is how a server takes Go programs.
type tool struct {
	name string
	// The names of the tool's parameters; those that it lacks are empty.
	code, stdin, language string
}

// What servers call the parameters, by what they are. Ours come first.
var (
	codeNames     = []string{"code", "source", "program", "snippet", "src", "main_go", "go_code", "content", "script"}
	stdinNames    = []string{"stdin", "input"}
	languageNames = []string{"language", "lang"}
)

// ownTool is what our own server calls its tool.
const ownTool = "run_go"

// findTool looks for the tool that takes a Go program: ours, or else the one
// whose parameters can carry a program and that needs no others. Of several,
// the first that speaks of Go is taken.
func findTool(ctx context.Context, session *mcp.ClientSession) (tool, error) {
	var fit []tool
	var names []string
	best := -1
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return tool{}, fmt.Errorf("listing the tools: %w", err)
		}
		if names = append(names, fmt.Sprintf("%.40q", t.Name)); len(names) > maxTools {
			return tool{}, fmt.Errorf("listing the tools: there are more than %d", maxTools)
		}
		got, ok := readTool(t)
		if !ok {
			continue
		}
		fit = append(fit, got)
		switch {
		case got.name == ownTool:
			return got, nil
		case best < 0 && speaksOfGo(t):
			best = len(fit) - 1
		}
	}
	switch {
	case best >= 0:
		return fit[best], nil
	case len(fit) == 1 && fit[0].language != "":
		return fit[0], nil // one tool for every language
	}
	return tool{}, fmt.Errorf("looking for a tool that runs Go programs: none of %s takes one", strings.Join(names, ", "))
}

// readTool tells how a tool takes a program, if it can.
func readTool(t *mcp.Tool) (tool, bool) {
	var schema struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	text, err := json.Marshal(t.InputSchema)
	if err != nil || json.Unmarshal(text, &schema) != nil {
		return tool{}, false
	}
	pick := func(names []string, kind string) string {
		for _, n := range names {
			if p, has := schema.Properties[n]; has && isType(p.Type, kind) {
				return n
			}
		}
		return ""
	}
	got := tool{name: t.Name, code: pick(codeNames, "string"), stdin: pick(stdinNames, "string"),
		language: pick(languageNames, "string")}
	if got.code == "" {
		return tool{}, false
	}
	for _, r := range schema.Required {
		if !slices.Contains([]string{got.code, got.stdin, got.language}, r) {
			return tool{}, false
		}
	}
	return got, true
}

// isType tells whether a schema's type is, or may be, a kind.
func isType(of any, kind string) bool {
	switch of := of.(type) {
	case string:
		return of == kind
	case []any:
		return slices.Contains(of, any(kind))
	}
	return false
}

// speaksOfGo tells whether a tool's name or description has the word.
func speaksOfGo(t *mcp.Tool) bool {
	words := strings.FieldsFunc(strings.ToLower(t.Name+" "+t.Title+" "+t.Description), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	return slices.Contains(words, "go") || slices.Contains(words, "golang")
}

// arguments are a program as the tool takes it.
func (t tool) arguments(p MCPProgram) (map[string]any, error) {
	out := map[string]any{t.code: p.Source}
	if t.language != "" {
		out[t.language] = "go"
	}
	switch {
	case t.stdin != "":
		out[t.stdin] = p.Stdin
	case p.Stdin != "":
		return nil, fmt.Errorf("running a program through MCP: the tool %.40q takes no input for it", t.name)
	}
	return out, nil
}

// MCPResult is what a server says of a program. All of it may be a lie.
type MCPResult struct {
	// Refused says that there was no run, and Message why, in the server's words.
	Refused bool
	Message string

	// Built, ExitCode and Signal are as the server tells; where it tells in words
	// only, the words are Stdout, and the program counts as built and ended well.
	Built          bool
	ExitCode       int
	Signal         string
	Stdout, Stderr string
	// Limits are those that the program met, in the server's words.
	Limits []string
}

// structured is a result with structure, as ours and, by common names, others
// write it.
type structured struct {
	Build *struct {
		OK     bool   `json:"ok"`
		Output string `json:"output"`
	} `json:"build"`
	ExitCode   *int     `json:"exitCode"`
	ExitCode2  *int     `json:"exit_code"`
	Signal     string   `json:"signal"`
	Stdout     *string  `json:"stdout"`
	Stderr     *string  `json:"stderr"`
	Violations []string `json:"violations"`
}

// readResult reads what a tool returned. It never panics, and returns an error
// for what is no result of a program.
func readResult(got *mcp.CallToolResult) (MCPResult, error) {
	if got == nil {
		return MCPResult{}, errors.New("reading a tool's result: there is none")
	}
	text := words(got.Content)
	if got.IsError {
		return MCPResult{Refused: true, Message: text[:min(len(text), maxToolError)]}, nil
	}
	if got.StructuredContent == nil {
		if len(got.Content) == 0 {
			return MCPResult{}, errors.New("reading a tool's result: it is empty")
		}
		return MCPResult{Built: true, Stdout: text}, nil
	}
	doc, err := json.Marshal(got.StructuredContent)
	if err != nil {
		return MCPResult{}, fmt.Errorf("reading a tool's result: %w", err)
	}
	var s structured
	if err := json.Unmarshal(doc, &s); err != nil {
		return MCPResult{}, fmt.Errorf("reading a tool's result: %w", err)
	}
	r := MCPResult{Built: true, Signal: s.Signal, Limits: s.Violations}
	code := s.ExitCode
	if code == nil {
		code = s.ExitCode2
	}
	switch {
	case s.Build != nil && !s.Build.OK:
		r.Built, r.Stderr, r.ExitCode = false, s.Build.Output, -1
		return r, nil
	case code == nil && s.Stdout == nil && s.Stderr == nil:
		return MCPResult{}, errors.New("reading a tool's result: it has neither an exit code nor an output")
	case code != nil:
		r.ExitCode = *code
	}
	if s.Stdout != nil {
		r.Stdout = *s.Stdout
	}
	if s.Stderr != nil {
		r.Stderr = *s.Stderr
	}
	return r, nil
}

// words are the texts among a tool's contents.
func words(all []mcp.Content) string {
	var b strings.Builder
	for _, c := range all {
		if t, ok := c.(*mcp.TextContent); ok && t != nil {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}
