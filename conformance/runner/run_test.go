// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/conformance/target/faketarget"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/conformance/witness"
)

func TestADeniedAttackWithItsControlIsHeld(t *testing.T) {
	s := scenario("net.connect", denied)
	s.Attempts = 2
	f := setup(t, s)
	o := only(t, f.run(t))
	require.Equal(t, verdict.Held, o.Result.Verdict(), said(o))
	require.Len(t, o.Rounds, 1)
	e := o.Rounds[0].Evidence
	assert.Len(t, e.Attempts, 2)
	assert.Len(t, e.Controls, 1)
	assert.NotEqual(t, e.Attempts[0].Nonce, e.Attempts[1].Nonce)
	assert.Regexp(t, "^[0-9a-f]{32}$", e.Attempts[0].Nonce)
	assert.NotContains(t, f.carrier.Calls, "router run", "nobody asked the router")
}

func TestASuccessfulAttackIsBreached(t *testing.T) {
	o := only(t, setup(t, scenario("net.connect", worked)).run(t))
	assert.Equal(t, verdict.Breached, o.Result.Verdict(), said(o))
	assert.Len(t, o.Rounds, 1, "a breach is not tried again")
}

func TestNoLieEndsInHeld(t *testing.T) {
	for name, lie := range faketarget.Lies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, scenario("net.connect", denied))
			f.carrier.Set("box", lie)
			o := only(t, f.run(t))
			assert.Equal(t, verdict.Inconclusive, o.Result.Verdict(), said(o))
			assert.Len(t, o.Rounds, 3)
		})
	}
}

func TestTheRangeOverrulesASandboxThatSaysDenied(t *testing.T) {
	f := setup(t)
	_ = f
	s := scenario("net.connect", nil)
	log := &rangeLog{}
	s.Attack, s.Control.Act = reaching(log, false), reaching(log, true)
	s.Witnesses = []suite.Witness{{Name: suite.RangeLog}}
	f = setup(t, s)
	f.o.Range = log
	o := only(t, f.run(t))
	assert.Equal(t, verdict.Breached, o.Result.Verdict(), said(o))
	assert.Contains(t, o.Result.Detail(), "range-log")
}

func TestAbsenceAtTheRangeNeedsALivingRange(t *testing.T) {
	log := &rangeLog{}
	s := scenario("net.connect", denied)
	s.Control.Act = reaching(log, true)
	s.Witnesses = []suite.Witness{{Name: suite.RangeLog}}
	f := setup(t, s)

	f.o.Range = log
	o := only(t, f.run(t))
	assert.Equal(t, verdict.Held, o.Result.Verdict(), said(o))

	log.err = errors.New("restarted")
	o = only(t, f.run(t))
	assert.Equal(t, verdict.WitnessDead, o.Result.Reason(), said(o))

	f.o.Range = nil
	o = only(t, f.run(t))
	assert.Equal(t, verdict.WitnessDead, o.Result.Reason(), said(o))

	f.o.Range = &rangeLog{} // one that the control does not reach
	o = only(t, f.run(t))
	assert.Equal(t, verdict.WitnessDead, o.Result.Reason(), said(o))
}

func TestFlowsMustShowAPolicyDrop(t *testing.T) {
	s := scenario("net.connect", denied)
	s.Witnesses = []suite.Witness{{Name: suite.Flows, Flow: &suite.Flow{To: func(site probe.Site) []string { return []string{site.PublicTCP} }}}}
	f := setup(t, s)
	o := only(t, f.run(t))
	assert.Equal(t, verdict.WitnessDead, o.Result.Reason(), said(o))

	now := time.Now()
	parse := func(line string) witness.Flow { return flow(t, line, now) }
	f.ground.flows = []witness.Flow{
		parse(`{"flow":{"time":"T","verdict":"FORWARDED","trace_observation_point":"TO_STACK","IP":{"source":"10.0.0.3","destination":"1.1.1.1"}}}`),
		parse(`{"flow":{"time":"T","verdict":"DROPPED","drop_reason_desc":"POLICY_DENIED","IP":{"source":"10.0.0.1","destination":"203.0.113.7"},"l4":{"TCP":{"destination_port":8080}}}}`),
	}
	o = only(t, f.run(t))
	assert.Equal(t, verdict.Held, o.Result.Verdict(), said(o))

	// The drop is still there, but something got out beside it.
	f.ground.flows = append(f.ground.flows,
		parse(`{"flow":{"time":"T","verdict":"FORWARDED","trace_observation_point":"TO_STACK","IP":{"source":"10.0.0.1","destination":"203.0.113.7"},"l4":{"TCP":{"destination_port":8080}}}}`))
	o = only(t, f.run(t))
	assert.Equal(t, verdict.Breached, o.Result.Verdict(), said(o))
	assert.Contains(t, o.Result.Detail(), "flows")
}

