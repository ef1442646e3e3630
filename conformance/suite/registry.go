// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/conformance/probe"
)

// Registry holds scenarios by id. The zero value is ready.
type Registry struct {
	byID map[string]*Scenario
}

var (
	idForm     = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*\.[a-z0-9]+(-[a-z0-9]+)*$`)
	mutantForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	claimForm  = regexp.MustCompile(`^(AS|KG|PG)-[0-9]{2}$`)
)

// Add registers s after checking its declaration. A declaration that could
// make a vacuous check (no control, no accepted class, no mutant) is refused.
func (r *Registry) Add(s Scenario) error {
	if err := s.check(); err != nil {
		return fmt.Errorf("registering scenario %q: %w", s.ID, err)
	}
	if r.byID == nil {
		r.byID = map[string]*Scenario{}
	}
	if _, dup := r.byID[s.ID]; dup {
		return fmt.Errorf("registering scenario %q: the id is taken", s.ID)
	}
	if s.From == "" {
		s.From = Sandbox
		if s.Ask != nil {
			s.From = API
		}
	}
	if s.Control.At == "" {
		s.Control.At = Control
	}
	r.byID[s.ID] = &s
	return nil
}

func (s *Scenario) check() error {
	switch {
	case !idForm.MatchString(s.ID):
		return fmt.Errorf("the id must look like family.kebab-name")
	case s.Title == "" || s.About == "" || s.Severity == "" || s.Kind == "":
		return fmt.Errorf("title, about, severity and kind must be set")
	case len(s.Claims) == 0:
		return fmt.Errorf("it claims nothing: name the claims of claims.md")
	case (s.Attack == nil) == (s.Ask == nil):
		return fmt.Errorf("exactly one of Attack and Ask must be set")
	case s.Ask != nil && s.AskControl == nil:
		return fmt.Errorf("a scenario of the API needs AskControl")
	case s.SelfReported && (s.Ask == nil || !s.Calls()):
		return fmt.Errorf("no server runs a program whose word it could go by (SelfReported)")
	case s.Attack != nil && s.Control.Why == "":
		return fmt.Errorf("it has no positive control (Control.Why is empty)")
	case len(s.Accept) == 0 && s.Kind != Function:
		return fmt.Errorf("it accepts no denial class")
	case len(s.Mutants) == 0:
		return fmt.Errorf("it names no mutant")
	}
	for _, c := range s.Claims {
		if !claimForm.MatchString(c) {
			return fmt.Errorf("claim %q is not of the form AS-01", c)
		}
	}
	for _, c := range s.Accept {
		if !c.IsEvidence() {
			return fmt.Errorf("class %q can never be evidence", c)
		}
	}
	for _, m := range s.Mutants {
		if !mutantForm.MatchString(m) {
			return fmt.Errorf("mutant id %q is not kebab-case", m)
		}
	}
	return nil
}

// MustAdd is Add for package initialisation; it panics on a bad declaration,
// which every test and every start of the program would see.
func (r *Registry) MustAdd(all ...Scenario) {
	for _, s := range all {
		if err := r.Add(s); err != nil {
			panic(err)
		}
	}
}

// All returns the scenarios ordered by id.
func (r *Registry) All() []*Scenario {
	out := make([]*Scenario, 0, len(r.byID))
	for _, s := range r.byID {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *Scenario) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Get returns one scenario.
func (r *Registry) Get(id string) (*Scenario, bool) {
	s, ok := r.byID[id]
	return s, ok
}

// Select returns the scenarios that any of the words names: an id, a family
// ("egress"), a claim ("AS-06") or a mutant. No words select all. A word that
// names nothing is an error: a filter that matches nothing must not look like
// a run that passed.
func (r *Registry) Select(words ...string) ([]*Scenario, error) {
	if len(words) == 0 {
		return r.All(), nil
	}
	picked := map[string]*Scenario{}
	for _, w := range words {
		hit := false
		for _, s := range r.All() {
			family, _, _ := strings.Cut(s.ID, ".")
			if s.ID == w || family == w || slices.Contains(s.Claims, w) || slices.Contains(s.Mutants, w) {
				picked[s.ID], hit = s, true
			}
		}
		if !hit {
			return nil, fmt.Errorf("selecting scenarios: %q is no scenario, family, claim or mutant; `stockade list` shows them", w)
		}
	}
	var out []*Scenario
	for _, s := range r.All() {
		if picked[s.ID] != nil {
			out = append(out, s)
		}
	}
	return out, nil
}

// Find is the probe's lookup: the action of a scenario's part.
func (r *Registry) Find(id string, part probe.Part) (probe.Action, bool) {
	s, ok := r.byID[id]
	if !ok || s.Attack == nil {
		return nil, false
	}
	switch part {
	case probe.Attack:
		return s.Attack, true
	case probe.Control:
		if s.Control.Act != nil {
			return s.Control.Act, true
		}
		return s.Attack, true
	}
	return nil, false
}
