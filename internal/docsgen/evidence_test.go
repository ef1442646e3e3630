// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/report"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/all"
)

func TestEveryClaimHasAVerdictFromARealRun(t *testing.T) {
	t.Chdir("../..")
	reports, err := readEvidence()
	require.NoError(t, err)
	for _, c := range suite.Claims {
		judged := slices.ContainsFunc(reports, func(r recorded) bool {
			m, ok := r.marks[c.ID]
			return ok && m.Of > 0 && (m.Verdict == verdict.Held || m.Verdict == verdict.Breached)
		})
		assert.True(t, judged, "%s is neither held nor breached: `stockade run --profile … --out %s/….json`", c.ID, evidenceDir)
	}
	for _, p := range suite.Profiles {
		i := slices.IndexFunc(reports, func(r recorded) bool { return r.name == p.ID })
		if !assert.GreaterOrEqual(t, i, 0, "%s has no report", p.ID) {
			continue
		}
		r := reports[i]
		for _, x := range r.Results {
			_, known := all.Registry.Get(x.ID)
			assert.True(t, known, "%s: there is no %s any more", p.ID, x.ID)
		}
		for _, s := range p.Of(all.Registry.All()) {
			assert.True(t, slices.ContainsFunc(r.Results, func(x report.Result) bool { return x.ID == s.ID }), "%s: its run knew no %s", p.ID, s.ID)
		}
	}
}

// What is recorded was measured on two cores, with all systems standing.
func TestARecordedRunIsAsShortAsAskedFor(t *testing.T) {
	t.Chdir("../..")
	reports, err := readEvidence()
	require.NoError(t, err)
	const most, mostOfReference = 60.0, 40.0 // seconds
	var runs int
	for _, r := range reports {
		bound := most
		if r.name == "agent-sandbox" {
			bound = mostOfReference
		}
		if slices.ContainsFunc(suite.Profiles, func(p suite.Profile) bool { return p.ID == r.name }) {
			runs++
			assert.Positive(t, r.Seconds, r.name)
			assert.LessOrEqual(t, r.Seconds, bound, r.name)
		}
	}
	assert.Len(t, suite.Profiles, runs)
}

// A report that was made with less than the scenarios ask for by now, or of something
// else, must not stand in the docs as what holds.
func TestEvidenceThatIsNoneIsRefused(t *testing.T) {
	t.Chdir("../..")
	for name, change := range map[string]func(*report.Report){
		"of another target":    func(r *report.Report) { r.Target = "mutant-x" },
		"of another profile":   func(r *report.Report) { r.Profile = "kode-gopher-local" },
		"of none at all":       func(r *report.Report) { r.Profile = "" },
		"of no profile's":      func(r *report.Report) { r.Profile = "mine" },
		"that ended early":     func(r *report.Report) { r.Incomplete = "interrupted" },
		"with fewer witnesses": func(r *report.Report) { last(r, "playground.default-deny-egress").Requires = nil },
		"with more denials": func(r *report.Report) {
			x := last(r, "playground.every-pod")
			x.Accepts = append(x.Accepts, verdict.Dropped)
		},
		"with fewer attempts": func(r *report.Report) { last(r, "playground.default-deny-egress").AttemptsNeeded = 1 },
	} {
		r, err := readReport("docs/evidence/playground.json")
		require.NoError(t, err)
		require.NoError(t, belongs("playground", r))
		change(r)
		assert.Error(t, belongs("playground", r), name)
	}
	plan, err := readReport("docs/evidence/plan-gke.json")
	require.NoError(t, err)
	assert.NoError(t, belongs("plan-gke", plan))
}

func TestAnOldReportIsMarkedAsItIsKnownByNow(t *testing.T) {
	r := &report.Report{Results: []report.Result{
		{ID: "playground.run-limits"}, {ID: "playground.every-pod"}, {ID: "playground.every-pod", ProbeOnly: true}, {ID: "is.gone"}}}
	ownWord(r)
	for i, want := range []bool{true, false, true, false} {
		assert.Equal(t, want, r.Results[i].ProbeOnly, "result %d", i)
	}
}

// last is the last round of a scenario that was held.
func last(r *report.Report, id string) *report.Round {
	i := slices.IndexFunc(r.Results, func(x report.Result) bool { return x.ID == id && x.Verdict == verdict.Held })
	return &r.Results[i].Rounds[len(r.Results[i].Rounds)-1]
}

func TestWhatAReportQuotesIsNoMarkdown(t *testing.T) {
	assert.Equal(t, `a 'b' \*c\* &lt;d> \[e](f) g\_h \| i`, short("a `b` *c*\n<d> [e](f)   g_h | i"))
	long := []rune(short(string(slices.Repeat([]rune{'x'}, maxDetail+9))))
	assert.Len(t, long, maxDetail+1)
}

func TestAVerdictThatNobodyGaveIsNoneYet(t *testing.T) {
	assert.Equal(t, "none yet", verdictOf("AS-01", nil))
	r := recorded{name: "agent-sandbox", marks: map[string]report.Mark{"AS-01": {Claim: "AS-01", Verdict: verdict.Breached, Held: 1, Of: 2}}}
	assert.Equal(t, "`agent-sandbox` Breached, 1 held of 2 ([evidence](#evidence-for-as-01))", verdictOf("AS-01", []recorded{r}))
}
