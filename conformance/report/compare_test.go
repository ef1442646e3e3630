// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

func sideReport(profile string, results ...Result) *Report {
	target := profile
	if p, ok := suite.ProfileByID(profile); ok {
		target = p.Target
	}
	r := &Report{ID: "id-" + profile, Profile: profile, Target: target, Results: results, DiffersFromGKE: []string{"it is not GKE"}}
	r.Summary = r.count()
	return r
}

func TestProfilesStandSideBySideByTopic(t *testing.T) {
	a := sideReport("agent-sandbox",
		Result{ID: "kernel.a", Claims: []string{"AS-01", "PG-01"}, ClaimKind: suite.Guarantee, Verdict: verdict.Held},
		Result{ID: "kernel.b", Claims: []string{"AS-01"}, ClaimKind: suite.Guarantee, Verdict: verdict.Breached},
		Result{ID: "sandbox.bare", Claims: []string{"AS-11"}, ClaimKind: suite.Limit, Verdict: verdict.Held})
	b := sideReport("playground",
		Result{ID: "kernel.a", Claims: []string{"AS-01", "PG-01"}, ClaimKind: suite.Guarantee, Verdict: verdict.Held})
	c := Compare(nil, a, b)
	require.Len(t, c.Columns, 2)
	assert.Equal(t, "2 held of 3, 1 breached", c.Columns[0].Text)

	rows := map[suite.Topic]Row{}
	for _, r := range c.Rows {
		rows[r.Topic] = r
	}
	kernel := rows[suite.Kernel].Cells
	assert.Equal(t, []string{"AS-01 Breached, 1 held of 2"}, words(kernel[0]))
	assert.Equal(t, []string{"PG-01 Held"}, words(kernel[1]), "another system's claim is not the playground's")
	assert.Contains(t, words(rows[suite.NetworkOut].Cells[0]), "AS-11 as disclosed")
	assert.Contains(t, words(rows[suite.NetworkOut].Cells[0]), "AS-06 not tested", "what the profile claims and nobody tried is not left out")
	assert.Equal(t, []string{"PG-03 not tested"}, words(rows[suite.NetworkOut].Cells[1]))

	var out bytes.Buffer
	require.NoError(t, c.Write(&out, Style{Verbose: true}))
	text := out.String()
	assert.Regexp(t, `(?m)^ +agent-sandbox +playground$`, text)
	assert.Regexp(t, `(?m)^kernel +AS-01 Breached, 1 held of 2 +PG-01 Held$`, text)
	assert.Equal(t, 1, strings.Count(text, "it is not GKE"), "said once, however many say it")
	assert.Contains(t, text, "AS-01 code sees gVisor's kernel")
	assert.NotContains(t, text, "\x1b")
	assert.NotContains(t, text, "attacked")
	out.Reset()
	require.NoError(t, c.Write(&out, Style{Color: true}))
	assert.Contains(t, out.String(), "\x1b["+red+"mAS-01 Breached")
}

func TestAnExposureThatIsLargerIsNotAsDisclosed(t *testing.T) {
	r := sideReport("agent-sandbox-default",
		Result{ID: "egress.public", Claims: []string{"AS-05"}, ClaimKind: suite.Limit, Verdict: verdict.Breached})
	assert.Contains(t, words(r.marks(suite.NetworkOut)), "AS-05 Breached, 0 held of 1")
}

