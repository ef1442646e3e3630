// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// Profile says what an environment claims to be. What it declares and the graph
// lacks is a breach; only what it declares absent and is absent makes a rule
// NotApplicable.
type Profile struct {
	// Name is the stack's.
	Name string
	// Autopilot: the cluster makes its own nodes.
	Autopilot bool
	// AllowList: egress goes by host names (the shared server, KG-05).
	AllowList bool
	// Perimeter: VPC Service Controls guard the project (KG-12).
	Perimeter bool
	// ThrowAway: the cluster may be deleted without asking.
	ThrowAway bool
	// Workloads: the program also installs what runs in the cluster.
	Workloads bool
}

// Profiles are the environments on Google Cloud that the rules know, by name.
var Profiles = map[string]Profile{
	"gke":           {Name: "gke"},
	"gke-autopilot": {Name: "gke-autopilot", Autopilot: true},
	"gke-shared":    {Name: "gke-shared", AllowList: true, Perimeter: true},
}

// Mutant weakens a graph in one place.
type Mutant struct {
	// ID is kebab-case.
	ID string
	// About says what is weakened, as a person would say it.
	About string
	// Apply changes the graph and reports whether there was something to
	// change.
	Apply func(*Graph) bool
}

// Rule is one question to a plan.
type Rule struct {
	// ID is plan.kebab-name; it never changes once released.
	ID string
	// Title starts with a verb and says what is looked for: the weakness.
	Title string
	// About says why it matters, with the trap or the text behind it.
	About string
	// Claims are those of the systems under test (claims.md). A rule that is
	// only good practice has none.
	Claims   []string
	Severity suite.Severity
	// Mutants are tried on every graph that is judged. The first that finds
	// something to change is the positive control.
	Mutants []Mutant

	// skip says why the rule does not concern a profile, "" where it does.
	skip func(Profile) string
	// present tells whether the graph has it all the same; nil means never.
	present func(Graph) bool
	judge   func(*look)
}

// Finding is what one rule says of one graph.
type Finding struct {
	Rule     *Rule
	Result   verdict.Result
	Evidence verdict.Evidence
}

