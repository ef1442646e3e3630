// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/infra/progress"
)

// Mutant is a deliberately weakened twin of the reference.
type Mutant struct {
	ID    string
	Title string
	// Kills are the scenarios that must say Breached.
	Kills []string
	// Holds are scenarios that must still say Held: they tell one weakened control
	// from a policy that is not there at all.
	Holds []string
	// Scaffold is the id of what it stands on, without its change; empty where that is
	// not attacked.
	Scaffold string
	// Alone is true when the weakening is felt outside of the mutant's own
	// namespace (on a node), so that nothing else may run beside it.
	Alone bool
}

// Stage puts mutants on a cluster.
type Stage interface {
	// Scaffold makes what all mutants need (the exemption from admission that
	// lets a weakened template exist at all), and returns what undoes it.
	Scaffold(ctx context.Context) (restore func(context.Context) error, err error)
	// Deploy puts up a mutant for these scenarios, and returns what takes it down;
	// that is never nil, even with an error.
	Deploy(ctx context.Context, m Mutant, scenarios []*suite.Scenario) (down func(context.Context) error, err error)
	// Effect reads back from the cluster whether the control is weakened.
	Effect(ctx context.Context, m Mutant) (ok bool, saw string, err error)
	// Attack runs the scenarios and the canary against the deployed mutant.
	Attack(ctx context.Context, m Mutant, scenarios []*suite.Scenario) (*runner.Run, error)
}

// Options of Prove.
type Options struct {
	Stage   Stage
	Mutants []Mutant
	// Scaffolds are what the mutants stand on, to be attacked before them as they are,
	// by all that their mutants kill. Where one is breached already, a mutant on it
	// shows nothing: its cell is void. None is to trust all of them.
	Scaffolds []Mutant
	Scenarios *suite.Registry
	// Canary is the id of a scenario of honest work that must hold in every mutant
	// that is asked to run code; it tells a weakened sandbox from a broken one.
	Canary string
	// Parallel is how many mutants may be up at once; 0 means 2.
	Parallel int
	Progress *progress.Reporter
}

// undoTimeout bounds the time for taking one mutant down, also after a Ctrl-C.
const undoTimeout = 90 * time.Second

// mustHold returns the scenarios that must still hold in the mutant. For a mutant of
// the very scenario that serves as canary these are its own alone, and so they are for
// one of which only the API server is asked, and which names something that must hold:
// a sandbox in which no program runs any more would answer nothing there.
func (o Options) mustHold(m Mutant) []string {
	own := slices.Concat(m.Kills, m.Holds)
	if slices.Contains(own, o.Canary) || len(m.Holds) > 0 && !slices.ContainsFunc(own, o.runsCode) {
		return m.Holds
	}
	return append(slices.Clone(m.Holds), o.Canary)
}

// runsCode tells whether a scenario is made in a sandbox, or has a server run
// programs. One that is not known may.
func (o Options) runsCode(id string) bool {
	s, ok := o.Scenarios.Get(id)
	return !ok || len(s.Sandboxes()) > 0 || s.Calls()
}

// ErrSurvivors is wrapped by Prove's error when a mutant was not killed.
var ErrSurvivors = errors.New("not every mutant was killed")

// Prove runs every mutant and returns the kill matrix, a row for each pair of
// mutant and scenario, in order, and what is left of the mutants and of the
// runs against them. The error wraps ErrSurvivors when a cell is not Killed;
// the matrix is complete all the same. An interrupted proof returns the cells
// and the residue it has, with ctx's error.
func Prove(ctx context.Context, o Options) (kills []runner.Kill, residue []string, err error) {
	for _, m := range slices.Concat(o.Mutants, o.Scaffolds) {
		for _, id := range slices.Concat(o.mustHold(m), m.Kills) {
			if _, ok := o.Scenarios.Get(id); !ok {
				return nil, nil, fmt.Errorf("reading mutant %s: no scenario %q; fix the mutant's kills", m.ID, id)
			}
		}
		if len(m.Kills) == 0 {
			return nil, nil, fmt.Errorf("reading mutant %s: it kills no scenario", m.ID)
		}
	}
	for _, m := range o.Mutants {
		if len(o.mustHold(m)) == 0 {
			return nil, nil, fmt.Errorf("reading mutant %s: nothing has to hold on it, so that whatever breaks its sandboxes would kill it; name something in its holds", m.ID)
		}
	}
	restore, err := o.Stage.Scaffold(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("preparing the cluster for mutants: %w", err)
	}
	cells, residue, runErr := onScaffolds(ctx, o)
	// The reference must get its admission policy back whatever happened.
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if err := restore(undo); err != nil {
		residue = append(residue, fmt.Sprintf("the reference's admission policy, as it was for the mutants: %v", err))
		runErr = errors.Join(runErr, fmt.Errorf("restoring the reference (run `stockade up` to repair it): %w", err))
	}
	if runErr != nil {
		return cells, residue, runErr
	}
	if n := len(slices.DeleteFunc(slices.Clone(cells), func(k runner.Kill) bool { return k.Fate == runner.Killed })); n > 0 {
		return cells, residue, fmt.Errorf("%w: %d of %d cells", ErrSurvivors, n, len(cells))
	}
	return cells, residue, nil
}