// rotating is a ground whose export of flows is read once, or once for each node,
// and then no more.
type rotating struct {
	*ground
	read map[string]int
	lost func(node string, before int) bool
}

func (r *rotating) Flows(ctx context.Context, node string) ([]witness.Flow, error) {
	before := r.read[node]
	r.read[node]++
	if r.lost(node, before) {
		return nil, errors.New("the export is gone")
	}
	return r.ground.Flows(ctx, node)
}

// One scenario's packet gets through while another's drop is awaited, or while
// the flows of another node cannot be read.
func TestAPacketThatWasSeenToGetThroughIsNotForgotten(t *testing.T) {
	toPublic := func(site probe.Site) []string { return []string{site.PublicTCP} }
	through, waiting := scenario("net.connect", denied), scenario("net.waits", denied)
	through.Witnesses = []suite.Witness{{Name: suite.Flows, Flow: &suite.Flow{To: toPublic}}}
	waiting.Witnesses = []suite.Witness{{Name: suite.Flows, Flow: &suite.Flow{Servers: true, To: func(probe.Site) []string { return []string{"10.96.0.7:80"} }}}}
	const line = `{"flow":{"time":"T","verdict":"FORWARDED","trace_observation_point":"TO_STACK","IP":{"source":%q,"destination":"203.0.113.7"},"l4":{"TCP":{"destination_port":8080}}}}`
	for name, lost := range map[string]func(string, int) bool{
		"the second reading fails":    func(_ string, before int) bool { return before > 0 },
		"another node is never read":  func(node string, _ int) bool { return node == "system" },
		"all that is read is the one": func(string, int) bool { return false },
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, through, waiting)
			f.o.Timeouts.Arrive = 500 * time.Millisecond
			f.ground.furnish = func(fd *Field) { fd.Servers = []string{"system"} }
			at := time.Now().Add(time.Second)
			for _, from := range []string{"10.0.0.3", "10.0.0.1"} {
				f.ground.flows = append(f.ground.flows, flow(t, fmt.Sprintf(line, from), at))
			}
			f.o.Ground = &rotating{ground: f.ground, read: map[string]int{}, lost: lost}
			run := f.run(t)
			require.Len(t, run.Outcomes, 2)
			assert.Equal(t, verdict.Breached, run.Outcomes[0].Result.Verdict(), said(run.Outcomes[0]))
			assert.Equal(t, verdict.Inconclusive, run.Outcomes[1].Result.Verdict(), said(run.Outcomes[1]))
		})
	}
}

func TestAServiceIsLookedForByWhatIsBehindIt(t *testing.T) {
	sc := &scene{field: &Field{Aliases: map[string][]string{"10.96.0.10:53": {"10.0.1.2:53", "10.0.1.3:53"}}}}
	assert.Equal(t, []string{"10.96.0.10:53/udp", "10.0.1.2:53/udp", "10.0.1.3:53/udp"}, sc.spellings("10.96.0.10:53/udp"))
	assert.Equal(t, []string{"10.96.0.10:53", "10.0.1.2:53", "10.0.1.3:53"}, sc.spellings("10.96.0.10:53"))
	assert.Equal(t, []string{"203.0.113.7/icmp"}, sc.spellings("203.0.113.7/icmp"))
}

func TestOneBreachInAnyRoundWins(t *testing.T) {
	var n atomic.Int32
	flaky := func(context.Context, *probe.Env) []verdict.Step {
		switch n.Add(1) {
		case 1:
			return []verdict.Step{{Name: "try", Class: verdict.TransportError}}
		case 2:
			return []verdict.Step{{Name: "try", OK: true}}
		}
		return []verdict.Step{{Name: "try", Class: verdict.Dropped}}
	}
	o := only(t, setup(t, scenario("net.connect", flaky)).run(t))
	assert.Equal(t, verdict.Breached, o.Result.Verdict(), said(o))
	assert.Len(t, o.Rounds, 2)
}

