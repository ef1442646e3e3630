// SPDX-License-Identifier: Apache-2.0

package planreport

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/plan"
	"github.com/stockade-dev/stockade/conformance/report"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// made judges a cluster with this data path and returns its report.
func made(t *testing.T, datapath string) (*report.Report, string) {
	t.Helper()
	g := plan.Graph{Resources: []plan.Resource{{
		Type: "gcp:container/cluster:Cluster", Name: "c",
		Inputs: map[string]any{"datapathProvider": datapath},
	}}}
	p := plan.Profiles["gke"]
	rep, err := From(plan.Check(g, p, at), g, p, at)
	require.NoError(t, err)
	var doc bytes.Buffer
	require.NoError(t, rep.JSON(&doc))
	return rep, doc.String()
}

func TestTheReportIsOneThatTheSuiteReads(t *testing.T) {
	rep, doc := made(t, "ADVANCED_DATAPATH")
	assert.Len(t, rep.Results, len(plan.Rules()), "every rule stands in it once")
	again, err := report.Read(strings.NewReader(doc))
	require.NoError(t, err)
	for _, r := range again.Results {
		if r.ID == "plan.dataplane-v2" {
			assert.Equal(t, verdict.Held, r.Verdict)
			assert.Equal(t, "mutant legacy-datapath", r.Rounds[0].Controls[0].Steps[0].Name)
		}
	}
	assert.Equal(t, verdict.Inconclusive, again.Summary.Verdict, "most of it cannot be told from one resource")
}

func TestHostileTextIsHarmlessInTheReport(t *testing.T) {
	rep, doc := made(t, "\x1b[2J\u202e")
	assert.NotContains(t, doc, "\x1b")
	assert.NotContains(t, doc, "\u202e")
	assert.Equal(t, verdict.Breached, rep.Summary.Verdict)
}
