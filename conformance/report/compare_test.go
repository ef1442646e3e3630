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
	r := &Report{ID: "id-" + profile, Profile: profile, Target: profile, Results: results, DiffersFromGKE: []string{"it is not GKE"}}
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
	c := Compare(a, b)
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
	out.Reset()
	require.NoError(t, c.Write(&out, Style{Color: true}))
	assert.Contains(t, out.String(), "\x1b["+red+"mAS-01 Breached")
}

func TestAnExposureThatIsLargerIsNotAsDisclosed(t *testing.T) {
	r := sideReport("agent-sandbox-default",
		Result{ID: "egress.public", Claims: []string{"AS-05"}, ClaimKind: suite.Limit, Verdict: verdict.Breached})
	assert.Contains(t, words(r.marks(suite.NetworkOut)), "AS-05 Breached, 0 held of 1")
}

func TestAReportWithoutAProfileShowsWhatItHas(t *testing.T) {
	r := &Report{Target: "old", Results: []Result{{ID: "kernel.a", Claims: []string{"AS-01"}, Verdict: verdict.Held}}}
	c := Compare(r)
	assert.Equal(t, "old", c.Columns[0].Name)
	require.Len(t, c.Rows, 1)
	assert.Equal(t, []string{"AS-01 Held"}, words(c.Rows[0].Cells[0]))
}

func words(all []Mark) []string {
	out := make([]string, 0, len(all))
	for _, m := range all {
		out = append(out, m.word())
	}
	return out
}
