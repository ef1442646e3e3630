// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// From makes the report of a run; kills is nil where no mutants were tried.
// It fails when the run does not add up (an id twice, Held without evidence),
// which is a defect of the suite, never of the target.
func From(run *runner.Run, kills []runner.Kill) (*Report, error) {
	r := &Report{
		APIVersion: APIVersion, Kind: Kind,
		ID: run.ID, Profile: run.Profile, Target: run.Target,
		Started: run.Started, Ended: run.Ended, Seconds: seconds(run.Ended.Sub(run.Started)),
		Substrate: run.Substrate, DiffersFromGKE: run.Differs,
		Residue: run.Residue, Incomplete: run.Incomplete,
	}
	for _, o := range run.Outcomes {
		if o.Scenario == nil {
			return nil, fmt.Errorf("reporting run %s: an outcome without a scenario", run.ID)
		}
		r.Results = append(r.Results, result(o))
	}
	for _, k := range kills {
		r.Mutants = append(r.Mutants, Mutant{
			ID: k.Mutant, Scenario: k.Scenario, Fate: k.Fate,
			Verdict: k.Result.Verdict(), Reason: k.Result.Reason(),
			Detail: cmp.Or(k.Detail, k.Result.Detail()), Seconds: seconds(k.Took),
		})
	}
	r.clean()
	r.sort()
	r.Claims = claims(r.Results, r.makes)
	r.Summary = r.count()
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("reporting run %s: %w", run.ID, err)
	}
	return r, nil
}

func result(o runner.Outcome) Result {
	s := o.Scenario
	out := Result{
		ID: s.ID, Title: s.Title, Claims: s.Claims, ClaimKind: s.Kind, Severity: s.Severity, Techniques: s.Techniques,
		Verdict: o.Result.Verdict(), Reason: o.Result.Reason(), Detail: o.Result.Detail(),
		Seconds: seconds(o.Took), Control: s.Control.Why,
		ProbeOnly: s.ProbeOnly(), Added: o.Added,
	}
	for _, rd := range o.Rounds {
		e := rd.Evidence
		out.Rounds = append(out.Rounds, Round{
			Verdict: rd.Result.Verdict(), Reason: rd.Result.Reason(), Detail: rd.Result.Detail(),
			Attempts: e.Attempts, Controls: e.Controls, AttemptsNeeded: max(e.MinAttempts, 1), Core: e.Core,
			Accepts: e.Accept, WindowSeconds: verdict.Window.Seconds(), Requires: e.Require, Witnesses: e.Statements,
		})
	}
	return out
}

// evidence is the way back: what the verdict of a round was decided on.
func (r Round) evidence() verdict.Evidence {
	return verdict.Evidence{
		Attempts: r.Attempts, MinAttempts: r.AttemptsNeeded, Core: r.Core, Accept: r.Accepts, Controls: r.Controls,
		Require: r.Requires, Statements: r.Witnesses,
	}
}

// clean replaces every text by its clean copy. Nothing that it is given is
// changed in place: the run belongs to the caller.
func (r *Report) clean() {
	text(&r.ID, &r.Profile, &r.Target, &r.Incomplete)
	r.Started, r.Ended = r.Started.UTC(), r.Ended.UTC()
	r.DiffersFromGKE, r.Residue, r.Unselected = texts(r.DiffersFromGKE), texts(r.Residue), texts(r.Unselected)
	substrate := make(map[string]string, len(r.Substrate))
	for k, v := range r.Substrate {
		substrate[Clean(k)] = Clean(v)
	}
	r.Substrate = substrate
	r.Results, r.Mutants, r.Waivers = append([]Result{}, r.Results...), slices.Clone(r.Mutants), slices.Clone(r.Waivers)
	for i := range r.Results {
		x := &r.Results[i]
		text(&x.ID, &x.Title, &x.Detail, &x.Control, (*string)(&x.ClaimKind), (*string)(&x.Severity), (*string)(&x.Reason))
		x.Claims, x.Techniques, x.Rounds = texts(x.Claims), texts(x.Techniques), slices.Clone(x.Rounds)
		for j := range x.Rounds {
			x.Rounds[j].clean()
		}
	}
	for i := range r.Mutants {
		m := &r.Mutants[i]
		text(&m.ID, &m.Scenario, &m.Detail, (*string)(&m.Fate), (*string)(&m.Reason))
	}
	for i := range r.Waivers {
		w := &r.Waivers[i]
		text(&w.Scenario, &w.Reason, &w.Owner, &w.Expires)
	}
}