func TestOnlyTheInconclusiveIsTriedAgain(t *testing.T) {
	var held, flaky atomic.Int32
	f := setup(t,
		scenario("net.held", func(ctx context.Context, e *probe.Env) []verdict.Step { held.Add(1); return denied(ctx, e) }),
		scenario("net.flaky", func(ctx context.Context, e *probe.Env) []verdict.Step {
			if flaky.Add(1) == 1 {
				return []verdict.Step{{Name: "try", Class: verdict.ToolMissing}}
			}
			return denied(ctx, e)
		}))
	run := f.run(t)
	for _, o := range run.Outcomes {
		assert.Equal(t, verdict.Held, o.Result.Verdict(), said(o))
	}
	assert.EqualValues(t, 1, held.Load())
	assert.EqualValues(t, 2, flaky.Load())
}

func TestEveryIdIsThereExactlyOnce(t *testing.T) {
	alone, fatal := scenario("b.alone", denied), scenario("c.fatal", denied)
	alone.Exclusive, fatal.MayKill = true, true
	skipped := scenario("d.skipped", denied)
	skipped.Needs = []suite.Feature{suite.IPv6}
	f := setup(t, scenario("a.batch", denied), alone, fatal, skipped)
	count := map[string]int{}
	for _, o := range f.run(t).Outcomes {
		count[o.Scenario.ID]++
	}
	assert.Equal(t, map[string]int{"a.batch": 1, "b.alone": 1, "c.fatal": 1, "d.skipped": 1}, count)
}

func TestApplicabilityIsDeclaredTimesDetected(t *testing.T) {
	for name, c := range map[string]struct {
		declared, detected bool
		err                error
		attack             probe.Action
		want               verdict.Verdict
	}{
		"neither":                        {false, false, nil, denied, verdict.NotApplicable},
		"there, and not declared":        {false, true, nil, denied, verdict.Held},
		"declared and there":             {true, true, nil, denied, verdict.Held},
		"declared and missing":           {true, false, nil, denied, verdict.Breached},
		"nobody knows":                   {true, false, errors.New("forbidden"), denied, verdict.Inconclusive},
		"declared, missing and breached": {true, false, nil, worked, verdict.Breached},
	} {
		t.Run(name, func(t *testing.T) {
			s := scenario("net.connect", c.attack)
			s.Needs = []suite.Feature{suite.GVisor}
			f := setup(t, s)
			f.ground.features = map[suite.Feature]bool{suite.GVisor: c.detected}
			f.ground.detect = c.err
			if c.declared {
				f.o.Declared = []suite.Feature{suite.GVisor}
			}
			o := only(t, f.run(t))
			assert.Equal(t, c.want, o.Result.Verdict(), said(o))
		})
	}
}

func TestAFeatureThatIsMissingIsNotExcusedByAnother(t *testing.T) {
	for _, needs := range [][]suite.Feature{{suite.GVisor, suite.IPv6}, {suite.IPv6, suite.GVisor}} {
		s := scenario("net.connect", denied)
		s.Needs = needs
		f := setup(t, s)
		f.o.Declared = []suite.Feature{suite.GVisor} // and it has neither
		o := only(t, f.run(t))
		assert.Equal(t, verdict.Breached, o.Result.Verdict(), "%v: %s", needs, said(o))
	}
}

func TestWhatTheSandboxPrintsIsJudgedOutsideOfIt(t *testing.T) {
	var printed atomic.Value
	s := scenario("work.print", func(context.Context, *probe.Env) []verdict.Step {
		return []verdict.Step{{Name: "print", Expect: verdict.MustWork, OK: true, Detail: printed.Load().(string)}} //nolint:forcetypeassert // it is ours
	})
	s.Kind = suite.Function
	s.Judge = func(nonce string, steps []verdict.Step) []verdict.Step {
		assert.Regexp(t, "^[0-9a-f]{32}$", nonce)
		for i := range steps {
			if steps[i].OK = steps[i].Detail == "right"; !steps[i].OK {
				steps[i].Class = verdict.Absent
			}
		}
		return steps
	}
	printed.Store("right")
	o := only(t, setup(t, s).run(t))
	assert.Equal(t, verdict.Held, o.Result.Verdict(), said(o))

	printed.Store("wrong")
	o = only(t, setup(t, s).run(t))
	assert.Equal(t, verdict.Breached, o.Result.Verdict(), "the sandbox says OK, and is not asked: "+said(o))
	assert.False(t, o.Rounds[0].Evidence.Attempts[0].Steps[0].OK)

	s.Control.Act = denied
	printed.Store("right")
	o = only(t, setup(t, s).run(t))
	assert.Equal(t, verdict.ControlFailed, o.Result.Reason(), "the judge only speaks of the attack: "+said(o))
}