// onScaffolds attacks the scaffolds, and then the mutants that stand on them.
func onScaffolds(ctx context.Context, o Options) (cells []runner.Kill, residue []string, err error) {
	bare := o
	bare.Mutants = o.Scaffolds
	shown, left, err := all(ctx, bare)
	if err != nil {
		return nil, left, err
	}
	cells, residue, err = all(ctx, o)
	return unscaffolded(cells, o.Mutants, shown), append(left, residue...), err
}

// unscaffolded makes void what a mutant's scaffold shows without the mutant's change,
// and what it could not show. It is a pure function.
func unscaffolded(cells []runner.Kill, mutants []Mutant, scaffolds []runner.Kill) []runner.Kill {
	for i := range cells {
		c := &cells[i]
		m := mutants[slices.IndexFunc(mutants, func(m Mutant) bool { return m.ID == c.Mutant })]
		at := slices.IndexFunc(scaffolds, func(s runner.Kill) bool { return s.Mutant == m.Scaffold && s.Scenario == c.Scenario })
		if at < 0 || c.Fate != runner.Killed {
			continue
		}
		switch s := scaffolds[at]; s.Fate {
		case runner.Killed:
			c.Fate, c.Detail = runner.Void, fmt.Sprintf("its scaffold %s is breached without its change: %s", m.Scaffold, s.Detail)
		case runner.Void:
			c.Fate, c.Detail = runner.Void, fmt.Sprintf("its scaffold %s shows nothing: %s", m.Scaffold, s.Detail)
		case runner.Survived:
			if !s.Denied {
				c.Fate, c.Detail = runner.Void, fmt.Sprintf("its scaffold %s could not be judged: %s", m.Scaffold, s.Detail)
			}
		}
	}
	return cells
}

// VoidBreached makes void, in place, the kills by scenarios that are breached on the
// deployment as it is: what they say of a mutant does not come from its change.
func VoidBreached(kills []runner.Kill, reference *runner.Run) {
	for i := range kills {
		k := &kills[i]
		at := slices.IndexFunc(reference.Outcomes, func(o runner.Outcome) bool { return o.Scenario.ID == k.Scenario })
		if at < 0 || k.Fate != runner.Killed {
			continue
		}
		if r := reference.Outcomes[at].Attacked(); r.Verdict() == verdict.Breached {
			k.Fate, k.Detail = runner.Void, "the deployment as it is is breached, too: "+r.Detail()
		}
	}
}

// all runs the mutants that are confined to their namespace side by side, then
// the others one by one.
func all(ctx context.Context, o Options) (cells []runner.Kill, residue []string, err error) {
	rows, left := make([][]runner.Kill, len(o.Mutants)), make([][]string, len(o.Mutants))
	g, gctx := errgroup.WithContext(ctx)
	parallel := o.Parallel
	if parallel <= 0 {
		parallel = 2
	}
	g.SetLimit(parallel)
	for i, m := range o.Mutants {
		if o.alone(m) {
			continue
		}
		g.Go(func() error {
			if err := gctx.Err(); err != nil {
				return err
			}
			rows[i], left[i] = one(gctx, o, m)
			return gctx.Err()
		})
	}
	err = g.Wait()
	for i, m := range o.Mutants {
		if err != nil || !o.alone(m) {
			continue
		}
		rows[i], left[i] = one(ctx, o, m)
		err = ctx.Err()
	}
	return slices.Concat(rows...), slices.Concat(left...), err
}

// alone tells whether nothing may run beside a mutant: by its nature, or because
// an attack on it takes all that the machine has, and its neighbours' canaries
// would starve.
func (o Options) alone(m Mutant) bool {
	return m.Alone || slices.ContainsFunc(m.Kills, func(id string) bool {
		s, ok := o.Scenarios.Get(id)
		return ok && s.Exclusive
	})
}

// one proves a mutant. What is void or inconclusive is tried once more; a scenario that
// said Held on a mutant is not: that is an answer, and stays one when the mutant's other
// scenarios are tried again.
func one(ctx context.Context, o Options, m Mutant) (cells []runner.Kill, residue []string) {
	began := time.Now()
	done := o.Progress.Step("mutant " + m.ID)
	cells, residue = try(ctx, o, m)
	if slices.ContainsFunc(cells, undecided) && ctx.Err() == nil {
		o.Progress.Note("mutant %s once more: %s", m.ID, tally(cells))
		again, left := try(ctx, o, m)
		residue = append(residue, left...)
		for i := range cells {
			if undecided(cells[i]) {
				cells[i] = again[i]
			}
		}
	}
	for i := range cells {
		cells[i].Took = time.Since(began)
	}
	done(tally(cells), nil)
	return cells, residue
}

