// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// MaxFile is the largest report that is read, in bytes. The probe's decoder
// bounds what a run can hold far below it.
const MaxFile = 64 << 20

// Read reads a report from JSON. The document may come from anywhere: its size
// is bounded, unknown fields are refused, its texts are cleaned again, and it
// must pass [Report.Validate].
func Read(in io.Reader) (*Report, error) {
	raw, err := io.ReadAll(io.LimitReader(in, MaxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the report: %w", err)
	case len(raw) > MaxFile:
		return nil, fmt.Errorf("reading the report: it is larger than %d bytes", MaxFile)
	}
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, fmt.Errorf("reading the report: it is not a JSON document: %w", err)
	}
	if head.APIVersion != APIVersion || head.Kind != Kind {
		return nil, fmt.Errorf("reading the report: apiVersion %q and kind %q where %s and %s are expected: is this a report, and does this version of stockade know it?",
			Clean(head.APIVersion), Clean(head.Kind), APIVersion, Kind)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	var r Report
	if err := dec.Decode(&r); err != nil {
		// A field that is not known is what a newer version adds.
		return nil, fmt.Errorf("reading the report: %s: was it written by this version of stockade? That one reads it", Clean(err.Error()))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("reading the report: more follows after the document")
	}
	r.clean()
	r.sort()
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("reading the report: %w", err)
	}
	return &r, nil
}

// JSON writes the report, indented, with a line feed at the end.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	// "<" and "&" may stay: whoever puts JSON into HTML must escape it there.
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// Validate checks that a report adds up: every id once, counts and claims as
// the results have them, every Held carried by the recorded evidence when it is
// judged again, and no waiver that a run would have refused.
func (r *Report) Validate() error {
	seen := map[string]bool{}
	for _, x := range r.Results {
		if x.ID == "" || seen[x.ID] {
			return fmt.Errorf("the id %q stands in it twice or is empty", x.ID)
		}
		seen[x.ID] = true
		if err := x.validate(); err != nil {
			return fmt.Errorf("%s: %w", x.ID, err)
		}
	}
	cells := map[[2]string]bool{}
	for _, m := range r.Mutants {
		cell := [2]string{m.ID, m.Scenario}
		if cells[cell] {
			return fmt.Errorf("mutant %q stands twice under %q", m.ID, m.Scenario)
		}
		cells[cell] = true
		switch m.Fate {
		case runner.Killed:
			if m.Verdict != verdict.Breached {
				return fmt.Errorf("mutant %q is called killed, but %q said %s", m.ID, m.Scenario, m.Verdict)
			}
		case runner.Survived, runner.Void:
		default:
			return fmt.Errorf("mutant %q has the unknown fate %q", m.ID, m.Fate)
		}
	}
	if err := r.validateWaivers(seen); err != nil {
		return err
	}
	if got := r.count(); got != r.Summary {
		return fmt.Errorf("the summary says %q and %s, the results say %q and %s", Clean(r.Summary.Text), r.Summary.Verdict, got.Text, got.Verdict)
	}
	// Reports of earlier builds have every claim that a result speaks for.
	all := func(string) bool { return true }
	if !sameClaims(r.Claims, claims(r.Results, r.makes)) && !sameClaims(r.Claims, claims(r.Results, all)) {
		return errors.New("the claims do not follow from the results")
	}
	return nil
}

func sameClaims(a, b []Claim) bool { return len(a)+len(b) == 0 || reflect.DeepEqual(a, b) }

// validateWaivers checks that the waivers, on which the exit code rests, are such as
// a run would have taken when this one began.
func (r *Report) validateWaivers(results map[string]bool) error {
	seen := map[string]bool{}
	for _, w := range r.Waivers {
		// They were read a little before the beginning, maybe on the day before.
		if err := w.check(func(id string) bool { return results[id] }, r.Started.Add(-time.Hour)); err != nil {
			return fmt.Errorf("the waiver for %q: %w", Clean(w.Scenario), err)
		}
		if seen[w.Scenario] {
			return fmt.Errorf("%q is waived twice", w.Scenario)
		}
		seen[w.Scenario] = true
	}
	return nil
}

func (x Result) validate() error {
	rounds := make([]verdict.Verdict, len(x.Rounds))
	for i, rd := range x.Rounds {
		rounds[i] = rd.Verdict
		if rd.Verdict != verdict.Held {
			continue
		}
		if again := verdict.Decide(rd.evidence()); again.Verdict() != verdict.Held {
			return fmt.Errorf("round %d is called Held, but its evidence says %s (%s)", i+1, again.Verdict(), again.Reason())
		}
	}
	if x.Verdict == verdict.Held {
		if len(rounds) == 0 || rounds[len(rounds)-1] != verdict.Held {
			return errors.New("it is called Held, but its last round is not")
		}
	}
	if x.Verdict != verdict.Breached && slices.Contains(rounds, verdict.Breached) {
		return fmt.Errorf("it is called %s, but one of its rounds is Breached", x.Verdict)
	}
	return nil
}
