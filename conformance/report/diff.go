// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// Change is one scenario that two reports speak of differently.
type Change struct {
	ID string `json:"id"`
	// Before and After are verdicts, or Missing; of a proof what became of the
	// scenario's mutants.
	Before string `json:"before"`
	After  string `json:"after"`
	// Worse is true when less is known to hold than before.
	Worse bool `json:"worse"`
	// Detail is what the second report says.
	Detail string `json:"detail,omitempty"`
}

// Missing stands for a scenario that one of two reports does not have.
const Missing = "Missing"

// Diff returns the scenarios whose verdict or reason changed from a to b,
// ordered by id, and after them those of proofs whose mutants fared otherwise. One
// that is missing in b is worse: what is not looked at any more is not known to hold.
func Diff(a, b *Report) []Change {
	before, after := index(a), index(b)
	var ids []string
	for id := range before {
		ids = append(ids, id)
	}
	for id := range after {
		if _, both := before[id]; !both {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	var out []Change
	for _, id := range ids {
		x, inA := before[id]
		y, inB := after[id]
		if inA && inB && x.Verdict == y.Verdict && x.Reason == y.Reason {
			continue
		}
		c := Change{ID: id, Before: word(x, inA), After: word(y, inB), Detail: y.Detail}
		c.Worse = worse(x, inA, y, inB)
		out = append(out, c)
	}
	return append(out, diffProofs(a, b)...)
}

// diffProofs compares what the scenarios' mutants showed. Which mutants were tried is
// nobody's business as long as each scenario was seen to fail.
func diffProofs(a, b *Report) (out []Change) {
	before, after := proofs(a), proofs(b)
	ids := maps.Clone(before)
	maps.Copy(ids, after)
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		x, y := before[id], after[id]
		if x.fate == y.fate {
			continue
		}
		c := Change{ID: id, Before: cmp.Or(string(x.fate), Missing), After: cmp.Or(string(y.fate), Missing), Detail: y.detail}
		// A scenario that is new in b is as good as one whose mutants were killed.
		c.Worse = y.fate == "" || rank[y.fate] > rank[cmp.Or(x.fate, runner.Killed)]
		out = append(out, c)
	}
	return out
}

// rank orders fates: a scenario's is the worst of its mutants'.
var rank = map[runner.Fate]int{runner.Killed: 1, runner.Void: 2, runner.Survived: 3}

type proof struct {
	fate   runner.Fate
	detail string
}

func proofs(r *Report) map[string]proof {
	out := map[string]proof{}
	for _, m := range r.Mutants {
		if rank[m.Fate] > rank[out[m.Scenario].fate] {
			out[m.Scenario] = proof{m.Fate, Clean(m.ID + ": " + m.Detail)}
		}
	}
	return out
}

func worse(x Result, inA bool, y Result, inB bool) bool {
	switch {
	case !inB:
		return true
	case !inA:
		return verdict.ExitCode(y.Verdict) != verdict.ExitConformant && y.Verdict != verdict.NotApplicable
	case x.Verdict == y.Verdict:
		return false // only the reason changed
	}
	// Something that applied and no longer does was given up, however mild
	// NotApplicable weighs in an aggregate.
	return y.Verdict == verdict.NotApplicable || verdict.Aggregate(x.Verdict, y.Verdict) == y.Verdict
}

func index(r *Report) map[string]Result {
	out := make(map[string]Result, len(r.Results))
	for _, x := range r.Results {
		out[x.ID] = x
	}
	return out
}

func word(x Result, present bool) string {
	switch {
	case !present:
		return Missing
	case x.Reason != "":
		return fmt.Sprintf("%s (%s)", x.Verdict, x.Reason)
	}
	return x.Verdict.String()
}

// WriteChanges writes the changes as a table for a person.
func WriteChanges(w io.Writer, changes []Change) error {
	if len(changes) == 0 {
		_, err := fmt.Fprintln(w, "No verdict changed.")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range changes {
		mark := " "
		if c.Worse {
			mark = "!"
		}
		// A failed write is kept by the tabwriter and returned by Flush.
		_, _ = fmt.Fprintln(t, strings.Join([]string{mark, c.ID, c.Before, "→", c.After}, "\t"))
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("writing the changes: %w", err)
	}
	return nil
}
