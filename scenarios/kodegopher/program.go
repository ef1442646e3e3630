// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"bytes"
	"context"
	_ "embed" // the program
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

//go:embed program.go.txt
var programSource string

// serverPort is the sandbox's server port, at which its runner takes programs.
const serverPort = "8888"

// runProgram is honest work, and the canary of the kill matrix: a mutant in
// which this does not work is broken, not weakened. A program that is not built,
// fails, or prints anything else is Absent, because the answer is not there.
func runProgram() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.run-program",
		Title: "Build and run a Go program that uses its scratch space",
		About: "Asks the sandbox's own runner, on its loopback, for what the server would ask it: to build a Go program and to run it on an input that is " +
			"different in every attempt. The program writes the input to a file of its folder, reads it back, and counts its letters. The suite, outside of the " +
			"sandbox, compares what the program printed with what is right for that input. The control counts in another way outside of the sandbox, so that a " +
			"wrong expectation is noticed.",
		Claims: []string{"KG-10"}, Kind: suite.Function, Severity: suite.Medium,
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			began := time.Now()
			step := askRunner(ctx, net.JoinHostPort("127.0.0.1", serverPort), env.Nonce)
			step.Millis = time.Since(began).Milliseconds()
			return []verdict.Step{step}
		},
		Judge: judgeProgram,
		Control: suite.ControlSpec{Act: countAgain,
			Why: "the expected answer comes out of the same input in another way too, in a Pod without restrictions"},
		// A build takes a core for seconds, beside all other attacks.
		Timeout: 80 * time.Second,
		Mutants: []string{"kode-gopher-no-build-time"},
	}
}

// turn, request and result are the part of the runner's protocol that is needed
// here: what a request has to come with, the request, and its answer.
type turn struct {
	Turn  string `json:"turn"`
	Error string `json:"error"` // beside another status than 200
}

type request struct {
	Run           string `json:"run"`
	Files         []file `json:"files"`
	Stdin         string `json:"stdin"`
	TimeoutMillis int64  `json:"timeoutMillis"`
}

type file struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

type result struct {
	Build struct {
		OK             bool   `json:"ok"`
		Output         string `json:"output"`
		DurationMillis int64  `json:"durationMillis"`
	} `json:"build"`
	ExitCode       int      `json:"exitCode"`
	Stdout         string   `json:"stdout"`
	Stderr         string   `json:"stderr"`
	DurationMillis int64    `json:"durationMillis"`
	Violations     []string `json:"violations"`
	Error          string   `json:"error"` // beside another status than 200
}

const (
	runStep    = "run the program"
	maxResult  = 1 << 20 // bytes
	runMillis  = 20_000  // that the program may take
	slowMillis = 30_000  // from which on a limit of time may be a slow machine's
)

// askRunner has a program built and run. What it printed is the step's detail:
// whether that is right, only the suite can say.
func askRunner(ctx context.Context, addr, nonce string) verdict.Step {
	body, err := json.Marshal(request{
		Run: "stockade-" + nonce, Stdin: nonce, TimeoutMillis: runMillis, Files: []file{{"main.go", programSource}},
	})
	if err != nil {
		return probe.Failed(runStep, verdict.Unknown, "%v", err)
	}
	at := "http://" + addr + "/v1/run"
	status, text, err := send(ctx, http.MethodGet, at, nil)
	if err != nil {
		return noAnswer(err)
	}
	var next turn
	if err := json.Unmarshal(text, &next); err != nil {
		return noResult(status, text)
	}
	if status != http.StatusOK {
		return judgeResult(status, result{Error: next.Error})
	}
	status, text, err = send(ctx, http.MethodPost, at+"?"+url.Values{"turn": {next.Turn}}.Encode(), body)
	if err != nil {
		return noAnswer(err)
	}
	var r result
	if err := json.Unmarshal(text, &r); err != nil {
		return noResult(status, text)
	}
	return judgeResult(status, r)
}

func send(ctx context.Context, method, to string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	// Not the default transport: no proxy may be asked for the own loopback.
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxResult))
	return answer.StatusCode, text, err
}

func noResult(status int, text []byte) verdict.Step {
	return probe.Failed(runStep, verdict.Absent, "status %d, and no result: %.120q", status, text)
}

// noAnswer knows one error more than others do: a runner that is not there is no
// honest work. Everything else, slowness first, says nothing of it.
func noAnswer(err error) verdict.Step {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return probe.Failed(runStep, verdict.Absent, "no runner listens: %v", err)
	}
	return probe.Failed(runStep, verdict.Unknown, "%v", err)
}

// judgeResult is a pure function.
func judgeResult(status int, r result) verdict.Step {
	class := verdict.Absent
	var detail string
	switch {
	case status == http.StatusConflict:
		class, detail = verdict.Unknown, "the runner runs another program"
	case status != http.StatusOK:
		detail = fmt.Sprintf("status %d: %.120q", status, r.Error)
	case slices.ContainsFunc(r.Violations, func(v string) bool { return strings.HasSuffix(v, "time-limit") }) &&
		r.Build.DurationMillis+r.DurationMillis >= slowMillis:
		// Slow is not broken: a loaded machine must not look like a breach.
		class, detail = verdict.Unknown, fmt.Sprintf("out of time after %d ms", r.Build.DurationMillis+r.DurationMillis)
	case !r.Build.OK:
		detail = fmt.Sprintf("it was not built, after %d ms: %v %.120q", r.Build.DurationMillis, r.Violations, r.Build.Output)
	case r.ExitCode != 0 || r.Stderr != "" || len(r.Violations) > 0:
		detail = fmt.Sprintf("it ended with code %d: %v %.120q", r.ExitCode, r.Violations, r.Stderr)
	default:
		return verdict.Step{Name: runStep, Expect: verdict.MustWork, OK: true, Detail: r.Stdout}
	}
	return verdict.Step{Name: runStep, Expect: verdict.MustWork, Class: class, Detail: detail}
}

// judgeProgram compares what came back with what is right for the nonce. A step
// that says that it failed is believed.
func judgeProgram(nonce string, steps []verdict.Step) []verdict.Step {
	want := letters(nonce)
	for i := range steps {
		s := &steps[i]
		s.Expect = verdict.MustWork
		if s.OK && s.Detail != want {
			s.OK, s.Class, s.Detail = false, verdict.Absent, fmt.Sprintf("it is %q and should be %q", s.Detail, want)
		}
	}
	return steps
}

// letters are the letters of a text with their number, as the program prints
// them. An answer that was learnt before is wrong.
func letters(text string) string {
	var count [256]int
	for i := range len(text) {
		count[text[i]]++
	}
	var b strings.Builder
	for c, n := range count {
		if n > 0 {
			fmt.Fprintf(&b, "%c %d\n", c, n)
		}
	}
	return b.String()
}

// countAgain sorts the letters and measures the runs.
func countAgain(_ context.Context, env *probe.Env) []verdict.Step {
	const name = "count the letters outside"
	sorted := strings.Split(env.Nonce, "")
	slices.Sort(sorted)
	var b strings.Builder
	for len(sorted) > 0 {
		n := 1
		for n < len(sorted) && sorted[n] == sorted[0] {
			n++
		}
		fmt.Fprintf(&b, "%s %d\n", sorted[0], n)
		sorted = sorted[n:]
	}
	if want := letters(env.Nonce); b.String() != want {
		return []verdict.Step{probe.Failed(name, verdict.Unknown, "it is %q and should be %q", b.String(), want)}
	}
	return []verdict.Step{probe.Reached(name, "%q", b.String())}
}
