// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func good() Request {
	return Request{Run: "r1", Files: []File{{Path: "main.go", Content: "package main"}, {Path: "sub/x.go", Content: "package sub"}},
		Args: []string{"-v"}, Stdin: "in", TimeoutMillis: 1000, Go: map[string]string{"GOPROXY": "off"}}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

func TestARequestSurvivesTheWay(t *testing.T) {
	q, err := ReadRequest(strings.NewReader(text(t, good())))
	require.NoError(t, err)
	assert.Equal(t, good(), q)
	assert.Equal(t, []string{"GOPROXY=off"}, q.Env())
}

func TestARequestThatReachesOutOfItsFolderIsRefused(t *testing.T) {
	for _, p := range []string{
		"", ".", "/etc/passwd", "../x", "a/../../x", "a/./b", "a//b", "a/", `a\b`, "a\x00b", "a\nb", "\xff",
		"persist", "persist/x", strings.Repeat("a/", 16) + "b", strings.Repeat("a", 256),
	} {
		q := good()
		q.Files[0].Path = p
		assert.Error(t, q.Check(), "%q", p)
	}
}

func TestARequestIsChecked(t *testing.T) {
	for what, spoil := range map[string]func(*Request){
		"run must be":        func(q *Request) { q.Run = "Not an id" },
		"0 files":            func(q *Request) { q.Files = nil },
		"257 files":          func(q *Request) { q.Files = make([]File, MaxFiles+1) },
		"comes twice":        func(q *Request) { q.Files[1].Path = q.Files[0].Path },
		"and no folder":      func(q *Request) { q.Files[0].Path = "go.mod/x" },
		"file and a folder":  func(q *Request) { q.Files[0].Path = "sub" },
		"larger than":        func(q *Request) { q.Files[0].Content = strings.Repeat("x", MaxRequest+1) },
		"65 arguments":       func(q *Request) { q.Args = make([]string, MaxArgs+1) },
		"zero byte":          func(q *Request) { q.Args = []string{"a\x00"} },
		"timeoutMillis":      func(q *Request) { q.TimeoutMillis = MaxTimeout.Milliseconds() + 1 },
		"cannot be set":      func(q *Request) { q.Go = map[string]string{"GOFLAGS": "-toolexec=/bin/sh"} },
		"control characters": func(q *Request) { q.Go = map[string]string{"GOPROXY": "a\nGOFLAGS=x"} },
	} {
		q := good()
		spoil(&q)
		assert.ErrorContains(t, q.Check(), what)
	}
}

func TestNothingButOneRequestIsTaken(t *testing.T) {
	ok := text(t, good())
	for what, s := range map[string]string{
		"follows":       ok + "{}",
		"unknown field": strings.Replace(ok, `"run"`, `"user":"root","run"`, 1),
		"EOF":           ok[:len(ok)-2],
		"larger than":   strings.Repeat(" ", MaxRequest) + ok,
		"cannot":        `[1]`,
	} {
		_, err := ReadRequest(strings.NewReader(s))
		assert.ErrorContains(t, err, what)
	}
}

func result() Result {
	return Result{Run: "r1", Build: Build{OK: true, DurationMillis: 5}, Started: true, ExitCode: 3, Signal: "user defined signal 1",
		Stdout: "out\n", Violations: []Violation{Output}}
}

func TestAResultSurvivesTheWay(t *testing.T) {
	got, err := ReadResult(strings.NewReader(text(t, result())), "r1")
	require.NoError(t, err)
	assert.Equal(t, result(), got)
}

