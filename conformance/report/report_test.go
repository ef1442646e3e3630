// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

var update = flag.Bool("update", false, "write the golden files anew")

var t0 = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func scenario(id string, claims ...string) *suite.Scenario {
	return &suite.Scenario{
		ID: id, Title: "Do what " + id + " says", Claims: claims, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1048"}, Control: suite.ControlSpec{Why: "the same action works without a policy"},
	}
}

func attemptOf(nonce string, steps ...verdict.Step) verdict.Attempt {
	return verdict.Attempt{Nonce: strings.Repeat(nonce, 32), Complete: true, Steps: steps, Start: t0, End: t0.Add(time.Second)}
}

func round(e verdict.Evidence) runner.Round {
	return runner.Round{Evidence: e, Result: verdict.Decide(e)}
}

func held() verdict.Evidence {
	return verdict.Evidence{
		Attempts:    []verdict.Attempt{attemptOf("a", verdict.Step{Name: "connect", Class: verdict.Dropped, Millis: 1500}), attemptOf("b", verdict.Step{Name: "connect", Class: verdict.Dropped, Millis: 1501})},
		MinAttempts: 2, Accept: []verdict.Class{verdict.Dropped},
		Controls:   []verdict.Attempt{attemptOf("c", verdict.Step{Name: "connect", OK: true, Millis: 3})},
		Require:    []string{suite.RangeLog},
		Statements: []verdict.Statement{{Witness: suite.RangeLog, Live: true, Agrees: true, Detail: "control seen, attack not"}},
	}
}

// hostile is what a sandbox says that wants to be believed, or worse.
const hostile = "\x1b[2J\x1b[1;1Hall held\u202e]]><b>\xff\x00 Authorization: Bearer abcdefghijklmnop1234 \ufeff"

// sample is a run with one scenario of each verdict, made by the same
// functions as in earnest.
func sample() *runner.Run {
	breached := held()
	breached.Attempts[1].Steps[0] = verdict.Step{Name: "connect", OK: true, Detail: hostile, Millis: 4}
	silent := held()
	silent.Statements = nil
	outcome := func(s *suite.Scenario, took time.Duration, rounds ...runner.Round) runner.Outcome {
		return runner.Outcome{Scenario: s, Result: rounds[len(rounds)-1].Result, Rounds: rounds, Took: took}
	}
	return &runner.Run{
		ID: "0123456789abcdef", Started: t0, Ended: t0.Add(31250 * time.Millisecond), Target: "reference",
		Substrate: map[string]string{"kubernetes": "v1.36.3", "kernel": "6.1", "gvisor": "systrap"},
		Differs:   []string{"the metadata server is the range's"},
		Outcomes: []runner.Outcome{
			outcome(scenario("egress.tcp", "AS-05"), 3100*time.Millisecond, round(held())),
			outcome(scenario("egress.metadata", "AS-03", "AS-05"), 3*time.Second, round(breached)),
			outcome(scenario("egress.udp", "AS-06"), 2*time.Second, round(silent), round(held())),
			outcome(scenario("disk.root", "AS-07"), time.Second, round(silent)),
			{Scenario: scenario("cpu.loop", "AS-09")},
			{Scenario: scenario("egress.ipv6", "AS-06"), Result: verdict.Skip("the target declares no IPv6, and has none")},
		},
		Residue: []string{"Pod default/control-0123 \x1b[31m"},
	}
}

func kills() []runner.Kill {
	return []runner.Kill{
		{Mutant: "open-egress", Scenario: "egress.tcp", Fate: runner.Killed, Result: verdict.Breach("connected"), Took: 5 * time.Second},
		{Mutant: "no-limit", Scenario: "cpu.loop", Fate: runner.Void, Detail: "the Pod did not start"},
	}
}

func made(t *testing.T) *Report {
	t.Helper()
	r, err := From(sample(), kills())
	require.NoError(t, err)
	return r
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "go test ./conformance/report -update writes it")
	assert.Equal(t, string(want), string(got))
}

func TestTheFormsLookAsTheyDid(t *testing.T) {
	r := made(t)
	var text, verbose, doc, junit bytes.Buffer
	require.NoError(t, r.Text(&text, Style{}))
	require.NoError(t, r.Text(&verbose, Style{Verbose: true, Color: true}))
	require.NoError(t, r.JSON(&doc))
	require.NoError(t, r.JUnit(&junit))
	golden(t, "report.txt", text.Bytes())
	golden(t, "report-verbose.txt", verbose.Bytes())
	golden(t, "report.json", doc.Bytes())
	golden(t, "report.xml", junit.Bytes())
}

func TestEveryIDStandsInItExactlyOnceWithTheDenominator(t *testing.T) {
	r := made(t)
	assert.Len(t, r.Results, 6)
	assert.Equal(t, "2 held of 6, 1 breached, 1 inconclusive, 1 not run, 1 not applicable", r.Summary.Text)
	assert.Equal(t, verdict.Breached, r.Summary.Verdict)

	twice := sample()
	twice.Outcomes = append(twice.Outcomes, twice.Outcomes[0])
	_, err := From(twice, nil)
	assert.ErrorContains(t, err, "twice")
}