func undecided(k runner.Kill) bool {
	return k.Fate == runner.Void || (k.Fate == runner.Survived && k.Result.Verdict() != verdict.Held)
}

// try deploys, checks, attacks and removes a mutant. The residue is what the
// run against it could not remove, and the mutant where that stands: a taint or
// a namespace that stays behind must not end with this process's last line.
func try(ctx context.Context, o Options, m Mutant) (cells []runner.Kill, residue []string) {
	holds := o.mustHold(m)
	picked, err := o.Scenarios.Select(slices.Concat(holds, m.Kills)...)
	if err != nil {
		return Judge(m, holds, Finding{Err: err}), nil
	}
	down, err := o.Stage.Deploy(ctx, m, picked)
	defer func() {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		if err := down(undo); err != nil {
			residue = append(residue, fmt.Sprintf("mutant %s: taking it down: %v; `stockade cleanup` removes it", m.ID, err))
		}
	}()
	f := Finding{Err: err}
	if err == nil {
		f.Effective, f.Saw, f.Err = o.Stage.Effect(ctx, m)
	}
	if f.Err == nil && f.Effective {
		f.Run, f.Err = o.Stage.Attack(ctx, m, picked)
	}
	if f.Run != nil {
		for _, what := range f.Run.Residue {
			residue = append(residue, "mutant "+m.ID+": "+what)
		}
	}
	return Judge(m, holds, f), residue
}

func tally(cells []runner.Kill) string {
	var s strings.Builder
	for i, k := range cells {
		if i > 0 {
			s.WriteString(", ")
		}
		s.WriteString(k.Scenario + " " + string(k.Fate))
		if k.Fate != runner.Killed {
			s.WriteString(" (" + k.Detail + ")")
		}
	}
	return s.String()
}

// Finding is what was seen of one mutant.
type Finding struct {
	// Err is why the mutant could not be deployed, read back or attacked.
	Err       error
	Effective bool
	Saw       string // what was read back
	Run       *runner.Run
}

// Judge tells the fate of a mutant under each scenario it must be killed by, given
// those that must hold. It is a pure function, and it doubts the mutant first. A kill
// is a breach that a round of the attack saw: that the mutant lacks a feature which the
// target declares is true of it before anything was tried, and kills nothing.
func Judge(m Mutant, holds []string, f Finding) []runner.Kill {
	outcome := map[string]runner.Outcome{}
	if f.Run != nil {
		for _, o := range f.Run.Outcomes {
			outcome[o.Scenario.ID] = o
		}
	}
	void := ""
	switch {
	case f.Err != nil:
		void = f.Err.Error()
	case !f.Effective:
		void = "did not take effect: " + f.Saw
	case f.Run == nil:
		void = "was not attacked"
	}
	for _, id := range holds {
		if r := outcome[id].Result; void == "" && r.Verdict() != verdict.Held {
			void = fmt.Sprintf("broke more than its control: %s is %s %s: %s", id, r.Verdict(), r.Reason(), r.Detail())
		}
	}
	cells := make([]runner.Kill, 0, len(m.Kills))
	for _, id := range m.Kills {
		r := outcome[id].Attacked()
		k := runner.Kill{Mutant: m.ID, Scenario: id, Result: r}
		switch {
		case void != "":
			k.Fate, k.Detail = runner.Void, void
		case r.Verdict() == verdict.Breached:
			k.Fate, k.Detail = runner.Killed, r.Detail()
		default:
			k.Fate, k.Denied = runner.Survived, denied(outcome[id])
			k.Detail = fmt.Sprintf("%s %s: %s", r.Verdict(), r.Reason(), r.Detail())
		}
		cells = append(cells, k)
	}
	return cells
}

// denied tells whether a scenario that saw no breach has shown all the same that the
// attack was denied. That is more than Held: the denial may be of a kind that the
// scenario does not expect, and what is disclosed may have been denied too. Every attempt
// has to be complete, every step of it denied, and the control to have worked.
func denied(o runner.Outcome) bool {
	if len(o.Rounds) == 0 {
		return o.Result.Verdict() == verdict.NotApplicable
	}
	last := o.Rounds[len(o.Rounds)-1]
	if last.Result.Verdict() == verdict.Held {
		return true
	}
	e := last.Evidence
	e.Core, e.Require, e.Statements = verdict.MustFail, nil, nil
	e.Attempts, e.Accept = slices.Clone(e.Attempts), nil
	for i := range e.Attempts {
		a := &e.Attempts[i]
		a.Steps = slices.Clone(a.Steps)
		for j := range a.Steps {
			step := &a.Steps[j]
			if step.Expect == verdict.Disclosed {
				step.Expect = verdict.MustFail
			}
			e.Accept = append(e.Accept, step.Class)
		}
	}
	return verdict.Decide(e).Verdict() == verdict.Held
}