// Rules returns all rules, ordered by id.
func Rules() []*Rule {
	out := slices.Concat(clusterRules, poolRules, networkRules, perimeterRules, supplyRules)
	slices.SortFunc(out, func(a, b *Rule) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Check judges the graph by all rules. It is a pure function; at is the time
// that the evidence carries.
//
// A graph that installs something into the cluster is judged for that, whatever the
// profile declares: else one without an allow-list would pass for one that installs
// nothing.
func Check(g Graph, p Profile, at time.Time) []Finding {
	var out []Finding
	p.Workloads = p.Workloads || slices.ContainsFunc(g.Resources, isKubernetes)
	for _, r := range Rules() {
		out = append(out, r.Check(g, p, at))
	}
	return out
}

// Concerns tells whether the rule is about what the profile declares.
func (r *Rule) Concerns(p Profile) bool { return r.skip == nil || r.skip(p) == "" }

// Check judges the graph by this rule.
func (r *Rule) Check(g Graph, p Profile, at time.Time) Finding {
	if !r.Concerns(p) && g.Partial == "" && (r.present == nil || !r.present(g)) {
		return Finding{Rule: r, Result: verdict.Skip("%s", r.skip(p))}
	}
	nonce := g.Digest(r.ID)
	seen := &look{Graph: g, Profile: p}
	r.judge(seen)
	if g.Partial != "" {
		seen.unsure("the whole graph", g.Partial)
	}
	if r, ok := g.stranger(); ok {
		seen.unsure(fmt.Sprintf("%.80s %.80q", r.Type, r.Name), "what it does is not understood, and may be what is looked for")
	}
	e := verdict.Evidence{
		// The weakness was looked for and is not there: that is the denial.
		Accept:   []verdict.Class{verdict.Absent},
		Attempts: []verdict.Attempt{{Nonce: nonce, Complete: true, Steps: seen.steps, Start: at, End: at}},
		Controls: []verdict.Attempt{{Nonce: nonce, Complete: true, Steps: []verdict.Step{r.control(g, p)}, Start: at, End: at}},
	}
	return Finding{Rule: r, Result: verdict.Decide(e), Evidence: e}
}

// control weakens this very graph and has the rule find it.
func (r *Rule) control(g Graph, p Profile) verdict.Step {
	for _, m := range r.Mutants {
		weak := g.Clone()
		if !m.Apply(&weak) {
			continue
		}
		seen := &look{Graph: weak, Profile: p}
		r.judge(seen)
		for _, s := range seen.steps {
			if s.OK {
				return verdict.Step{Name: "mutant " + m.ID, OK: true, Detail: m.About + ": " + s.Name}
			}
		}
		return verdict.Step{Name: "mutant " + m.ID, Class: verdict.Unknown, Detail: m.About + ": it was not noticed"}
	}
	return verdict.Step{Name: "mutant", Class: verdict.Unknown, Detail: "there is nothing in this graph that a mutant could change"}
}

// Digest is 32 hex digits that tie evidence to this graph; salt tells one use
// from another.
func (g Graph) Digest(salt string) string {
	h := sha256.New()
	// Inputs are plain JSON values, so this cannot fail; if it did, the digest
	// would only say less.
	_ = json.NewEncoder(h).Encode([]any{salt, g})
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Scenario is the rule as a report names it. It cannot be run.
func (r *Rule) Scenario() *suite.Scenario {
	s := &suite.Scenario{
		ID: r.ID, Title: r.Title, About: r.About, Claims: r.Claims, Kind: suite.Guarantee, Severity: r.Severity,
		Control: suite.ControlSpec{Why: "the rule sees a mutant of this very graph"},
	}
	for _, m := range r.Mutants {
		s.Mutants = append(s.Mutants, m.ID)
	}
	return s
}

// look is one rule's look at one graph. What it sees becomes steps: a weakness
// that is there, one that is not, or one that cannot be told.
type look struct {
	Graph
	Profile
	steps []verdict.Step
}

// maxSteps bounds the evidence of one rule over a hostile graph. A breach is
// always recorded.
const maxSteps = 500

func (l *look) add(s verdict.Step) {
	switch {
	case len(l.steps) < maxSteps || s.OK && len(l.steps) < 2*maxSteps:
		l.steps = append(l.steps, s)
	case len(l.steps) == maxSteps:
		l.steps = append(l.steps, verdict.Step{Name: "the rest", Class: verdict.Unknown, Detail: "there is more than is recorded"})
	}
}

// weak records a weakness that is there.
func (l *look) weak(what, format string, args ...any) {
	l.add(verdict.Step{Name: what, OK: true, Detail: fmt.Sprintf(format, args...)})
}

// sound records a weakness that was looked for and is not there.
func (l *look) sound(what, format string, args ...any) {
	l.add(verdict.Step{Name: what, Class: verdict.Absent, Detail: fmt.Sprintf(format, args...)})
}

// unsure records that it cannot be told.
func (l *look) unsure(what, why string) {
	l.add(verdict.Step{Name: what, Class: verdict.Unknown, Detail: why})
}

// undecided tells whether something could not be told so far: then what was not
// found may be there.
func (l *look) undecided() bool {
	return slices.ContainsFunc(l.steps, func(s verdict.Step) bool { return s.Class == verdict.Unknown })
}

// missing records a value that is absent or unknown.
func (l *look) missing(r Resource, path string, st state) {
	why := "it is not set, and what the cloud would choose is not this plan's word"
	if st == unknown {
		why = "its value is not known yet, or not understood"
	}
	l.unsure(fmt.Sprintf("%s: %s", r, path), why)
}

// each returns the resources of a type. None at all cannot be told from a graph
// of something else.
func (l *look) each(typ string) []Resource {
	all := l.of(typ)
	if len(all) == 0 {
		l.unsure(Resource{Type: typ}.kind(), "there is none in the graph")
	}
	return all
}

// wants records whether the value at path is want.
func (l *look) wants(r Resource, path string, want any) {
	got, st := r.find(path)
	if st != known {
		l.missing(r, path, st)
		return
	}
	l.compare(fmt.Sprintf("%s: %s", r, path), got, want)
}

func (l *look) compare(what string, got, want any) {
	switch got.(type) {
	case bool, string, float64:
	default:
		l.unsure(what, "its value is not understood")
		return
	}
	if same(got, want) {
		l.sound(what, "it is %v", want)
		return
	}
	l.weak(what, "it is %.80q, not %v", fmt.Sprint(got), want)
}

// set is a mutant's change: the value at path in the first resource of a type.
func set(typ, path string, v any) func(*Graph) bool {
	return setWhere(typ, func(Resource) bool { return true }, path, v)
}

func setWhere(typ string, which func(Resource) bool, path string, v any) func(*Graph) bool {
	return func(g *Graph) bool {
		for _, r := range g.Resources {
			if r.Type == typ && which(r) {
				return r.put(path, clone(v))
			}
		}
		return false
	}
}

// drop is a mutant's change: the resources that fit are taken away.
func drop(which func(Resource) bool) func(*Graph) bool {
	return func(g *Graph) bool {
		before := len(g.Resources)
		g.Resources = slices.DeleteFunc(g.Resources, which)
		return len(g.Resources) < before
	}
}
