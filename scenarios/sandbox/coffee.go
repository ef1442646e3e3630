// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

//go:embed coffee.py
var coffeeScript string

// coffeeTotals is honest work, and the canary of the kill matrix: a mutant in
// which this does not work is broken, not weakened. A wrong or missing answer
// is Absent, because the totals are not there.
func coffeeTotals() suite.Scenario {
	return suite.Scenario{
		ID:    "sandbox.coffee-totals",
		Title: "Add up a statement",
		About: "Runs a short Python program as an argument, with a statement on standard input that is different in every attempt, " +
			"and returns what it wrote. The runner, outside of the sandbox, compares standard output byte by byte with the totals of that " +
			"statement; standard error has to be empty. The control adds up the same statement in another way outside the sandbox, " +
			"so that a wrong expectation is noticed.",
		Claims:   []string{"AS-15"},
		Kind:     suite.Function,
		Severity: suite.Medium,
		Attack:   runCoffee,
		Judge:    judgeCoffee,
		Control: suite.ControlSpec{Act: addUp,
			Why: "The expected totals come out of the statement by another way too, in a Pod without restrictions."},
		Timeout: 20 * time.Second,
		Mutants: []string{"python-home-missing"},
	}
}

// The two steps of a program that ended with 0: their details are what it
// wrote.
const (
	onStdout = "write to standard output"
	onStderr = "write nothing to standard error"
)

// runCoffee returns what the program wrote, and leaves to the runner whether
// that is right: an answer that is checked where it was made is only a claim.
func runCoffee(ctx context.Context, env *probe.Env) []verdict.Step {
	step := verdict.Step{Name: "run the program", Expect: verdict.MustWork, Class: verdict.Absent}
	text, _ := statement(env.Nonce)
	cmd := exec.CommandContext(ctx, "python3", "-c", coffeeScript)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), &out, &errs
	began := time.Now()
	err := cmd.Run()
	step.Millis = time.Since(began).Milliseconds()
	switch {
	case ctx.Err() != nil:
		// Slow is not broken: a loaded machine must not look like a breach.
		step.Class, step.Detail = verdict.Unknown, "out of time"
	case err != nil:
		step.Class, step.Detail = noTotals(err, errs.String())
	default:
		return []verdict.Step{
			{Name: onStdout, Expect: verdict.MustWork, OK: true, Detail: out.String(), Millis: step.Millis},
			{Name: onStderr, Expect: verdict.MustWork, OK: true, Detail: errs.String()},
		}
	}
	return []verdict.Step{step}
}

// noTotals reads why the program did not end well. That the sandbox has no more
// processes or files is its other attacks' doing, of which many are made at a
// time. It is a pure function.
func noTotals(err error, said string) (verdict.Class, string) {
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return verdict.Absent, "the sandbox has no python3"
	case probe.Classify(err) == verdict.ResourceLimit:
		return verdict.Unknown, err.Error()
	}
	return verdict.Absent, fmt.Sprintf("%v: %s", err, lastLine(said))
}

// judgeCoffee compares what came back with what is right for the nonce. A step
// that says that it failed is believed, and so is none at all; everything else
// has to be the two steps of a program that worked.
func judgeCoffee(nonce string, steps []verdict.Step) []verdict.Step {
	for i := range steps {
		steps[i].Expect = verdict.MustWork
	}
	if len(steps) == 0 || slices.ContainsFunc(steps, func(s verdict.Step) bool { return !s.OK }) {
		return steps
	}
	if len(steps) != 2 || steps[0].Name != onStdout || steps[1].Name != onStderr {
		return []verdict.Step{{Name: "read the totals", Expect: verdict.MustWork, Class: verdict.Unknown,
			Detail: fmt.Sprintf("the sandbox sent %d steps, and not what the program wrote", len(steps))}}
	}
	_, want := statement(nonce)
	for i, right := range []string{want, ""} {
		if s := &steps[i]; s.Detail != right {
			s.OK, s.Class, s.Detail = false, verdict.Absent, fmt.Sprintf("it is %q and should be %q", s.Detail, right)
		}
	}
	return steps
}

// addUp reads the statement with another parser and another arithmetic.
func addUp(_ context.Context, env *probe.Env) []verdict.Step {
	step := verdict.Step{Name: "add up the statement outside"}
	text, want := statement(env.Nonce)
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		step.Class, step.Detail = verdict.Unknown, err.Error()
		return []verdict.Step{step}
	}
	sums := map[string]float64{}
	for _, row := range rows[1:] {
		amount, err := strconv.ParseFloat(row[2], 64)
		if err != nil {
			step.Class, step.Detail = verdict.Unknown, err.Error()
			return []verdict.Step{step}
		}
		if strings.HasPrefix(row[0], "2026-10") {
			sums[row[1]] += amount
		}
	}
	var got strings.Builder
	for _, category := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&got, "%s %.2f\n", category, sums[category])
	}
	if step.OK = got.String() == want; !step.OK {
		step.Class, step.Detail = verdict.Unknown, fmt.Sprintf("the sums are %q and should be %q", got.String(), want)
	}
	return []verdict.Step{step}
}

// statement makes a CSV of transactions out of the nonce, and the totals for
// October that are right for it. An answer that was learnt before is wrong.
func statement(nonce string) (text, totals string) {
	categories := []string{"books", "coffee", "groceries", "transport"}
	cents := map[string]int{}
	var b strings.Builder
	b.WriteString("date,category,amount\n")
	for i := range 200 {
		h := fnv.New32a()
		_, _ = fmt.Fprintf(h, "%s/%d", nonce, i) // a hash takes everything
		n := int(h.Sum32() >> 1)
		category, amount, month := categories[n%len(categories)], 1+n/7%9999, 9+n/3%3
		fmt.Fprintf(&b, "2026-%02d-%02d,%s,%d.%02d\n", month, 1+i%28, category, amount/100, amount%100)
		if month == 10 {
			cents[category] += amount
		}
	}
	var t strings.Builder
	for _, category := range slices.Sorted(maps.Keys(cents)) {
		fmt.Fprintf(&t, "%s %d.%02d\n", category, cents[category]/100, cents[category]%100)
	}
	return b.String(), t.String()
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