func TestAClaimHasTheWorstVerdictOfItsScenarios(t *testing.T) {
	got := map[string]verdict.Verdict{}
	for _, c := range made(t).Claims {
		got[c.ID] = c.Verdict
	}
	assert.Equal(t, map[string]verdict.Verdict{
		"AS-03": verdict.Breached, "AS-05": verdict.Breached, "AS-06": verdict.Held, "AS-07": verdict.Inconclusive, "AS-09": verdict.NotRun,
	}, got)
}

func TestNothingOfTheSandboxReachesAReaderUnescaped(t *testing.T) {
	r := made(t)
	for name, write := range map[string]func(*bytes.Buffer) error{
		"json":  func(b *bytes.Buffer) error { return r.JSON(b) },
		"text":  func(b *bytes.Buffer) error { return r.Text(b, Style{Verbose: true}) },
		"junit": func(b *bytes.Buffer) error { return r.JUnit(b) },
	} {
		var b bytes.Buffer
		require.NoError(t, write(&b))
		for _, bad := range []string{"\x1b", "\u202e", "\x00", "\xff", "\ufeff", "<b>all", "abcdefghijklmnop1234"} {
			assert.NotContains(t, b.String(), bad, "%s with %q", name, bad)
		}
		assert.Contains(t, b.String(), `\u202e`, "%s shows that something was there", name)
		assert.Contains(t, b.String(), "sha256:", "%s names the secret by its digest", name)
	}
}

func TestJUnitIsXMLAndCountsWhatItHolds(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, made(t).JUnit(&b))
	var back junitSuites
	require.NoError(t, xml.Unmarshal(b.Bytes(), &back))
	// Six scenarios, two cells of the matrix of which one is void, and the residue.
	assert.Equal(t, [4]int{9, 2, 3, 1}, [4]int{back.Tests, back.Failures, back.Errors, back.Skipped})
}

// Who gates on the file alone sees all that the exit code speaks of.
func TestJUnitFailsWhereTheExitCodeDoes(t *testing.T) {
	sound := func() *runner.Run {
		run := sample()
		run.Outcomes, run.Residue = run.Outcomes[:1], nil
		return run
	}
	killed := []runner.Kill{kills()[0]}
	for name, c := range map[string]struct {
		change func(*runner.Run)
		kills  []runner.Kill
	}{
		"nothing is wrong":  {func(*runner.Run) {}, killed},
		"a mutant survived": {func(*runner.Run) {}, []runner.Kill{{Mutant: "m", Scenario: "egress.tcp", Fate: runner.Survived}}},
		"a mutant is void":  {func(*runner.Run) {}, []runner.Kill{{Mutant: "m", Scenario: "egress.tcp", Fate: runner.Void}}},
		"it ended early":    {func(r *runner.Run) { r.Incomplete = "interrupted" }, killed},
		"nothing applied":   {func(r *runner.Run) { r.Outcomes = sample().Outcomes[5:] }, nil},
		"nothing that was asked for applied": {func(r *runner.Run) {
			r.Outcomes = append(r.Outcomes, sample().Outcomes[5])
			r.Outcomes[0].Added = true
		}, nil},
		"something is left": {func(r *runner.Run) { r.Residue = []string{"Pod a/b"} }, killed},
	} {
		run := sound()
		c.change(run)
		r, err := From(run, c.kills)
		require.NoError(t, err)
		var b bytes.Buffer
		require.NoError(t, r.JUnit(&b))
		var back junitSuites
		require.NoError(t, xml.Unmarshal(b.Bytes(), &back))
		assert.Equal(t, r.ExitCode() != verdict.ExitConformant, back.Failures+back.Errors > 0, name)
	}
}

func TestTheRunIsNotChangedByReportingIt(t *testing.T) {
	run := sample()
	_, err := From(run, nil)
	require.NoError(t, err)
	assert.Equal(t, hostile, run.Outcomes[1].Rounds[0].Evidence.Attempts[1].Steps[0].Detail)
}

func TestAReportIsReadBackAsItWasWritten(t *testing.T) {
	r := made(t)
	var b bytes.Buffer
	require.NoError(t, r.JSON(&b))
	back, err := Read(&b)
	require.NoError(t, err)
	assert.Equal(t, r, back)
}

func TestEveryTimeOfAReportIsInUTC(t *testing.T) {
	var b, text bytes.Buffer
	require.NoError(t, made(t).JSON(&b))
	elsewhere := strings.Replace(b.String(), `"started": "2026-11-29T12:00:00Z"`, `"started": "2026-11-29T14:00:00+02:00"`, 1)
	require.NotEqual(t, b.String(), elsewhere)
	r, err := Read(strings.NewReader(elsewhere))
	require.NoError(t, err)
	require.NoError(t, r.Text(&text, Style{}))
	assert.Contains(t, text.String(), "2026-11-29 12:00 UTC")
}

func TestADocumentThatDoesNotAddUpIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(map[string]any)
		want  string
	}{
		"another version": {func(d map[string]any) { d["apiVersion"] = "v9" }, "apiVersion"},
		"another kind":    {func(d map[string]any) { d["kind"] = "Pod" }, "kind"},
		"a newer version": {func(d map[string]any) { d["extra"] = 1 }, `"extra": was it written by this version`},
		"a made-up verdict": {func(d map[string]any) {
			resultOf(d, 0)["verdict"] = "held"
		}, "not one of the five"},
		"Held without a round": {func(d map[string]any) {
			resultOf(d, 0)["verdict"] = "Held"
		}, "its last round is not"},
		"Held without a control": {func(d map[string]any) {
			delete(roundOf(resultOf(d, 4)), "controls")
		}, "control-missing"},
		"Held by an incomplete attempt": {func(d map[string]any) {
			roundOf(resultOf(d, 4))["attempts"].([]any)[0].(map[string]any)["complete"] = false
		}, "no-completion-frame"},
		"a breach called held": {func(d map[string]any) {
			resultOf(d, 2)["verdict"] = "Held"
		}, "its last round is not"},
		"a breach called inconclusive": {func(d map[string]any) {
			resultOf(d, 3)["verdict"] = "Inconclusive"
		}, "one of its rounds is Breached"},
		"a better summary": {func(d map[string]any) {
			d["summary"].(map[string]any)["text"] = "6 held of 6"
		}, "the summary says"},
		"a forgotten result": {func(d map[string]any) {
			d["results"] = d["results"].([]any)[1:]
		}, "the summary says"},
		"an id twice": {func(d map[string]any) {
			d["results"] = append(d["results"].([]any), d["results"].([]any)[0])
		}, "twice"},
		"a kill without a breach": {func(d map[string]any) {
			d["mutants"].([]any)[1].(map[string]any)["verdict"] = "Held"
		}, "called killed"},
		"a claim without its scenario": {func(d map[string]any) {
			d["claims"] = d["claims"].([]any)[1:]
		}, "claims"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			require.NoError(t, made(t).JSON(&b))
			var doc map[string]any
			require.NoError(t, json.Unmarshal(b.Bytes(), &doc))
			c.spoil(doc)
			spoilt, err := json.Marshal(doc)
			require.NoError(t, err)
			_, err = Read(bytes.NewReader(spoilt))
			assert.ErrorContains(t, err, c.want)
		})
	}
	for name, doc := range map[string]string{"nothing": "", "a list": "[]", "half": `{"apiVersion":`, "two": twoReports(t)} {
		_, err := Read(strings.NewReader(doc))
		assert.Error(t, err, name)
	}
}

// The results of the sample in the report's order: cpu.loop, disk.root,
// egress.ipv6, egress.metadata, egress.tcp, egress.udp.
func resultOf(d map[string]any, i int) map[string]any {
	return d["results"].([]any)[i].(map[string]any)
}

func roundOf(r map[string]any) map[string]any { return r["rounds"].([]any)[0].(map[string]any) }

func twoReports(t *testing.T) string {
	var b bytes.Buffer
	require.NoError(t, made(t).JSON(&b))
	return b.String() + b.String()
}

func FuzzReadIsCalmAndWhatItAcceptsIsClean(f *testing.F) {
	r, err := From(sample(), kills())
	require.NoError(f, err)
	var b bytes.Buffer
	require.NoError(f, r.JSON(&b))
	f.Add(b.Bytes())
	f.Add([]byte(`{"apiVersion":"stockade.dev/v1alpha1","kind":"Report","summary":{"verdict":"Inconclusive","text":"0 held of 0"}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		r, err := Read(bytes.NewReader(doc))
		if err != nil {
			return
		}
		var out bytes.Buffer
		require.NoError(t, r.Text(&out, Style{Verbose: true}))
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSuffix(line, "\n")
			assert.Equal(t, Clean(line), line)
		}
		require.NoError(t, r.JUnit(&out))
	})
}

func TestAVerdictWithoutAWitnessSaysSo(t *testing.T) {
	run := sample()
	alone := *run.Outcomes[0].Scenario
	alone.Attack = func(context.Context, *probe.Env) []verdict.Step { return nil }
	witnessed := alone
	witnessed.Witnesses = []suite.Witness{{Name: suite.RangeLog}}
	for _, tc := range []struct {
		s    suite.Scenario
		want bool
	}{{alone, true}, {witnessed, false}} {
		run.Outcomes[0].Scenario = &tc.s
		r, err := From(run, nil)
		require.NoError(t, err)
		var text bytes.Buffer
		require.NoError(t, r.Text(&text, Style{}))
		assert.Equal(t, tc.want, strings.Contains(text.String(), "Do what egress.tcp says (probe's word only)"), text.String())
	}
}
