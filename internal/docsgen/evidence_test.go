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
			return ok && m.Of > 0 && m.Verdict != verdict.NotRun
		})
		assert.True(t, judged, "%s has no verdict: `stockade run --profile … --out %s/….json`", c.ID, evidenceDir)
	}
	for _, p := range suite.Profiles {
		i := slices.IndexFunc(reports, func(r recorded) bool { return r.name == p.ID })
		if !assert.GreaterOrEqual(t, i, 0, "%s has no report", p.ID) {
			continue
		}
		r := reports[i]
		assert.Equal(t, p.ID, r.Profile)
		assert.Equal(t, p.Target, r.Target, "of the profile's own deployment")
		assert.Empty(t, r.Incomplete)
		for _, x := range r.Results {
			_, known := all.Registry.Get(x.ID)
			assert.True(t, known, "%s: there is no %s any more", p.ID, x.ID)
		}
	}
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
