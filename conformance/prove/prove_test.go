// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/overlays"
	scenarios "github.com/stockade-dev/stockade/scenarios/all"
)

func registry(t *testing.T) *suite.Registry {
	t.Helper()
	var r suite.Registry
	for _, id := range []string{"net.attack", "honest.work", "other.work"} {
		require.NoError(t, r.Add(suite.Scenario{
			ID: id, Title: "Try", About: "It.", Claims: []string{"AS-06"}, Kind: suite.Guarantee, Severity: suite.High,
			Attack:  func(context.Context, *probe.Env) []verdict.Step { return nil },
			Control: suite.ControlSpec{Why: "it works there"}, Accept: []verdict.Class{verdict.Dropped}, Mutants: []string{"open"},
		}))
	}
	return &r
}

func held() verdict.Result {
	step := func(ok bool) []verdict.Attempt {
		return []verdict.Attempt{{Complete: true, Steps: []verdict.Step{{OK: ok, Class: verdict.Dropped}}}}
	}
	return verdict.Decide(verdict.Evidence{Attempts: step(false), Controls: step(true), Accept: []verdict.Class{verdict.Dropped}})
}

func run(t *testing.T, attack, honest verdict.Result) *runner.Run {
	t.Helper()
	r := registry(t)
	a, _ := r.Get("net.attack")
	h, _ := r.Get("honest.work")
	o, _ := r.Get("other.work")
	return &runner.Run{Outcomes: []runner.Outcome{
		{Scenario: a, Result: attack, Rounds: []runner.Round{{Result: attack}}},
		{Scenario: h, Result: honest, Rounds: []runner.Round{{Result: honest}}},
		{Scenario: o, Result: held(), Rounds: []runner.Round{{Result: held()}}},
	}}
}

func TestOnlyAnEffectiveMutantWhoseBreachWasSeenIsKilled(t *testing.T) {
	m := Mutant{ID: "open", Kills: []string{"net.attack"}}
	for name, c := range map[string]struct {
		f    Finding
		want runner.Fate
	}{
		"breached":                            {Finding{Effective: true, Run: run(t, verdict.Breach("through"), held())}, runner.Killed},
		"still held":                          {Finding{Effective: true, Run: run(t, held(), held())}, runner.Survived},
		"inconclusive":                        {Finding{Effective: true, Run: run(t, verdict.Unsure(verdict.NoFrame, ""), held())}, runner.Survived},
		"never run":                           {Finding{Effective: true, Run: run(t, verdict.Result{}, held())}, runner.Survived},
		"breached, but without effect":        {Finding{Run: run(t, verdict.Breach("through"), held())}, runner.Void},
		"breached, but honest code is broken": {Finding{Effective: true, Run: run(t, verdict.Breach("x"), verdict.Breach("y"))}, runner.Void},
		"breached, but honest code never ran": {Finding{Effective: true, Run: run(t, verdict.Breach("x"), verdict.Result{})}, runner.Void},
		"not deployed":                        {Finding{Err: errors.New("no image")}, runner.Void},
		"not attacked":                        {Finding{Effective: true}, runner.Void},
	} {
		t.Run(name, func(t *testing.T) {
			cells := Judge(m, []string{"honest.work"}, c.f)
			require.Len(t, cells, 1)
			assert.Equal(t, c.want, cells[0].Fate, cells[0].Detail)
		})
	}
}

// What the target declares and the mutant lacks makes the scenario Breached
// without any attack: such a result says nothing of what the scenario can see.
func TestAMissingFeatureKillsNoMutant(t *testing.T) {
	m := Mutant{ID: "open", Kills: []string{"net.attack"}}
	missing := verdict.Breach("the target declares gvisor, and does not have it")
	for name, c := range map[string]struct {
		rounds []verdict.Result
		want   runner.Fate
		says   verdict.Verdict
	}{
		"every round held":         {[]verdict.Result{held()}, runner.Survived, verdict.Held},
		"no round was conclusive":  {[]verdict.Result{verdict.Unsure(verdict.NoFrame, "")}, runner.Survived, verdict.Inconclusive},
		"there was no round":       {nil, runner.Survived, verdict.NotRun},
		"a round saw the breach":   {[]verdict.Result{verdict.Breach("through")}, runner.Killed, verdict.Breached},
		"an early round saw it":    {[]verdict.Result{verdict.Breach("through"), held()}, runner.Killed, verdict.Breached},
		"the second round saw one": {[]verdict.Result{verdict.Unsure(verdict.NoFrame, ""), verdict.Breach("through")}, runner.Killed, verdict.Breached},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, missing, held())
			r.Outcomes[0].Rounds = nil
			for _, x := range c.rounds {
				r.Outcomes[0].Rounds = append(r.Outcomes[0].Rounds, runner.Round{Result: x})
			}
			cells := Judge(m, []string{"honest.work"}, Finding{Effective: true, Run: r})
			require.Len(t, cells, 1)
			assert.Equal(t, c.want, cells[0].Fate, cells[0].Detail)
			assert.Equal(t, c.says, cells[0].Result.Verdict())
		})
	}
}

// Denials of a policy hold on a sandbox in which no honest program runs any more,
// too; refusals of the API server are the same whether one runs or not.
func TestTheCanaryMustHoldBesideAMutantsOwn(t *testing.T) {
	r := registry(t)
	ask := func(context.Context, *suite.APIEnv) []verdict.Step { return nil }
	for _, s := range []suite.Scenario{{ID: "api.ask"}, {ID: "api.other"}, {ID: "api.live", Live: true}, {ID: "session.open", As: []string{"alice"}}} {
		s.Title, s.About, s.Claims, s.Kind, s.Severity = "Try", "It.", []string{"AS-06"}, suite.Guarantee, suite.High
		s.Ask, s.AskControl, s.Accept, s.Mutants = ask, ask, []verdict.Class{verdict.Absent}, []string{"open"}
		require.NoError(t, r.Add(s))
	}
	o := Options{Scenarios: r, Canary: "honest.work"}
	for name, c := range map[string]struct {
		m    Mutant
		want []string
	}{
		"an attack in a sandbox":             {Mutant{Kills: []string{"net.attack"}, Holds: []string{"api.ask"}}, []string{"api.ask", "honest.work"}},
		"something in a sandbox has to hold": {Mutant{Kills: []string{"api.ask"}, Holds: []string{"net.attack"}}, []string{"net.attack", "honest.work"}},
		"a sandbox that runs is asked about": {Mutant{Kills: []string{"api.live"}, Holds: []string{"api.ask"}}, []string{"api.ask", "honest.work"}},
		"a server runs programs":             {Mutant{Kills: []string{"session.open"}, Holds: []string{"api.ask"}}, []string{"api.ask", "honest.work"}},
		"the API server alone":               {Mutant{Kills: []string{"api.ask"}, Holds: []string{"api.other"}}, []string{"api.other"}},
		"nothing of its own has to hold":     {Mutant{Kills: []string{"api.ask"}}, []string{"honest.work"}},
		"a mutant of the canary itself":      {Mutant{Kills: []string{"honest.work"}, Holds: []string{"net.attack"}}, []string{"net.attack"}},
		"the canary is named":                {Mutant{Kills: []string{"net.attack"}, Holds: []string{"honest.work"}}, []string{"honest.work"}},
	} {
		assert.Equal(t, c.want, o.mustHold(c.m), name)
	}
}

func TestAMutantThatCannotBeFeltIsLeftOut(t *testing.T) {
	all := []overlays.Mutant{{ID: "open"}, {ID: "open6", Needs: []string{"ipv6"}}, {ID: "both", Needs: []string{"gvisor", "ipv6"}}}
	picked, unfelt := List(all, []suite.Feature{suite.GVisor})
	require.Len(t, picked, 1)
	assert.Equal(t, "open", picked[0].ID)
	assert.Equal(t, map[string]suite.Feature{"open6": suite.IPv6, "both": suite.IPv6}, unfelt)
	picked, unfelt = List(all, []suite.Feature{suite.GVisor, suite.IPv6})
	assert.Len(t, picked, 3)
	assert.Empty(t, unfelt)
}

// A scenario that some target has no use for must be killed by mutants that
// are left out there, and a feature with a wrong name would leave one out
// everywhere.
func TestAMutantNeedsWhatItsScenariosNeedAndNoMore(t *testing.T) {
	mutants, err := overlays.LoadMutants()
	require.NoError(t, err)
	optional := []suite.Feature{suite.IPv6} // what a reference may do without
	for _, m := range mutants {
		needs := map[string]bool{}
		for _, id := range m.Kills {
			s, ok := scenarios.Registry.Get(id)
			require.True(t, ok, id)
			for _, f := range s.Needs {
				if slices.Contains(optional, f) {
					needs[string(f)] = true
				}
			}
		}
		assert.ElementsMatch(t, slices.Collect(maps.Keys(needs)), m.Needs, m.ID)
	}
}

// stage is a fake; it backs no claim.
type stage struct {
	mu       sync.Mutex
	log      []string
	up       int
	peak     int
	breached bool
	t        *testing.T
	deploy   error
	down     error
	restore  error
	residue  []string // of every run
}

func (s *stage) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, what)
}

func (s *stage) Scaffold(context.Context) (func(context.Context) error, error) {
	s.note("scaffold")
	return func(context.Context) error { s.note("restore"); return s.restore }, nil
}

func (s *stage) Deploy(_ context.Context, m Mutant, _ []*suite.Scenario) (func(context.Context) error, error) {
	s.mu.Lock()
	s.up++
	s.peak = max(s.peak, s.up)
	if m.Alone {
		assert.Equal(s.t, 1, s.up, "%s must be alone", m.ID)
	}
	s.mu.Unlock()
	return func(context.Context) error {
		s.mu.Lock()
		s.up--
		s.mu.Unlock()
		s.note("down " + m.ID)
		return s.down
	}, s.deploy
}

func (s *stage) Effect(context.Context, Mutant) (bool, string, error) { return true, "", nil }

func (s *stage) Attack(_ context.Context, _ Mutant, picked []*suite.Scenario) (*runner.Run, error) {
	assert.Len(s.t, picked, 2, "the attack and the canary")
	attack := held()
	if s.breached {
		attack = verdict.Breach("through")
	}
	r := run(s.t, attack, held())
	r.Residue = s.residue
	return r, nil
}

func mutants() []Mutant {
	k := []string{"net.attack"}
	return []Mutant{{ID: "a", Kills: k}, {ID: "class", Kills: k, Alone: true}, {ID: "b", Kills: k}, {ID: "c", Kills: k}}
}

func TestEveryMutantIsTakenDownAndTheReferenceRestored(t *testing.T) {
	for name, s := range map[string]*stage{
		"all killed":  {t: t, breached: true},
		"a survivor":  {t: t},
		"not deploys": {t: t, deploy: errors.New("no image")},
	} {
		t.Run(name, func(t *testing.T) {
			cells, residue, err := Prove(t.Context(), Options{Stage: s, Mutants: mutants(), Scenarios: registry(t), Canary: "honest.work", Parallel: 3})
			assert.Equal(t, s.breached, err == nil)
			if err != nil {
				assert.ErrorIs(t, err, ErrSurvivors)
			}
			assert.Len(t, cells, 4)
			assert.Empty(t, residue)
			assert.Zero(t, s.up)
			assert.LessOrEqual(t, s.peak, 3)
			assert.Equal(t, "restore", s.log[len(s.log)-1])
			for _, m := range mutants() {
				assert.True(t, slices.Contains(s.log, "down "+m.ID), m.ID)
			}
		})
	}
}

func TestOnlyWhatIsUndecidedIsTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		s     *stage
		tries int
	}{
		"killed is an answer":     {&stage{t: t, breached: true}, 1},
		"held is an answer":       {&stage{t: t}, 1},
		"void is tried once more": {&stage{t: t, deploy: errors.New("no image")}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, _ = Prove(t.Context(), Options{Stage: c.s, Mutants: mutants()[:1], Scenarios: registry(t), Canary: "honest.work"})
			tries := 0
			for _, l := range c.s.log {
				if l == "down a" {
					tries++
				}
			}
			assert.Equal(t, c.tries, tries)
		})
	}
}

// twice is a stage on which each try has results of its own.
type twice struct {
	*stage
	attack, honest [2]verdict.Result
	n              int
}

func (s *twice) Attack(context.Context, Mutant, []*suite.Scenario) (*runner.Run, error) {
	s.n++
	return run(s.t, s.attack[s.n-1], s.honest[s.n-1]), nil
}

func TestASecondTryChangesNoAnswerOfTheFirst(t *testing.T) {
	unsure, through := verdict.Unsure(verdict.NoFrame, "lost"), verdict.Breach("through")
	m := Mutant{ID: "two", Kills: []string{"net.attack", "honest.work"}, Holds: []string{"other.work"}}
	for name, c := range map[string]struct {
		first, second verdict.Result
		want          runner.Fate
	}{
		"it survived":     {held(), through, runner.Survived},
		"it was killed":   {through, unsure, runner.Killed},
		"nobody can tell": {unsure, through, runner.Killed},
	} {
		t.Run(name, func(t *testing.T) {
			s := &twice{stage: &stage{t: t}, attack: [2]verdict.Result{c.first, c.second}, honest: [2]verdict.Result{unsure, through}}
			cells, _, _ := Prove(t.Context(), Options{Stage: s, Mutants: []Mutant{m}, Scenarios: registry(t), Canary: "honest.work"})
			require.Len(t, cells, 2)
			assert.Equal(t, 2, s.n)
			assert.Equal(t, c.want, cells[0].Fate, cells[0].Detail)
			assert.Equal(t, runner.Killed, cells[1].Fate, cells[1].Detail)
		})
	}
}

func TestAnInterruptedProofRestoresToo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &stage{t: t, breached: true}
	_, _, err := Prove(ctx, Options{Stage: s, Mutants: mutants(), Scenarios: registry(t), Canary: "honest.work"})
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, "restore", s.log[len(s.log)-1])
	assert.Zero(t, s.up)
}

func TestWhatAProofLeavesBehindIsReturned(t *testing.T) {
	s := &stage{t: t, breached: true, down: errors.New("a finalizer holds it"), residue: []string{"Pod mutant-a/x of run r: stuck"}}
	_, residue, err := Prove(t.Context(), Options{Stage: s, Mutants: mutants()[:2], Scenarios: registry(t), Canary: "honest.work"})
	require.NoError(t, err, "every mutant was killed")
	require.Len(t, residue, 4)
	assert.Equal(t, "mutant a: Pod mutant-a/x of run r: stuck", residue[0])
	assert.Contains(t, residue[1], "mutant a: taking it down: a finalizer holds it")
	assert.Contains(t, residue[3], "mutant class: taking it down")

	s = &stage{t: t, deploy: errors.New("no image"), down: errors.New("a finalizer holds it")}
	_, residue, err = Prove(t.Context(), Options{Stage: s, Mutants: mutants()[:1], Scenarios: registry(t), Canary: "honest.work"})
	require.ErrorIs(t, err, ErrSurvivors)
	assert.Len(t, residue, 2, "of both tries")

	s = &stage{t: t, breached: true, restore: errors.New("forbidden")}
	_, residue, err = Prove(t.Context(), Options{Stage: s, Mutants: mutants()[:1], Scenarios: registry(t), Canary: "honest.work"})
	require.ErrorContains(t, err, "restoring the reference")
	require.Len(t, residue, 1)
	assert.Contains(t, residue[0], "forbidden")
}