func (r *Round) clean() {
	text(&r.Detail, (*string)(&r.Reason), (*string)(&r.Core))
	r.Attempts, r.Controls, r.Requires = attempts(r.Attempts), attempts(r.Controls), texts(r.Requires)
	r.Accepts = slices.Clone(r.Accepts)
	for i := range r.Accepts {
		text((*string)(&r.Accepts[i]))
	}
	r.Witnesses = slices.Clone(r.Witnesses)
	for i := range r.Witnesses {
		text(&r.Witnesses[i].Witness, &r.Witnesses[i].Detail)
	}
}

func attempts(in []verdict.Attempt) []verdict.Attempt {
	out := slices.Clone(in)
	for i := range out {
		a := &out[i]
		text(&a.Nonce, &a.Ended, &a.Error)
		// Never nil: the schema wants a list, be it an empty one.
		a.Start, a.End, a.Steps = a.Start.UTC(), a.End.UTC(), append([]verdict.Step{}, a.Steps...)
		for j := range a.Steps {
			s := &a.Steps[j]
			text(&s.Name, &s.Detail, (*string)(&s.Class), (*string)(&s.Expect))
		}
	}
	return out
}

func text(all ...*string) {
	for _, s := range all {
		*s = Clean(*s)
	}
}

func texts(in []string) []string {
	out := slices.Clone(in)
	for i := range out {
		out[i] = Clean(out[i])
	}
	return out
}

func (r *Report) sort() {
	slices.SortStableFunc(r.Results, func(a, b Result) int { return strings.Compare(a.ID, b.ID) })
	slices.SortStableFunc(r.Mutants, func(a, b Mutant) int {
		return strings.Compare(a.ID+"\x00"+a.Scenario, b.ID+"\x00"+b.Scenario)
	})
}

// makes tells whether a claim is one of the report's profile, or any where it has none:
// a scenario may speak for claims that this deployment does not make.
func (r *Report) makes(claim string) bool {
	profile, known := suite.ProfileByID(r.Profile)
	return !known || slices.Contains(profile.Claims, claim)
}

// claims judges those of the results' claims that a deployment makes.
func claims(results []Result, makes func(claim string) bool) []Claim {
	verdicts, by := map[string][]verdict.Verdict{}, map[string][]string{}
	for _, x := range results {
		for _, c := range x.Claims {
			if makes(c) {
				verdicts[c] = append(verdicts[c], x.Verdict)
				by[c] = append(by[c], x.ID)
			}
		}
	}
	out := make([]Claim, 0, len(by))
	for c, ids := range by {
		out = append(out, Claim{ID: c, Verdict: verdict.Aggregate(verdicts[c]...), Scenarios: ids})
	}
	slices.SortFunc(out, func(a, b Claim) int { return strings.Compare(a.ID, b.ID) })
	return out
}

func (r *Report) count() Summary {
	s := Summary{Total: len(r.Results)}
	var all []verdict.Verdict
	for _, x := range r.Results {
		all = append(all, x.Verdict)
		switch x.Verdict {
		case verdict.Held:
			s.Held++
		case verdict.Breached:
			s.Breached++
		case verdict.Inconclusive:
			s.Inconclusive++
		case verdict.NotApplicable:
			s.NotApplicable++
		case verdict.NotRun:
			s.NotRun++
		}
	}
	if r.Incomplete != "" {
		all = append(all, verdict.Inconclusive)
	}
	s.Verdict = verdict.Aggregate(all...)
	s.Text = fmt.Sprintf("%d held of %d", s.Held, s.Total)
	for _, part := range []struct {
		n    int
		word string
	}{
		{s.Breached, "breached"}, {s.Inconclusive, "inconclusive"}, {s.NotRun, "not run"}, {s.NotApplicable, "not applicable"},
	} {
		if part.n > 0 {
			s.Text += fmt.Sprintf(", %d %s", part.n, part.word)
		}
	}
	for _, m := range r.Mutants {
		switch m.Fate {
		case runner.Killed:
			s.Killed++
		case runner.Survived:
			s.Survived++
		case runner.Void:
			s.Void++
		}
	}
	return s
}

// seconds rounds to the millisecond: more digits would only pretend.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }
