// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// What a request and an answer may be, in bytes unless it says otherwise.
const (
	MaxRequest = 4 << 20
	// MaxResult has room for three outputs of MaxOutput in which every byte
	// takes six in JSON.
	MaxResult = 6 << 20
	// MaxOutput is the most that is kept of one output.
	MaxOutput = 256 << 10

	MaxFiles = 256 // files of a program
	MaxArgs  = 64  // arguments of a program
	maxPath  = 255 // a file's path
	maxDepth = 16  // elements of a file's path

	// MaxTimeout is the longest that a program may ask to run.
	MaxTimeout = 2 * time.Minute
)

// Where the program is built and runs, and what of it outlives the call.
const (
	// Persist is the folder, below the program's own, that is not wiped.
	Persist = "persist"
	// RunPath is where the runner takes requests, HealthPath where it says
	// whether it can.
	RunPath    = "/v1/run"
	HealthPath = "/healthz"
	// TurnParam is the parameter of RunPath with the [Turn] of the request.
	TurnParam = "turn"
)

// Turn is what a GET of [RunPath] answers: the word with which the next request
// has to come. There is another one after every run, so that a program cannot
// send a request that is taken when the program itself has ended.
type Turn struct {
	Turn string `json:"turn"`
}

// ReadTurn decodes a [Turn]. Errors mean that no runner of ours wrote it.
func ReadTurn(r io.Reader) (string, error) {
	var t Turn
	if err := decode(r, maxTurn, &t); err != nil {
		return "", fmt.Errorf("reading the turn: %w", err)
	}
	if !turn.MatchString(t.Turn) {
		return "", errors.New("reading the turn: it is none")
	}
	return t.Turn, nil
}

const maxTurn = 1 << 10 // bytes

var turn = regexp.MustCompile(`^[A-Z2-7]{1,64}$`)

// File is one file of a program.
type File struct {
	Path    string `json:"path" jsonschema:"path below the program's folder, with slashes"`
	Content string `json:"content" jsonschema:"the file's text"`
}

// Request is a program to be built and run.
type Request struct {
	// Run is the call's id: the answer repeats it.
	Run   string   `json:"run"`
	Files []File   `json:"files"`
	Args  []string `json:"args,omitempty"`
	Stdin string   `json:"stdin,omitempty"`
	// TimeoutMillis bounds the program's own time; 0 leaves it to the runner.
	TimeoutMillis int64 `json:"timeoutMillis,omitempty"`
	// Go is environment for the go command: only names of [GoNames].
	Go map[string]string `json:"go,omitempty"`
}

// GoNames are the variables of the go command that a request may set: where
// modules come from, and nothing that names a program to start.
var GoNames = []string{"GOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GONOPROXY"}

// Violation is a limit that a call met.
type Violation string

// The violations.
const (
	BuildTime Violation = "build-time-limit" // the build was stopped
	RunTime   Violation = "time-limit"       // the program was stopped
	Output    Violation = "output-limit"     // more was written than is kept
	FileSize  Violation = "file-size-limit"  // a file grew too large
	Killed    Violation = "killed"           // by somebody else: the kernel, for memory
	Leftover  Violation = "processes-left"   // processes outlived the program and were ended
)

var violations = []Violation{BuildTime, RunTime, Output, FileSize, Killed, Leftover}

// Build is what the go command said.
type Build struct {
	OK             bool   `json:"ok" jsonschema:"whether a program was built"`
	Output         string `json:"output,omitempty" jsonschema:"what go build wrote"`
	Truncated      bool   `json:"truncated,omitempty"`
	DurationMillis int64  `json:"durationMillis"`
}

// Result is what became of a request.
type Result struct {
	Run   string `json:"run" jsonschema:"the id of this run"`
	Build Build  `json:"build"`
	// Started is false when nothing was built.
	Started         bool        `json:"started" jsonschema:"whether the program was started"`
	ExitCode        int         `json:"exitCode" jsonschema:"the program's exit code; -1 if it did not exit by itself"`
	Signal          string      `json:"signal,omitempty" jsonschema:"the signal that ended the program"`
	Stdout          string      `json:"stdout,omitempty"`
	StdoutTruncated bool        `json:"stdoutTruncated,omitempty"`
	Stderr          string      `json:"stderr,omitempty"`
	StderrTruncated bool        `json:"stderrTruncated,omitempty"`
	DurationMillis  int64       `json:"durationMillis" jsonschema:"how long the program ran"`
	Violations      []Violation `json:"violations,omitempty" jsonschema:"the limits that were met"`
}

// ReadRequest decodes and checks a request. Errors say what is wrong with it;
// they are the sender's to read.
func ReadRequest(r io.Reader) (Request, error) {
	var q Request
	if err := decode(r, MaxRequest, &q); err != nil {
		return Request{}, fmt.Errorf("reading the request: %w", err)
	}
	if err := q.Check(); err != nil {
		return Request{}, err
	}
	return q, nil
}

// Encode returns a request as [ReadRequest] takes it. The error for one that is too
// large is the sender's to read.
func (q Request) Encode() ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // nobody shows it on a page, and it would be up to six times as large
	if err := enc.Encode(q); err != nil {
		return nil, fmt.Errorf("writing the request: %w", err)
	}
	if text.Len() > MaxRequest {
		return nil, fmt.Errorf("writing the request: files, arguments and input have %d bytes as JSON; at most %d are taken", text.Len(), MaxRequest)
	}
	return text.Bytes(), nil
}