// resting is a run with an enforcement scenario that is not selected, a scenario that
// rests on the network, and one that does not.
func resting(t *testing.T, enforced, connect probe.Action) *fakes {
	t.Helper()
	log := &rangeLog{}
	enforcement := scenario("policy.enforced", enforced)
	net := scenario("net.connect", connect)
	net.Control.Act = reaching(log, true)
	net.Witnesses = []suite.Witness{{Name: suite.RangeLog}}
	f := setup(t, net, enforcement, scenario("disk.write", denied))
	f.o.Range = log
	f.o.Enforcement = f.o.Scenarios[slices.IndexFunc(f.o.Scenarios, func(s *suite.Scenario) bool { return s.ID == enforcement.ID })]
	f.o.Scenarios = slices.DeleteFunc(f.o.Scenarios, func(s *suite.Scenario) bool { return s == f.o.Enforcement })
	return f
}

func TestNoNetworkVerdictIsHeldWithoutAnEnforcer(t *testing.T) {
	unknown := func(context.Context, *probe.Env) []verdict.Step {
		return []verdict.Step{{Name: "try", Class: verdict.ToolMissing}}
	}
	for name, c := range map[string]struct {
		enforced, connect probe.Action
		want              verdict.Verdict
	}{
		"enforced":                             {denied, denied, verdict.Held},
		"not enforced":                         {worked, denied, verdict.Inconclusive},
		"nobody knows":                         {unknown, denied, verdict.Inconclusive},
		"not enforced, and a breach stays one": {worked, worked, verdict.Breached},
	} {
		t.Run(name, func(t *testing.T) {
			f := resting(t, c.enforced, c.connect)
			got := map[string]Outcome{}
			for _, o := range f.run(t).Outcomes {
				got[o.Scenario.ID] = o
			}
			require.Len(t, got, 3, "it is in the report, although nobody selected it")
			assert.True(t, got["policy.enforced"].Added)
			assert.False(t, got["net.connect"].Added || got["disk.write"].Added)
			assert.Equal(t, c.want, got["net.connect"].Result.Verdict(), said(got["net.connect"]))
			assert.Equal(t, verdict.Held, got["disk.write"].Result.Verdict(), "it has nothing to do with the network")
			if c.want == verdict.Inconclusive {
				assert.Contains(t, got["net.connect"].Result.Detail(), "policy.enforced")
				assert.Len(t, got["net.connect"].Rounds, 1, "trying again would not help")
			}
		})
	}
}

func TestAnEnforcerThatIsSeenAtTheSecondTryLeavesNoDoubt(t *testing.T) {
	var n atomic.Int32
	late := func(ctx context.Context, e *probe.Env) []verdict.Step {
		if n.Add(1) == 1 {
			return []verdict.Step{{Name: "try", Class: verdict.ToolMissing}}
		}
		return denied(ctx, e)
	}
	f := resting(t, late, denied)
	for _, o := range f.run(t).Outcomes {
		assert.Equal(t, verdict.Held, o.Result.Verdict(), "%s: %s", o.Scenario.ID, said(o))
		assert.Len(t, o.Rounds, map[bool]int{true: 2, false: 1}[o.Scenario.ID == "policy.enforced"], o.Scenario.ID)
	}
}

func TestASandboxComesBackWhileTheOutsideIsAsked(t *testing.T) {
	kind := func(id string, kills, within bool) *trial {
		s := &suite.Scenario{ID: id, MayKill: kills}
		if within {
			s.Attack = denied
		}
		return &trial{s: s}
	}
	alone := []*trial{kind("claim", false, false), kind("fill", false, true)}
	fatal := []*trial{kind("memory", true, true), kind("bomb", true, true)}
	names := func(all []*trial) (out []string) {
		for _, c := range all {
			out = append(out, c.s.ID)
		}
		return out
	}
	assert.Equal(t, []string{"fill", "memory", "claim", "bomb"}, names(oneByOne(alone, fatal)))
	assert.Equal(t, []string{"fill", "claim"}, names(oneByOne(alone, nil)))
	assert.Equal(t, []string{"memory", "bomb"}, names(oneByOne(nil, fatal)))
}

func TestEnforcementIsLeftOutWhereNothingRestsOnTheNetwork(t *testing.T) {
	f := resting(t, worked, denied)
	f.o.Scenarios = slices.DeleteFunc(f.o.Scenarios, func(s *suite.Scenario) bool { return s.ID == "net.connect" })
	o := only(t, f.run(t))
	assert.Equal(t, "disk.write", o.Scenario.ID)
}

// What was asked for does not apply: that policies are enforced is no answer to it.
func TestEnforcementAloneMakesNoRunConformant(t *testing.T) {
	f := resting(t, denied, denied)
	f.o.Scenarios = slices.DeleteFunc(f.o.Scenarios, func(s *suite.Scenario) bool { return s.ID != "net.connect" })
	f.o.Scenarios[0].Needs = []suite.Feature{suite.IPv6}
	run := f.run(t)
	o := only(t, run)
	assert.Equal(t, "net.connect", o.Scenario.ID)
	assert.Equal(t, verdict.NotApplicable, o.Result.Verdict(), said(o))
	assert.Equal(t, verdict.ExitInconclusive, verdict.ExitCode(verdict.Aggregate(o.Result.Verdict())))

	f.o.Scenarios = append(f.o.Scenarios, f.o.Enforcement) // now somebody asks for it
	run = f.run(t)
	require.Len(t, run.Outcomes, 2)
	assert.Equal(t, verdict.ExitConformant, verdict.ExitCode(verdict.Aggregate(run.Outcomes[0].Result.Verdict(), run.Outcomes[1].Result.Verdict())))
}

func TestAMissingFeatureDoesNotEndTheAttack(t *testing.T) {
	var n atomic.Int32
	s := scenario("net.connect", func(ctx context.Context, e *probe.Env) []verdict.Step {
		if n.Add(1) == 1 {
			return []verdict.Step{{Name: "try", Class: verdict.ToolMissing}}
		}
		return denied(ctx, e)
	})
	s.Needs = []suite.Feature{suite.GVisor}
	f := setup(t, s)
	f.o.Declared = []suite.Feature{suite.GVisor}
	o := only(t, f.run(t))
	assert.Equal(t, verdict.Breached, o.Result.Verdict(), said(o))
	assert.Len(t, o.Rounds, 2, "the first round said nothing")
	assert.Equal(t, verdict.Held, o.Attacked().Verdict(), "the attack met a denial, and that is what it says")
}

func TestDeathCountsOnlyAfterTheBeginAndByAFactFromOutside(t *testing.T) {
	dies := faketarget.Lie // a program that ends without a completion frame
	begun := func(plan probe.Plan, out writer) {
		o := plan.Orders[0]
		_ = probe.NewEncoder(out).Encode(probe.Frame{Kind: probe.Begin, Scenario: o.Scenario, Nonce: o.Nonce})
	}
	for name, c := range map[string]struct {
		program faketarget.Program
		exit    int
		want    verdict.Verdict
	}{
		"the container ended after the begin": {dies(func(p probe.Plan, out writer) (int, error) {
			begun(p, out)
			return 0, errors.New("lost")
		}), 137, verdict.Held},
		"the process ended as if it was killed": {dies(func(p probe.Plan, out writer) (int, error) { begun(p, out); return 137, nil }), -1, verdict.Inconclusive},
		"the container ended by itself": {dies(func(p probe.Plan, out writer) (int, error) {
			begun(p, out)
			return 0, errors.New("lost")
		}), 0, verdict.Inconclusive},
		"the container ended before the begin": {dies(func(probe.Plan, writer) (int, error) { return 0, errors.New("lost") }), 137, verdict.Inconclusive},
		"nothing outside tells of an end":      {dies(func(p probe.Plan, out writer) (int, error) { begun(p, out); return 0, nil }), -1, verdict.Inconclusive},
	} {
		t.Run(name, func(t *testing.T) {
			s := scenario("resources.eat-memory", denied)
			s.MayKill = true
			f := setup(t, s)
			f.carrier.Set("box", c.program)
			f.ground.facts = suite.PodFacts{ExitCode: c.exit, ExitReason: "OOMKilled"}
			o := only(t, f.run(t))
			assert.Equal(t, c.want, o.Result.Verdict(), said(o))
			if c.want == verdict.Held {
				assert.NotEmpty(t, o.Rounds[0].Evidence.Attempts[0].Ended)
			}
		})
	}
}

func TestASandboxCannotCallItsOwnBreachDisclosed(t *testing.T) {
	disclosed := func(context.Context, *probe.Env) []verdict.Step {
		return []verdict.Step{{Name: "try", OK: true, Expect: verdict.Disclosed}}
	}
	s := scenario("net.connect", disclosed)
	o := only(t, setup(t, s).run(t))
	assert.Equal(t, verdict.Breached, o.Result.Verdict(), said(o))
	s.Kind = suite.Limit
	o = only(t, setup(t, s).run(t))
	assert.Equal(t, verdict.Held, o.Result.Verdict(), said(o))
}

