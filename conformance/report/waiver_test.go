// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

func waiver(id string) Waiver {
	return Waiver{Scenario: id, Reason: "known, see the tracker", Owner: "platform", Expires: "2026-11-29"}
}

func known(id string) bool { return id == "egress.tcp" || id == "egress.metadata" }

func TestAWaiverNamesReasonOwnerAndDate(t *testing.T) {
	const good = "waivers:\n- {scenario: egress.tcp, reason: r, owner: o, expires: 2026-11-29}\n"
	got, err := Waivers([]byte(good), known, t0)
	require.NoError(t, err)
	assert.Len(t, got, 1)

	for name, c := range map[string]struct{ doc, want string }{
		"no reason":        {"waivers: [{scenario: egress.tcp, owner: o, expires: 2026-11-29}]", "must be set"},
		"no owner":         {"waivers: [{scenario: egress.tcp, reason: r, expires: 2026-11-29}]", "must be set"},
		"no date":          {"waivers: [{scenario: egress.tcp, reason: r, owner: o}]", "must be set"},
		"an unknown id":    {"waivers: [{scenario: egress.tpc, reason: r, owner: o, expires: 2026-11-29}]", "no such scenario"},
		"a family":         {"waivers: [{scenario: egress, reason: r, owner: o, expires: 2026-11-29}]", "no such scenario"},
		"no date at all":   {"waivers: [{scenario: egress.tcp, reason: r, owner: o, expires: soon}]", "must be a date"},
		"expired":          {"waivers: [{scenario: egress.tcp, reason: r, owner: o, expires: 2026-11-28}]", "expired"},
		"a misspelt field": {"waivers: [{scenaro: egress.tcp}]", "scenaro"},
		"another document": {"- egress.tcp", "reading the waivers"},
		"twice":            {good + "- {scenario: egress.tcp, reason: r, owner: o, expires: 2026-11-29}", "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Waivers([]byte(c.doc), known, t0)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func TestAWaiverLastsToTheEndOfItsDay(t *testing.T) {
	doc := []byte("waivers: [{scenario: egress.tcp, reason: r, owner: o, expires: 2026-11-29}]")
	_, err := Waivers(doc, known, time.Date(2026, 11, 29, 23, 59, 59, 0, time.UTC))
	assert.NoError(t, err)
	_, err = Waivers(doc, known, time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC))
	assert.Error(t, err)
}

func TestAWaiverChangesTheExitCodeAndNoVerdict(t *testing.T) {
	run := sample()
	run.Outcomes, run.Residue = run.Outcomes[:3], nil // held, breached, held
	r, err := From(run, nil)
	require.NoError(t, err)
	assert.Equal(t, verdict.ExitBreached, r.ExitCode())

	unused := r.Waive([]Waiver{waiver("egress.metadata"), waiver("egress.tcp"), waiver("of.another-run")})
	assert.Equal(t, []string{"egress.tcp"}, unused, "what is held needs none")
	assert.Equal(t, verdict.ExitConformant, r.ExitCode())
	assert.Equal(t, verdict.Breached, r.Summary.Verdict)
	var b bytes.Buffer
	require.NoError(t, r.Text(&b, Style{}))
	assert.Contains(t, b.String(), "waived until 2026-11-29 by platform: egress.metadata")
	require.NoError(t, r.Validate())
}

// Whoever could write a waiver into a kept report as they like would make its exit
// code zero.
func TestAReportWithAWaiverThatNoRunWouldTakeIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Report)
		want   string
	}{
		"as the run took it": {func(*Report) {}, ""},
		"a run at midnight":  {func(r *Report) { r.Started = time.Date(2026, 11, 30, 0, 0, 5, 0, time.UTC) }, ""},
		"expired":            {func(r *Report) { r.Waivers[0].Expires = "2026-11-28" }, "expired"},
		"without a reason":   {func(r *Report) { r.Waivers[0].Reason = "" }, "must be set"},
		"without an owner":   {func(r *Report) { r.Waivers[0].Owner = "" }, "must be set"},
		"without an end":     {func(r *Report) { r.Waivers[0].Expires = "" }, "must be set"},
		"without a scenario": {func(r *Report) { r.Waivers[0].Scenario = "" }, "must be set"},
		"of another report":  {func(r *Report) { r.Waivers[0].Scenario = "of.another-run" }, "no such scenario"},
		"twice":              {func(r *Report) { r.Waivers = append(r.Waivers, r.Waivers[0]) }, "waived twice"},
	} {
		t.Run(name, func(t *testing.T) {
			r := made(t)
			require.Empty(t, r.Waive([]Waiver{waiver("egress.metadata")}))
			require.Len(t, r.Waivers, 1)
			c.change(r)
			var b bytes.Buffer
			require.NoError(t, r.JSON(&b))
			_, err := Read(&b)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func TestTheExitCode(t *testing.T) {
	exitCode := func(change func(*runner.Run), kills ...runner.Kill) int {
		run := sample()
		run.Outcomes, run.Residue = run.Outcomes[:1], nil
		change(run)
		r, err := From(run, kills)
		require.NoError(t, err)
		return r.ExitCode()
	}
	assert.Equal(t, verdict.ExitConformant, exitCode(func(*runner.Run) {}))
	assert.Equal(t, verdict.ExitResidue, exitCode(func(r *runner.Run) { r.Residue = []string{"a Pod"} }))
	assert.Equal(t, verdict.ExitInconclusive, exitCode(func(r *runner.Run) { r.Incomplete = "interrupted" }))
	assert.Equal(t, verdict.ExitInconclusive, exitCode(func(r *runner.Run) { r.Outcomes = nil }), "nothing tested")
	assert.Equal(t, verdict.ExitBreached, exitCode(func(r *runner.Run) { *r = *sample() }), "a breach outweighs all else")
	assert.Equal(t, verdict.ExitInconclusive, exitCode(func(*runner.Run) {}, kills()...), "a void mutant")
	assert.Equal(t, verdict.ExitConformant, exitCode(func(*runner.Run) {}, kills()[0]))
	survivor := runner.Kill{Mutant: "open-egress", Scenario: "egress.udp", Fate: runner.Survived}
	assert.Equal(t, verdict.ExitBreached, exitCode(func(*runner.Run) {}, survivor))
}

func TestWithEverythingWaivedNothingWasShown(t *testing.T) {
	run := sample()
	run.Outcomes, run.Residue = run.Outcomes[1:2], nil
	r, err := From(run, nil)
	require.NoError(t, err)
	assert.Empty(t, r.Waive([]Waiver{waiver("egress.metadata")}))
	assert.Equal(t, verdict.ExitInconclusive, r.ExitCode())
	var b bytes.Buffer
	require.NoError(t, r.Text(&b, Style{}))
	assert.Contains(t, b.String(), nothingShown)

	// That policies are enforced was added by the runner: it is no answer to what was asked.
	run.Outcomes = sample().Outcomes[:2]
	run.Outcomes[0].Added = true
	r, err = From(run, nil)
	require.NoError(t, err)
	r.Waive([]Waiver{waiver("egress.metadata")})
	assert.Equal(t, verdict.ExitInconclusive, r.ExitCode())
	r.Results[1].Added = false // egress.tcp; now it was asked for
	require.Equal(t, "egress.tcp", r.Results[1].ID)
	assert.Equal(t, verdict.ExitConformant, r.ExitCode())
}