func TestAMutantOfAnUnknownScenarioIsRefusedBeforeAnythingChanges(t *testing.T) {
	s := &stage{t: t}
	_, _, err := Prove(t.Context(), Options{Stage: s, Mutants: []Mutant{{ID: "x", Kills: []string{"net.gone"}}}, Scenarios: registry(t), Canary: "honest.work"})
	assert.ErrorContains(t, err, "net.gone")
	assert.Empty(t, s.log)
}

// A mutant of the canary itself is killed by whatever ends its sandboxes, unless
// something else has to hold there.
func TestAMutantOnWhichNothingHasToHoldIsRefused(t *testing.T) {
	s := &stage{t: t}
	o := Options{Stage: s, Mutants: []Mutant{{ID: "x", Kills: []string{"honest.work"}}}, Scenarios: registry(t), Canary: "honest.work"}
	_, _, err := Prove(t.Context(), o)
	require.ErrorContains(t, err, "nothing has to hold")
	assert.Empty(t, s.log)

	all, err := overlays.LoadMutants()
	require.NoError(t, err)
	for _, m := range all {
		p, ok := suite.ProfileByID(m.Base)
		require.True(t, ok, m.ID)
		o := Options{Scenarios: scenarios.Registry, Canary: p.Canary}
		assert.NotEmpty(t, o.mustHold(Mutant{ID: m.ID, Kills: m.Kills, Holds: m.Holds}), m.ID)
	}
}

func TestNothingStandsBesideAMutantThatIsAttackedByLoad(t *testing.T) {
	r := registry(t)
	attack, _ := r.Get("net.attack")
	attack.Exclusive = true
	s := &stage{t: t, breached: true}
	_, _, err := Prove(t.Context(), Options{Stage: s, Mutants: mutants(), Scenarios: r, Canary: "honest.work", Parallel: 3})
	require.NoError(t, err)
	assert.Equal(t, 1, s.peak)
}

func TestWhatTheScaffoldShowsIsNoKillOfAMutant(t *testing.T) {
	m := []Mutant{{ID: "a", Scaffold: "s"}, {ID: "b", Scaffold: "other"}, {ID: "reference"}}
	for name, c := range map[string]struct {
		mutant   string
		fate     runner.Fate
		scaffold runner.Fate
		denied   bool // on the scaffold
		want     runner.Fate
	}{
		"the scaffold is breached as well":  {"a", runner.Killed, runner.Killed, false, runner.Void},
		"the scaffold shows nothing":        {"a", runner.Killed, runner.Void, false, runner.Void},
		"the scaffold denies it":            {"a", runner.Killed, runner.Survived, true, runner.Killed},
		"the scaffold could not be judged":  {"a", runner.Killed, runner.Survived, false, runner.Void},
		"another's scaffold is breached":    {"b", runner.Killed, runner.Killed, false, runner.Killed},
		"it stands on the reference itself": {"reference", runner.Killed, runner.Killed, false, runner.Killed},
		"it had survived":                   {"a", runner.Survived, runner.Killed, false, runner.Survived},
	} {
		cells := []runner.Kill{{Mutant: c.mutant, Scenario: "net.attack", Fate: c.fate}}
		got := unscaffolded(cells, m, []runner.Kill{
			{Mutant: "s", Scenario: "net.other", Fate: runner.Killed}, {Mutant: "s", Scenario: "net.attack", Fate: c.scaffold, Denied: c.denied}})
		require.Len(t, got, 1)
		assert.Equal(t, c.want, got[0].Fate, name)
	}
}

