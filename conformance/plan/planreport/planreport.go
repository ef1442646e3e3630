// SPDX-License-Identifier: Apache-2.0

// Package planreport turns what a plan's rules found into a report of the
// suite, so that the same exit codes, waivers and renderers serve for it. It is apart
// from the rules, because reports know the live runner and rules know nothing:
// they also run inside of a program that is no suite.
package planreport

import (
	"fmt"
	"time"

	"github.com/stockade-dev/stockade/conformance/plan"
	"github.com/stockade-dev/stockade/conformance/report"
	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// Target is what stands in such a report for what was attacked.
const Target = "plan"

// From makes the report of a check of g that was made at the time at.
func From(findings []plan.Finding, g plan.Graph, p plan.Profile, at time.Time) (*report.Report, error) {
	run := &runner.Run{
		ID: g.Digest("report")[:16], Target: Target, Started: at, Ended: at,
		Substrate: map[string]string{"plan": p.Name, "resources": fmt.Sprint(len(g.Resources))},
		Differs:   []string{"this is a plan: it says what is asked of the cloud, not what the cloud does"},
	}
	for _, f := range findings {
		o := runner.Outcome{Scenario: f.Rule.Scenario(), Result: f.Result}
		if f.Result.Verdict() != verdict.NotApplicable {
			o.Rounds = []runner.Round{{Evidence: f.Evidence, Result: f.Result}}
		}
		run.Outcomes = append(run.Outcomes, o)
	}
	rep, err := report.From(run, nil)
	if err != nil {
		return nil, fmt.Errorf("judging the plan: %w", err)
	}
	return rep, nil
}