// decode reads exactly one JSON value of known fields.
func decode(r io.Reader, limit int64, into any) error {
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return err
	}
	if int64(len(text)) > limit {
		return fmt.Errorf("it is larger than %d bytes", limit)
	}
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows after its end")
	}
	return nil
}

var runID = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Check returns an error if the request is not one that a runner takes.
func (q Request) Check() error {
	if !runID.MatchString(q.Run) {
		return errors.New("checking the request: run must be an id of up to 63 lower-case letters, digits and dashes")
	}
	if len(q.Files) == 0 || len(q.Files) > MaxFiles {
		return fmt.Errorf("checking the request: it has %d files; 1 to %d are taken", len(q.Files), MaxFiles)
	}
	if err := checkFiles(q.Files); err != nil {
		return fmt.Errorf("checking the request: %w", err)
	}
	if len(q.Args) > MaxArgs {
		return fmt.Errorf("checking the request: it has %d arguments; at most %d are taken", len(q.Args), MaxArgs)
	}
	for _, a := range q.Args {
		if strings.ContainsRune(a, 0) {
			return errors.New("checking the request: an argument contains a zero byte")
		}
	}
	if q.TimeoutMillis < 0 || q.TimeoutMillis > MaxTimeout.Milliseconds() {
		return fmt.Errorf("checking the request: timeoutMillis must be 0 to %d", MaxTimeout.Milliseconds())
	}
	for name, value := range q.Go {
		if !slices.Contains(GoNames, name) {
			return fmt.Errorf("checking the request: the go command's variable %.40q cannot be set", name)
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' }) {
			return fmt.Errorf("checking the request: the value of %s has control characters", name)
		}
	}
	return nil
}

func checkFiles(files []File) error {
	size := 0
	seen, folders := map[string]bool{}, map[string]bool{}
	for _, f := range files {
		if err := checkPath(f.Path); err != nil {
			return err
		}
		if size += len(f.Content); size > MaxRequest {
			return fmt.Errorf("the files are larger than %d bytes", MaxRequest)
		}
		if seen[f.Path] {
			return fmt.Errorf("the path %q comes twice", f.Path)
		}
		seen[f.Path] = true
		for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	// The runner makes one for a program that brings none.
	if folders["go.mod"] {
		return errors.New("go.mod is a file, and no folder")
	}
	for folder := range folders {
		if seen[folder] {
			return fmt.Errorf("the path %q is a file and a folder", folder)
		}
	}
	return nil
}

// checkPath refuses what is no plain relative path. The runner opens files
// below one folder only and does not depend on this; the sender is told here.
func checkPath(p string) error {
	elements := strings.Split(p, "/")
	switch {
	case p == "." || !fs.ValidPath(p) || len(p) > maxPath || len(elements) > maxDepth:
		return fmt.Errorf("the path %.80q is not a relative path of at most %d bytes and %d elements", p, maxPath, maxDepth)
	case strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' || r == utf8.RuneError }):
		return fmt.Errorf("the path %.80q has characters that no file name of a program needs", p)
	case elements[0] == Persist:
		return fmt.Errorf("the path %.80q lies in %s, which belongs to the program and not to its source", p, Persist)
	}
	return nil
}

// ReadResult decodes the answer to the request with the id run. Whatever is in
// it is a claim of the sandbox; what comes back here has the form of a result,
// and texts that can be shown. Errors mean that no runner of ours wrote it.
func ReadResult(r io.Reader, run string) (Result, error) {
	var res Result
	if err := decode(r, MaxResult, &res); err != nil {
		return Result{}, fmt.Errorf("reading the result: %w", err)
	}
	if err := res.check(run); err != nil {
		return Result{}, fmt.Errorf("checking the result: %w", err)
	}
	res.Build.Output = Clean(res.Build.Output)
	res.Stdout, res.Stderr = Clean(res.Stdout), Clean(res.Stderr)
	return res, nil
}

// maxDuration is longer than a build and a run can take together, with a wide
// margin for a node that is busy.
const maxDuration = time.Hour

func (r Result) check(run string) error {
	if r.Run != run {
		return errors.New("it is the answer to another run")
	}
	if r.Started && !r.Build.OK {
		return errors.New("a program ran that was not built")
	}
	if r.ExitCode < -1 || r.ExitCode > 255 {
		return errors.New("the exit code is none")
	}
	if len(r.Signal) > 40 || strings.ContainsFunc(r.Signal, func(c rune) bool { return c != ' ' && c != '/' && (c < 'a' || c > 'z') && (c < '0' || c > '9') }) {
		return errors.New("the signal is none")
	}
	for _, d := range []int64{r.DurationMillis, r.Build.DurationMillis} {
		if d < 0 || d > maxDuration.Milliseconds() {
			return errors.New("a duration is none")
		}
	}
	for _, s := range []string{r.Stdout, r.Stderr, r.Build.Output} {
		if len(s) > 3*MaxOutput { // replaced characters take three bytes
			return errors.New("an output is longer than a runner keeps")
		}
	}
	if len(r.Violations) > len(violations) {
		return errors.New("it names too many violations")
	}
	for _, v := range r.Violations {
		if !slices.Contains(violations, v) {
			return errors.New("it names a violation that there is not")
		}
	}
	return nil
}

// Clean returns text that can be shown: valid UTF-8, and of the control
// characters, which could move a terminal's cursor or turn around the direction
// of what a person reads, only tab and newline. All others become U+FFFD.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < ' ', r >= 0x7f && r < 0xa0, // C0, DEL and C1
			r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // bidirectional overrides
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
}

// Env returns the request's variables for the go command, sorted.
func (q Request) Env() []string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(q.Go)) {
		env = append(env, name+"="+q.Go[name])
	}
	return env
}