func TestAResultThatNoRunnerWritesIsRefused(t *testing.T) {
	for what, spoil := range map[string]func(*Result){
		"another run":       func(r *Result) { r.Run = "r2" },
		"was not built":     func(r *Result) { r.Build.OK = false },
		"exit code":         func(r *Result) { r.ExitCode = 256 },
		"signal":            func(r *Result) { r.Signal = "\x1b[2J" },
		"duration":          func(r *Result) { r.DurationMillis = -1 },
		"longer than":       func(r *Result) { r.Stderr = strings.Repeat("x", 3*MaxOutput+1) },
		"that there is not": func(r *Result) { r.Violations = []Violation{"none"} },
		"too many":          func(r *Result) { r.Violations = make([]Violation, 7) },
	} {
		r := result()
		spoil(&r)
		_, err := ReadResult(strings.NewReader(text(t, r)), "r1")
		assert.ErrorContains(t, err, what)
	}
}

func TestTextOfTheSandboxCannotDriveATerminal(t *testing.T) {
	r := result()
	r.Stdout = "a\x1b[31mred\x07\r\u009b2J\u202ereversed\tb\n\u00e9"
	got, err := ReadResult(strings.NewReader(text(t, r)), "r1")
	require.NoError(t, err)
	assert.Equal(t, "a\ufffd[31mred\ufffd\ufffd\ufffd2J\ufffdreversed\tb\n\u00e9", got.Stdout)
	assert.Equal(t, "\ufffd", Clean("\xff\xfe"))
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	q := good()
	q.Stdin = "<&>"
	fill := func(n int) { q.Files[0].Content = strings.Repeat("x", n) }
	fill(0)
	text, err := q.Encode()
	require.NoError(t, err)
	assert.Contains(t, string(text), "<&>")
	fill(MaxRequest - len(text)) // the largest
	text, err = q.Encode()
	require.NoError(t, err)
	got, err := ReadRequest(bytes.NewReader(text))
	require.NoError(t, err)
	assert.Equal(t, q, got)
	q.Files[0].Content += "x"
	_, err = q.Encode()
	require.ErrorContains(t, err, "at most")
}

func TestATurnIsReadIfItIsOne(t *testing.T) {
	got, err := ReadTurn(strings.NewReader(`{"turn":"ABC234"}`))
	require.NoError(t, err)
	assert.Equal(t, "ABC234", got)
	for _, bad := range []string{``, `{}`, `{"turn":"a&b"}`, `{"turn":"A","x":1}`, `{"turn":"` + strings.Repeat("A", maxTurn) + `"}`} {
		_, err := ReadTurn(strings.NewReader(bad))
		assert.Error(t, err, bad)
	}
}

func FuzzReadRequest(f *testing.F) {
	f.Add([]byte(`{"run":"r","files":[{"path":"main.go","content":"x"}]}`))
	f.Add([]byte(`{"run":"r","files":[{"path":"../x","content":""}],"go":{"GOFLAGS":"x"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := ReadRequest(bytes.NewReader(b))
		if err != nil {
			return
		}
		for _, file := range q.Files {
			if !fs.ValidPath(file.Path) || file.Path == "." || strings.HasPrefix(file.Path+"/", Persist+"/") {
				t.Fatalf("path %q was taken", file.Path)
			}
		}
		for _, e := range q.Env() {
			if strings.ContainsAny(e, "\n\x00") || strings.HasPrefix(e, "GOFLAGS") {
				t.Fatalf("environment %q was taken", e)
			}
		}
	})
}

func FuzzReadResult(f *testing.F) {
	f.Add([]byte(`{"run":"r","build":{"ok":true,"durationMillis":1},"started":true,"exitCode":0,"stdout":"\u001b[0m","durationMillis":1}`))
	f.Add([]byte(`{"run":"r","exitCode":-2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ReadResult(bytes.NewReader(b), "r")
		if err != nil {
			return
		}
		for _, s := range []string{r.Stdout, r.Stderr, r.Build.Output, r.Signal} {
			if !utf8.ValidString(s) || strings.ContainsAny(s, "\x1b\r\x00\u009b\u202e") {
				t.Fatalf("%q would be shown", s)
			}
		}
		if r.Run != "r" || r.ExitCode < -1 || r.ExitCode > 255 {
			t.Fatalf("%+v was taken", r)
		}
	})
}
