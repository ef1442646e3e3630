// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

// Waiver says that somebody answers for a scenario that is not Held. It
// changes the exit code, never the verdict.
type Waiver struct {
	// Scenario is the id it is for; families and claims cannot be waived.
	Scenario string `json:"scenario"`
	Reason   string `json:"reason"`
	// Owner is who answers for it: a person or a team.
	Owner string `json:"owner"`
	// Expires is the last day on which it counts, YYYY-MM-DD in UTC.
	Expires string `json:"expires"`
}

// Waivers reads a YAML document {waivers: [{scenario, reason, owner, expires}]}.
// known tells which scenario ids exist. An incomplete, unknown, doubled or
// expired waiver is an error: a check that quietly ignores its own exceptions
// is worse than none.
func Waivers(doc []byte, known func(id string) bool, now time.Time) ([]Waiver, error) {
	var file struct {
		Waivers []Waiver `json:"waivers"`
	}
	if err := yaml.UnmarshalStrict(doc, &file); err != nil {
		return nil, fmt.Errorf("reading the waivers: %w", err)
	}
	seen := map[string]bool{}
	for i, w := range file.Waivers {
		if err := w.check(known, now); err != nil {
			return nil, fmt.Errorf("reading the waivers: number %d (%s): %w", i+1, Clean(w.Scenario), err)
		}
		if seen[w.Scenario] {
			return nil, fmt.Errorf("reading the waivers: %s is waived twice", w.Scenario)
		}
		seen[w.Scenario] = true
	}
	return file.Waivers, nil
}

func (w Waiver) check(known func(string) bool, now time.Time) error {
	if w.Scenario == "" || w.Reason == "" || w.Owner == "" || w.Expires == "" {
		return fmt.Errorf("scenario, reason, owner and expires must be set")
	}
	if !known(w.Scenario) {
		return fmt.Errorf("there is no such scenario; `stockade list` shows the ids")
	}
	day, err := time.Parse(time.DateOnly, w.Expires)
	if err != nil {
		return fmt.Errorf("expires must be a date like 2027-01-31: %w", err)
	}
	if !now.UTC().Before(day.AddDate(0, 0, 1)) {
		return fmt.Errorf("it expired on %s: mend the finding, or have %s decide again", w.Expires, Clean(w.Owner))
	}
	return nil
}

// Waive notes in the report which waivers it needed, and returns the ids of
// those that it did not need: they should be removed. One for a scenario that is not
// in the report is neither: another run may need it.
func (r *Report) Waive(all []Waiver) (unused []string) {
	bad := map[string]bool{}
	for _, x := range r.Results {
		bad[x.ID] = x.Verdict != verdict.Held && x.Verdict != verdict.NotApplicable
	}
	for _, w := range all {
		needed, there := bad[w.Scenario]
		switch {
		case needed:
			r.Waivers = append(r.Waivers, w)
		case there:
			unused = append(unused, w.Scenario)
		}
	}
	r.clean()
	return unused
}

// ExitCode returns the exit code of a run with this report: that of the worst
// verdict which is not waived, then residue, then mutants that were not
// killed. With everything waived that was asked for nothing was shown, which is
// inconclusive.
func (r *Report) ExitCode() int {
	waived := r.waived()
	var all []verdict.Verdict
	for _, x := range r.Results {
		if x.answers() && !waived[x.ID] {
			all = append(all, x.Verdict)
		}
	}
	if r.Incomplete != "" {
		all = append(all, verdict.Inconclusive)
	}
	code := verdict.ExitCode(verdict.Aggregate(all...))
	switch {
	case code != verdict.ExitConformant:
		return code
	case r.Summary.Survived > 0:
		// A scenario that does not see its own mutant is broken, and what it
		// calls Held with it.
		return verdict.ExitBreached
	case r.Summary.Void > 0:
		return verdict.ExitInconclusive
	case len(r.Residue) > 0:
		return verdict.ExitResidue
	}
	return verdict.ExitConformant
}

// answers tells whether a result is about what was asked: what the runner added is
// not, unless it says something bad.
func (x Result) answers() bool { return !x.Added || x.Verdict != verdict.Held }

// showsNothing tells whether there is no answer at all but what is waived, which is
// inconclusive however well what was added went.
func (r *Report) showsNothing(waived map[string]bool) bool {
	return !slices.ContainsFunc(r.Results, func(x Result) bool {
		return x.answers() && x.Verdict != verdict.NotApplicable && !waived[x.ID]
	})
}

// waived are the ids for which there is a waiver.
func (r *Report) waived() map[string]bool {
	out := map[string]bool{}
	for _, w := range r.Waivers {
		out[w.Scenario] = true
	}
	return out
}
