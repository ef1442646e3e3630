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
			"and compares standard output byte by byte. The control adds up the same statement in another way outside the sandbox, " +
			"so that a wrong expectation is noticed.",
		Claims:   []string{"AS-15"},
		Kind:     suite.Function,
		Severity: suite.Medium,
		Attack:   runCoffee,
		Control: suite.ControlSpec{Act: addUp,
			Why: "The expected totals come out of the statement by another way too, in a Pod without restrictions."},
		Timeout: 20 * time.Second,
		Mutants: []string{"python-home-missing"},
	}
}

func runCoffee(ctx context.Context, env *probe.Env) []verdict.Step {
	step := verdict.Step{Name: "run the program", Expect: verdict.MustWork, Class: verdict.Absent}
	text, want := statement(env.Nonce)
	cmd := exec.CommandContext(ctx, "python3", "-c", coffeeScript) //nolint:gosec // it is our own program
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), &out, &errs
	began := time.Now()
	err := cmd.Run()
	step.Millis = time.Since(began).Milliseconds()
	switch {
	case ctx.Err() != nil:
		// Slow is not broken: a loaded machine must not look like a breach.
		step.Class, step.Detail = verdict.Unknown, "out of time"
	case errors.Is(err, exec.ErrNotFound):
		step.Detail = "the sandbox has no python3"
	case err != nil:
		step.Detail = fmt.Sprintf("%v: %s", err, lastLine(errs.String()))
	case out.String() != want:
		step.Detail = fmt.Sprintf("the totals are %q and should be %q", out.String(), want)
	default:
		step.OK, step.Class, step.Detail = true, "", "the totals are right"
	}
	return []verdict.Step{step}
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