func TestAScaffoldHasDeniedAnAttackOnlyByWhatWasSeen(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	attempt := func(steps ...verdict.Step) verdict.Attempt {
		return verdict.Attempt{Nonce: "n", Start: at, End: at, Complete: true, Steps: steps}
	}
	step := func(expect verdict.Expect, class verdict.Class) verdict.Step {
		return verdict.Step{Name: "x", Expect: expect, Class: class}
	}
	good := attempt(verdict.Step{Name: "x", OK: true})
	refused := attempt(step(verdict.MustFail, verdict.Refused))
	lost := attempt(step(verdict.MustFail, verdict.TransportError))
	for name, c := range map[string]struct {
		attempts []verdict.Attempt
		control  verdict.Attempt
		want     bool
	}{
		"as expected":                     {[]verdict.Attempt{attempt(step(verdict.MustFail, verdict.Dropped))}, good, true},
		"in another way":                  {[]verdict.Attempt{refused}, good, true},
		"what is disclosed":               {[]verdict.Attempt{attempt(step(verdict.Disclosed, verdict.Dropped))}, good, true},
		"in another way, without control": {[]verdict.Attempt{refused}, attempt(step(verdict.MustFail, verdict.Refused)), false},
		"once of twice":                   {[]verdict.Attempt{refused, lost}, good, false},
		"what is disclosed, by an error":  {[]verdict.Attempt{attempt(step(verdict.Disclosed, verdict.TransportError))}, good, false},
		"one step of two":                 {[]verdict.Attempt{attempt(step(verdict.MustFail, verdict.Refused), step(verdict.MustFail, verdict.Unknown))}, good, false},
		"an attempt that was lost":        {[]verdict.Attempt{{Nonce: "n", Start: at, End: at}}, good, false},
		"nothing":                         {nil, good, false},
	} {
		e := verdict.Evidence{Attempts: c.attempts, Controls: []verdict.Attempt{c.control}, Accept: []verdict.Class{verdict.Dropped}, Require: []string{"flows"}}
		got := denied(runner.Outcome{Rounds: []runner.Round{{Evidence: e, Result: verdict.Decide(e)}}})
		assert.Equal(t, c.want, got, name)
	}
	assert.True(t, denied(runner.Outcome{Result: verdict.Skip("no IPv6")}))
	assert.False(t, denied(runner.Outcome{}))
}

func TestScaffoldsAreAttackedBeforeTheMutantsThatStandOnThem(t *testing.T) {
	s := &stage{t: t, breached: true} // whatever is up
	m := Mutant{ID: "a", Kills: []string{"net.attack"}, Scaffold: "s"}
	cells, _, err := Prove(t.Context(), Options{Stage: s, Mutants: []Mutant{m}, Scaffolds: []Mutant{{ID: "s", Kills: m.Kills}}, Scenarios: registry(t), Canary: "honest.work"})
	require.ErrorIs(t, err, ErrSurvivors)
	require.Len(t, cells, 1)
	assert.Equal(t, runner.Void, cells[0].Fate)
	assert.Contains(t, cells[0].Detail, "its scaffold s is breached")
	assert.Equal(t, []string{"scaffold", "down s", "down a", "restore"}, s.log)
}

func TestABreachOfTheDeploymentAsItIsIsNoKillOfAMutant(t *testing.T) {
	outcome := func(id string, r verdict.Result) runner.Outcome {
		return runner.Outcome{Scenario: &suite.Scenario{ID: id}, Result: r, Rounds: []runner.Round{{Result: r}}}
	}
	run := &runner.Run{Outcomes: []runner.Outcome{outcome("net.open", verdict.Breach("through")), outcome("net.closed", held())}}
	kills := []runner.Kill{
		{Mutant: "a", Scenario: "net.open", Fate: runner.Killed}, {Mutant: "a", Scenario: "net.closed", Fate: runner.Killed},
		{Mutant: "a", Scenario: "of.another-profile", Fate: runner.Killed}, {Mutant: "b", Scenario: "net.open", Fate: runner.Survived},
	}
	VoidBreached(kills, run)
	var fates []runner.Fate
	for _, k := range kills {
		fates = append(fates, k.Fate)
	}
	assert.Equal(t, []runner.Fate{runner.Void, runner.Killed, runner.Killed, runner.Survived}, fates)
	assert.Contains(t, kills[0].Detail, "through")
}