// A run of one scenario must not look like one of a whole profile.
func TestWhatAReportLeavesOutWasNotRun(t *testing.T) {
	all := []*suite.Scenario{
		{ID: "playground.a", Claims: []string{"PG-02"}, Kind: suite.Guarantee}, {ID: "playground.b", Claims: []string{"PG-02"}, Kind: suite.Guarantee},
		{ID: "playground.c", Claims: []string{"PG-04"}, Kind: suite.Guarantee}, {ID: "egress.d", Claims: []string{"AS-06"}, Kind: suite.Guarantee},
	}
	part := sideReport("playground", Result{ID: "playground.a", Claims: []string{"PG-02"}, ClaimKind: suite.Guarantee, Verdict: verdict.Held})
	c := Compare(all, part)
	assert.Equal(t, verdict.NotRun, c.Columns[0].Verdict)
	assert.Equal(t, "1 held of 3, 2 not run", c.Columns[0].Text)
	assert.Len(t, part.Results, 1, "the report itself is not changed")
	cells := map[suite.Topic][]string{}
	for _, row := range c.Rows {
		cells[row.Topic] = words(row.Cells[0])
	}
	assert.Equal(t, []string{"PG-02 NotRun, 1 held of 2"}, cells[suite.Door])
	assert.Contains(t, cells[suite.Load], "PG-04 NotRun, 0 held of 1")
}

func TestARunAgainstAnotherTargetNamesIt(t *testing.T) {
	own, other := sideReport("agent-sandbox"), sideReport("agent-sandbox")
	other.Target = "template/mine"
	c := Compare(nil, own, other)
	assert.False(t, c.Columns[0].Other)
	assert.True(t, c.Columns[1].Other)
	var out bytes.Buffer
	require.NoError(t, c.Write(&out, Style{}))
	assert.Regexp(t, `(?m)^attacked +reference +template/mine$`, out.String())
}

func TestAMarkSaysWhatItRestsOn(t *testing.T) {
	claim := suite.Claim{ID: "PG-05", Kinds: []suite.Kind{suite.Guarantee}}
	held := func(kind suite.Kind, alone bool) Result {
		return Result{ClaimKind: kind, Verdict: verdict.Held, ProbeOnly: alone}
	}
	not := func(v verdict.Verdict, kind suite.Kind, alone bool) Result {
		return Result{ClaimKind: kind, Verdict: v, ProbeOnly: alone}
	}
	for name, c := range map[string]struct {
		results []Result
		want    string
	}{
		"by the probe alone":             {[]Result{held(suite.Guarantee, true), held(suite.Function, true)}, "PG-05 Held (probe's word only)"},
		"by a witness as well":           {[]Result{held(suite.Guarantee, true), held(suite.Guarantee, false)}, "PG-05 Held"},
		"the witnessed one was not run":  {[]Result{held(suite.Guarantee, true), not(verdict.NotRun, suite.Guarantee, false)}, "PG-05 NotRun, 1 held of 2 (probe's word only)"},
		"one that does not apply":        {[]Result{held(suite.Guarantee, false), not(verdict.NotApplicable, suite.Guarantee, false)}, "PG-05 Held"},
		"none that applies":              {[]Result{not(verdict.NotApplicable, suite.Guarantee, true)}, "PG-05 not applicable"},
		"a limit that is shown":          {[]Result{held(suite.Guarantee, false), held(suite.Limit, false)}, "PG-05 as disclosed"},
		"a limit that does not apply":    {[]Result{held(suite.Guarantee, false), not(verdict.NotApplicable, suite.Limit, false)}, "PG-05 Held"},
		"a limit beside what was broken": {[]Result{not(verdict.Breached, suite.Guarantee, false), held(suite.Limit, false)}, "PG-05 Breached, 1 held of 2"},
		"nothing":                        {nil, "PG-05 not tested"},
	} {
		assert.Equal(t, c.want, mark(claim, c.results).Word(), name)
	}
}

func TestAReportWithoutAProfileShowsWhatItHas(t *testing.T) {
	r := &Report{Target: "old", Results: []Result{{ID: "kernel.a", Claims: []string{"AS-01"}, Verdict: verdict.Held}}}
	c := Compare(nil, r)
	assert.Equal(t, "old", c.Columns[0].Name)
	require.Len(t, c.Rows, 1)
	assert.Equal(t, []string{"AS-01 Held"}, words(c.Rows[0].Cells[0]))
}

func words(all []Mark) []string {
	out := make([]string, 0, len(all))
	for _, m := range all {
		out = append(out, m.Word())
	}
	return out
}