func TestASandboxCannotPutWorkInTheAttacksPlace(t *testing.T) {
	works := func(_ context.Context, env *probe.Env) []verdict.Step {
		return []verdict.Step{{Name: "try", OK: true, Expect: verdict.MustWork}}
	}
	s := scenario("net.connect", works)
	o := only(t, setup(t, s).run(t))
	assert.Equal(t, verdict.Breached, o.Result.Verdict(), "a success is one, whatever it is called: %s", said(o))

	s.Kind, s.Attack = suite.Function, denied
	o = only(t, setup(t, s).run(t))
	assert.Equal(t, verdict.NoSteps, o.Result.Reason(), "a function is not shown by a denial: %s", said(o))
	s.Attack = works
	o = only(t, setup(t, s).run(t))
	assert.Equal(t, verdict.Held, o.Result.Verdict(), said(o))
}

func TestTheRunnersOwnStepsMayHaveToWork(t *testing.T) {
	s := scenario("session.find-canary", nil)
	s.Control = suite.ControlSpec{}
	found := true
	s.Ask = func(context.Context, *suite.APIEnv) []verdict.Step {
		return []verdict.Step{
			{Name: "find what the session left itself", OK: found, Class: verdict.Unknown, Expect: verdict.MustWork},
			{Name: "find it from another session", Class: verdict.Absent},
		}
	}
	s.AskControl = func(context.Context, *suite.APIEnv) []verdict.Step { return []verdict.Step{{Name: "open", OK: true}} }
	s.Accept = []verdict.Class{verdict.Absent}
	o := only(t, setup(t, s).run(t))
	assert.Equal(t, verdict.Held, o.Result.Verdict(), said(o))
	found = false
	o = only(t, setup(t, s).run(t))
	assert.Equal(t, verdict.Inconclusive, o.Result.Verdict(), "a search that finds nothing anywhere has shown nothing: %s", said(o))
}

func TestAPIScenariosAreAskedByTheRunner(t *testing.T) {
	s := scenario("admission.privileged", nil)
	s.Control = suite.ControlSpec{}
	s.Accept = []verdict.Class{verdict.AdmissionDenied}
	s.Ask = func(context.Context, *suite.APIEnv) []verdict.Step {
		return []verdict.Step{{Name: "create", Class: verdict.AdmissionDenied}}
	}
	s.AskControl = func(context.Context, *suite.APIEnv) []verdict.Step { return []verdict.Step{{Name: "create", OK: true}} }
	o := only(t, setup(t, s).run(t))
	assert.Equal(t, verdict.Held, o.Result.Verdict(), said(o))

	s.Ask = func(context.Context, *suite.APIEnv) []verdict.Step { panic("no answer") }
	o = only(t, setup(t, s).run(t))
	assert.Equal(t, verdict.NoFrame, o.Result.Reason(), said(o))
}

func TestCgroupNumbersComeFromAroundTheAttempt(t *testing.T) {
	s := scenario("resources.burn-cpu", denied)
	s.Exclusive = true
	s.Witnesses = []suite.Witness{{Name: suite.Cgroup, Read: func(r suite.Reading) verdict.Statement {
		return verdict.Statement{Live: true, Agrees: r.After["cpuacct.usage"] > r.Before["cpuacct.usage"]}
	}}}
	o := only(t, setup(t, s).run(t))
	assert.Equal(t, verdict.Held, o.Result.Verdict(), said(o))
}

func TestListenersListenWhileTheyAreNeeded(t *testing.T) {
	s := scenario("ingress.connect", denied)
	s.Listener = true
	f := setup(t, s)
	o := only(t, f.run(t))
	assert.Equal(t, verdict.Held, o.Result.Verdict(), said(o))
	for _, pod := range []string{"box", "sibling", "control"} {
		assert.Contains(t, f.carrier.Calls, pod+" listen")
	}
}

func TestAListenerThatFailsConcernsOnlyThoseWhoNeedOne(t *testing.T) {
	s := scenario("ingress.connect", denied)
	s.Listener = true
	f := setup(t, s, scenario("net.connect", denied))
	f.carrier.Set("sibling", faketarget.Lies()["says nothing at all"])
	run := f.run(t)
	assert.Equal(t, verdict.SetupFailed, run.Outcomes[0].Result.Reason(), said(run.Outcomes[0]))
	assert.Equal(t, verdict.Held, run.Outcomes[1].Result.Verdict(), said(run.Outcomes[1]))
}

func TestAControlThatFailsIsNoProof(t *testing.T) {
	s := scenario("net.connect", denied)
	s.Control.Act = denied
	o := only(t, setup(t, s).run(t))
	assert.Equal(t, verdict.ControlFailed, o.Result.Reason(), said(o))
}

func TestARunRefusesWhatItMayNotTouch(t *testing.T) {
	f := setup(t, scenario("net.connect", denied))
	f.o.Cluster = "uid-2"
	run, err := Execute(t.Context(), f.o)
	require.ErrorIs(t, err, ErrOtherCluster)
	assert.Nil(t, run)

	f = setup(t, scenario("net.connect", denied))
	f.o.Seal = func(context.Context) error { return errors.New("there is a route out") }
	run, err = Execute(t.Context(), f.o)
	require.ErrorContains(t, err, "there is a route out")
	assert.Nil(t, run)
	assert.Empty(t, f.carrier.Calls, "nothing was sent")

	f.o.Seal = nil
	_, err = Execute(t.Context(), f.o)
	assert.ErrorContains(t, err, "seal")
}

func TestATargetThatCannotBeMadeReadyIsInconclusive(t *testing.T) {
	f := setup(t, scenario("net.connect", denied))
	f.ground.openErr = errors.New("no node fits")
	run, err := Execute(t.Context(), f.o)
	require.ErrorIs(t, err, ErrSetup)
	o := only(t, run)
	assert.Equal(t, verdict.SetupFailed, o.Result.Reason())
	assert.Empty(t, f.ground.objects, "what was begun is removed")
	assert.NotEmpty(t, run.Incomplete)

	f = setup(t, scenario("net.connect", denied))
	f.ground.renewErr = errors.New("it does not come back")
	o = only(t, f.run(t))
	assert.Equal(t, verdict.TargetGone, o.Result.Reason(), said(o))
}

func TestAnInterruptedRunSaysSoAndCleansUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := scenario("a.hangs", nil)
	s.Timeout = 20 * time.Second
	s.Attack = func(ctx context.Context, _ *probe.Env) []verdict.Step {
		cancel()
		<-ctx.Done()
		return nil
	}
	never := scenario("b.never", denied)
	never.Exclusive = true
	f := setup(t, s, never)
	run, err := Execute(ctx, f.o)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, run.Outcomes, 2)
	assert.Equal(t, verdict.Interrupted, run.Outcomes[0].Result.Reason(), said(run.Outcomes[0]))
	assert.Equal(t, verdict.NotRun, run.Outcomes[1].Result.Verdict())
	assert.NotEmpty(t, run.Incomplete)
	assert.Empty(t, f.ground.objects)
	assert.Empty(t, run.Residue)
}

func TestWhatCannotBeRemovedIsResidue(t *testing.T) {
	f := setup(t, scenario("net.connect", denied))
	old := Ref{APIVersion: "v1", Kind: "SandboxClaim", Namespace: "ns", Name: "old"}
	f.ground.objects[old] = "0123456789abcdef"
	f.ground.stuck = map[Ref]bool{old: true}
	run := f.run(t)
	require.Len(t, run.Residue, 1)
	assert.Contains(t, run.Residue[0], "finalizer")
}

var _ target.Carrier = (*faketarget.Carrier)(nil)

// Two sandboxes of gVisor take longer than all that most questions take.
func TestARunClaimsTheSandboxesThatItHasAUseForAndNoMore(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*suite.Scenario)
		want   []suite.Role
		live   string
	}{
		"the API server is asked":           {func(*suite.Scenario) {}, nil, ""},
		"about a sandbox that runs":         {func(s *suite.Scenario) { s.Live = true }, []suite.Role{suite.Sandbox}, "box"},
		"a sandbox tells of a feature":      {func(s *suite.Scenario) { s.Needs = []suite.Feature{suite.IPv6} }, []suite.Role{suite.Sandbox}, ""},
		"the cluster tells of a feature":    {func(s *suite.Scenario) { s.Needs = []suite.Feature{suite.Admission} }, nil, ""},
		"a witness looks at the sandboxes":  {func(s *suite.Scenario) { s.Witnesses = []suite.Witness{{Name: suite.Flows}} }, []suite.Role{suite.Sandbox, suite.Sibling}, ""},
		"somebody listens in the sandboxes": {func(s *suite.Scenario) { s.Listener = true }, []suite.Role{suite.Sandbox, suite.Sibling}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := scenario("api.ask", nil)
			var live []string
			ask := func(ok bool) suite.APIAction {
				return func(_ context.Context, env *suite.APIEnv) []verdict.Step {
					live = append(live, env.Live)
					return []verdict.Step{{Name: "ask", OK: ok, Class: verdict.Dropped}}
				}
			}
			s.Attack, s.Control, s.Ask, s.AskControl = nil, suite.ControlSpec{}, ask(false), ask(true)
			c.change(&s)
			f := setup(t, s)
			f.ground.features = map[suite.Feature]bool{suite.IPv6: true, suite.Admission: true}
			f.o.Declared = s.Needs
			f.run(t)
			assert.Equal(t, c.want, f.ground.claimed)
			require.NotEmpty(t, live)
			assert.Equal(t, c.live, live[0], "no name of a sandbox for who does not say that one is needed")
		})
	}
}

