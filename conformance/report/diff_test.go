// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

func TestADiffTellsWhatGotWorse(t *testing.T) {
	was := &Report{Results: []Result{
		{ID: "a.same", Verdict: verdict.Held},
		{ID: "b.worse", Verdict: verdict.Held},
		{ID: "c.better", Verdict: verdict.Breached},
		{ID: "d.gone", Verdict: verdict.Held},
		{ID: "e.reason", Verdict: verdict.Inconclusive, Reason: verdict.NoFrame},
		{ID: "f.given-up", Verdict: verdict.Held},
	}}
	is := &Report{Results: []Result{
		{ID: "a.same", Verdict: verdict.Held},
		{ID: "b.worse", Verdict: verdict.Inconclusive, Reason: verdict.WitnessDead},
		{ID: "c.better", Verdict: verdict.Held},
		{ID: "e.reason", Verdict: verdict.Inconclusive, Reason: verdict.TargetGone},
		{ID: "f.given-up", Verdict: verdict.NotApplicable},
		{ID: "g.new", Verdict: verdict.Held},
		{ID: "h.new", Verdict: verdict.Breached},
	}}
	got := map[string]bool{}
	for _, c := range Diff(was, is) {
		got[c.ID] = c.Worse
	}
	assert.Equal(t, map[string]bool{
		"b.worse": true, "c.better": false, "d.gone": true, "e.reason": false,
		"f.given-up": true, "g.new": false, "h.new": true,
	}, got)

	var b bytes.Buffer
	require.NoError(t, WriteChanges(&b, Diff(was, is)))
	golden(t, "diff.txt", b.Bytes())
	assert.Empty(t, Diff(was, was))
	b.Reset()
	require.NoError(t, WriteChanges(&b, nil))
	assert.Equal(t, "No verdict changed.\n", b.String())
}

func TestADiffTellsWhichChecksDoNotSeeTheirMutantsAnyMore(t *testing.T) {
	cell := func(mutant, scenario string, fate runner.Fate) Mutant {
		return Mutant{ID: mutant, Scenario: scenario, Fate: fate}
	}
	was := &Report{Mutants: []Mutant{
		cell("m1", "a.same", runner.Killed), cell("m2", "a.same", runner.Killed), cell("m1", "b.survives", runner.Killed),
		cell("m1", "c.better", runner.Survived), cell("m1", "d.gone", runner.Killed), cell("m1", "e.void", runner.Killed),
	}}
	is := &Report{Mutants: []Mutant{
		cell("m2", "a.same", runner.Killed), cell("m1", "b.survives", runner.Killed), cell("m2", "b.survives", runner.Survived),
		cell("m1", "c.better", runner.Killed), cell("m1", "e.void", runner.Void),
		cell("m1", "f.new", runner.Killed), cell("m1", "g.new", runner.Void),
	}}
	got := map[string]Change{}
	for _, c := range Diff(was, is) {
		got[c.ID] = c
	}
	worse := map[string]bool{}
	for id, c := range got {
		worse[id] = c.Worse
	}
	assert.Equal(t, map[string]bool{"b.survives": true, "c.better": false, "d.gone": true, "e.void": true, "f.new": false, "g.new": true}, worse)
	assert.Equal(t, Change{ID: "b.survives", Before: "killed", After: "survived", Worse: true, Detail: "m2: "}, got["b.survives"])
	assert.Equal(t, Missing, got["d.gone"].After)
}