func TestWithoutASealQuestionsAloneAreAsked(t *testing.T) {
	question := scenario("api.ask", nil)
	step := func(ok bool) suite.APIAction {
		return func(context.Context, *suite.APIEnv) []verdict.Step {
			return []verdict.Step{{Name: "ask", OK: ok, Class: verdict.Dropped}}
		}
	}
	question.Attack, question.Control, question.Ask, question.AskControl = nil, suite.ControlSpec{}, step(false), step(true)
	f := setup(t, question)
	f.o.Seal, f.o.Range = nil, nil
	assert.Equal(t, verdict.Held, only(t, f.run(t)).Result.Verdict())

	question.Ask = step(true)
	f = setup(t, question)
	f.o.Seal, f.o.Range = nil, nil
	assert.Equal(t, verdict.Breached, only(t, f.run(t)).Result.Verdict())

	f = setup(t, question, scenario("net.connect", denied))
	f.o.Seal = nil
	_, err := Execute(t.Context(), f.o)
	require.ErrorContains(t, err, "net.connect is more than a question")
	assert.Empty(t, f.carrier.Calls, "nothing was sent")
}

func TestWhoDoesNotSaySoStoresNothing(t *testing.T) {
	for _, stores := range []bool{false, true} {
		s := scenario("api.ask", nil)
		client := &recorder{}
		ask := func(ok bool) suite.APIAction {
			return func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
				_, err := env.API.Create(ctx, suite.Object{}, false)
				assert.Equal(t, stores, err == nil)
				_, err = env.API.Create(ctx, suite.Object{}, true)
				require.NoError(t, err)
				return []verdict.Step{{Name: "ask", OK: ok, Class: verdict.Dropped}}
			}
		}
		s.Attack, s.Control, s.Ask, s.AskControl, s.Stores = nil, suite.ControlSpec{}, ask(false), ask(true), stores
		f := setup(t, s)
		f.ground.furnish = func(field *Field) { field.API = client }
		f.run(t)
		assert.Equal(t, map[bool]int{false: 0, true: 2}[stores], client.stored)
	}
}

// recorder counts what is stored.
type recorder struct {
	suite.Client
	stored int
}

func (r *recorder) Create(_ context.Context, _ suite.Object, dryRun bool) (suite.Answer, error) {
	if !dryRun {
		r.stored++
	}
	return suite.Answer{Code: http.StatusCreated}, nil
}

func TestWhoDoesNotSaySoIsGivenNoWayToTheTargetsServer(t *testing.T) {
	for _, server := range []bool{false, true} {
		s := scenario("api.ask", nil)
		var got []bool
		ask := func(ok bool) suite.APIAction {
			return func(_ context.Context, env *suite.APIEnv) []verdict.Step {
				got = append(got, env.Execute != nil, env.Open != nil, env.Send != nil)
				return []verdict.Step{{Name: "ask", OK: ok, Class: verdict.Dropped}}
			}
		}
		s.Attack, s.Control, s.Ask, s.AskControl, s.Server = nil, suite.ControlSpec{}, ask(false), ask(true), server
		f := setup(t, s)
		f.ground.furnish = func(field *Field) {
			field.Execute = func(context.Context, suite.Program) (suite.Execution, error) { return suite.Execution{}, nil }
			field.Open = func(context.Context, string) (suite.Session, error) { return nil, nil } //nolint:nilnil // it is not called
			field.Send = func(context.Context, string, string, suite.Message) (suite.Reply, error) { return suite.Reply{}, nil }
		}
		f.run(t)
		assert.Equal(t, []bool{server, server, server, server, server, server}, got)
	}
}
