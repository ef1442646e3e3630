// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/conformance/witness"
)

// look asks the witnesses, after all attempts have ended.
func (sc *scene) look(ctx context.Context) {
	// What an attack sent last may still be on its way to the outside.
	if sc.needs(suite.RangeLog) || sc.needs(suite.Flows) {
		stragglers, cancel := context.WithTimeout(ctx, sc.r.o.Timeouts.Stragglers)
		<-stragglers.Done()
		cancel()
	}
	if sc.needs(suite.RangeLog) && sc.markErr == nil {
		actx, cancel := context.WithTimeout(ctx, sc.r.o.Timeouts.Arrive)
		sc.arrivals = witness.ReadArrivals(actx, sc.r.o.Range, sc.mark, sc.awaited())
		cancel()
	}
	if sc.markErr != nil {
		sc.arrivals = witness.Arrivals{Err: sc.markErr}
	}
	sc.lookAtPod(ctx)
	if sc.needs(suite.Flows) {
		sc.lookAtFlows(ctx)
	}
}

// awaited are the nonces of the controls that go to the range.
func (sc *scene) awaited() []string {
	var out []string
	for _, o := range sc.orders {
		if o.Part == probe.Control && o.result.Complete && requires(sc.trials[o.trial].s, suite.RangeLog) {
			out = append(out, o.Nonce)
		}
	}
	return out
}

// lookAtPod asks the API server for the sandbox. A container's end shows there
// a while after it happened; only where one may be expected is it awaited.
func (sc *scene) lookAtPod(ctx context.Context) {
	if sc.baseErr != nil {
		sc.factsErr = sc.baseErr
		return
	}
	wait := slices.ContainsFunc(sc.orders, func(o *order) bool {
		return o.Part == probe.Attack && sc.trials[o.trial].s.MayKill && !o.result.Complete
	})
	limit := time.Second
	if wait {
		limit = sc.r.o.Timeouts.End
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	pod := sc.field.Pods[suite.Sandbox]
	_ = until(ctx, 150*time.Millisecond, func() bool { // the last answer counts
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		sc.facts, sc.factsErr = sc.r.o.Ground.Facts(rctx, pod, sc.base)
		return sc.factsErr == nil && (!wait || sc.facts.ExitCode >= 0 || sc.facts.EvictedFor != "")
	})
}

// lookAtFlows reads Hubble's export until every scenario that asks for flows
// has them, or the time for it is over: the export is written behind. The last
// reading counts, but for a packet that was seen to get through: no later reading,
// and none that fails, makes that one undone.
func (sc *scene) lookAtFlows(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sc.r.o.Timeouts.Arrive)
	defer cancel()
	sc.flowBreaches = map[int]verdict.Statement{}
	_ = until(ctx, 300*time.Millisecond, func() bool {
		sc.flows, sc.flowErr = sc.readFlows(ctx)
		done := true
		for i, t := range sc.trials {
			w, ok := flowWitness(t.s)
			if !ok {
				continue
			}
			s := sc.judgeFlows(i, w)
			if s.Breach {
				sc.flowBreaches[i] = s
			}
			done = done && (s.Breach || s.Live && s.Agrees)
		}
		return done
	})
}

// readFlows reads the flows of every node that a scenario is judged by. With an
// error they are those of the nodes that were read before it.
func (sc *scene) readFlows(ctx context.Context) (map[string][]witness.Flow, error) {
	flows := map[string][]witness.Flow{}
	for _, t := range sc.trials {
		w, ok := flowWitness(t.s)
		if !ok {
			continue
		}
		for _, node := range sc.flowNodes(t.s, w) {
			if _, has := flows[node]; has {
				continue
			}
			rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			read, err := sc.r.o.Ground.Flows(rctx, node)
			cancel()
			if err != nil {
				return flows, err
			}
			flows[node] = read
		}
	}
	return flows, nil
}

func flowWitness(s *suite.Scenario) (suite.Witness, bool) {
	i := slices.IndexFunc(s.Witnesses, func(w suite.Witness) bool { return w.Name == suite.Flows })
	if i < 0 {
		return suite.Witness{}, false
	}
	return s.Witnesses[i], true
}

func flowFrom(s *suite.Scenario, w suite.Witness) suite.Role {
	if w.Flow != nil && w.Flow.From != "" {
		return w.Flow.From
	}
	return s.From
}

// flowNodes are the nodes whose flows a scenario is judged by: the attacker's,
// and those of the servers that it knocks at.
func (sc *scene) flowNodes(s *suite.Scenario, w suite.Witness) []string {
	var out []string
	if node := sc.field.Pods[flowFrom(s, w)].Node; node != "" {
		out = append(out, node)
	}
	if w.Flow != nil && w.Flow.Servers {
		out = append(out, sc.field.Servers...)
	}
	return out
}

// judgeFlows judges a trial by the flows that were read. What could not be read
// leaves nothing to be concluded from the rest but a breach.
func (sc *scene) judgeFlows(i int, w suite.Witness) verdict.Statement {
	if s, seen := sc.flowBreaches[i]; seen {
		return s
	}
	s := sc.weighFlows(i, w)
	if sc.flowErr != nil && !s.Breach {
		return verdict.Statement{Witness: suite.Flows, Detail: sc.flowErr.Error()}
	}
	return s
}

func (sc *scene) weighFlows(i int, w suite.Witness) verdict.Statement {
	s := sc.trials[i].s
	if w.Flow == nil || w.Flow.To == nil {
		return verdict.Statement{Witness: suite.Flows, Detail: "the scenario does not say which flow to look for"}
	}
	var to [][]string
	for _, t := range w.Flow.To(sc.field.Site) {
		to = append(to, sc.spellings(t))
	}
	from := sc.field.Pods[flowFrom(s, w)]
	// Whichever Pod made the control shows that the flows are live; in a round
	// of its own a scenario may not have touched the control Pod at all.
	var live []string
	for _, role := range []suite.Role{suite.Control, s.Control.At} {
		if p, ok := sc.field.Pods[role]; ok && role != flowFrom(s, w) {
			live = append(live, addresses(p)...)
		}
	}
	var flows []witness.Flow
	for _, node := range slices.Compact(slices.Sorted(slices.Values(sc.flowNodes(s, w)))) {
		flows = append(flows, sc.flows[node]...)
	}
	guarded := sc.guarded()
	if w.Flow.Servers {
		guarded = append(guarded, hosts(to)...)
	}
	return witness.JudgeFlows(flows, witness.FlowQuery{
		From: addresses(from), Control: live, To: to, Guarded: guarded, Inbound: w.Flow.Servers,
		// Clocks of node and runner may differ a little.
		Begin: sc.begun.Add(-2 * time.Second), Until: sc.r.now().Add(2 * time.Second),
	})
}

// spellings are a destination as the attack addresses it, and the addresses
// behind it if it is a Service, with the same protocol.
func (sc *scene) spellings(to string) []string {
	addr, proto, named := strings.Cut(to, "/")
	out := []string{to}
	for _, a := range sc.field.Aliases[addr] {
		if named {
			a += "/" + proto
		}
		out = append(out, a)
	}
	return out
}

// guarded are the addresses of the Pods that the template's policy selects. That
// policy looks at what comes in there, so a packet that another Pod's policy let
// out has not got through yet.
func (sc *scene) guarded() []string {
	var out []string
	for _, role := range []suite.Role{suite.Sandbox, suite.Sibling} {
		if p, ok := sc.field.Pods[role]; ok {
			out = append(out, addresses(p)...)
		}
	}
	return out
}

// addresses returns all addresses of a Pod.
func addresses(p target.Pod) []string {
	if len(p.IPs) > 0 {
		return p.IPs
	}
	return []string{p.IP}
}

// evidence puts together all that is known of one trial.
func (sc *scene) evidence(i int) verdict.Evidence {
	s := sc.trials[i].s
	e := verdict.Evidence{MinAttempts: max(s.Attempts, 1), Accept: s.Accept, Core: core(s.Kind),
		Attempts: sc.asked[i], Controls: sc.askedControls[i]}
	for _, o := range sc.orders {
		if o.trial != i {
			continue
		}
		a := o.result
		if o.Part == probe.Control {
			e.Controls = append(e.Controls, a)
			continue
		}
		if s.MayKill {
			a = sc.ended(a, o)
		}
		e.Attempts = append(e.Attempts, a)
	}
	// Steps of an API scenario are the runner's own: the sandbox has no say in
	// what is expected of them.
	for j := range e.Attempts {
		if s.Ask == nil {
			e.Attempts[j] = strict(e.Attempts[j], s.Kind)
		}
	}
	for _, w := range s.Witnesses {
		e.Require = append(e.Require, w.Name)
		e.Statements = append(e.Statements, sc.statement(i, w, e))
	}
	return e
}

// core is the step that every attempt must have made, by the kind of claim: a
// guarantee holds by what was denied, a limit by what was shown, a function by
// what worked.
func core(kind suite.Kind) verdict.Expect {
	switch kind {
	case suite.Limit:
		return verdict.Disclosed
	case suite.Function:
		return verdict.MustWork
	case suite.Guarantee:
	}
	return verdict.MustFail
}

// strict leaves to the declaration, and not to the sandbox, what is expected of a
// step. Only a claim of kind limit discloses an exposure, and only one of kind
// function has work that must be done; in any other scenario such a step is an
// attack like all others, and its success is a breach.
func strict(a verdict.Attempt, kind suite.Kind) verdict.Attempt {
	a.Steps = slices.Clone(a.Steps)
	for i, s := range a.Steps {
		if s.Expect != core(kind) {
			a.Steps[i].Expect = verdict.MustFail
		}
	}
	return a
}

// ended completes an attempt whose end was its own death, by a fact from
// outside: the API server's word on the container. The begin frame with the
// nonce must have come: a sandbox that died before the attack says nothing of
// it. What the exec'd process says of its own end is no such fact, since every
// program may end with 137, and a container that ended with 0 was not killed.
//
// A sandbox may still end its own container. So a death alone shows nothing:
// the scenario's witnesses tell what it died of.
func (sc *scene) ended(a verdict.Attempt, o *order) verdict.Attempt {
	if a.Complete || a.Start.IsZero() || sc.factsErr != nil {
		return a
	}
	var fact string
	switch {
	case sc.facts.EvictedFor != "":
		fact = "the Pod was evicted: " + sc.facts.EvictedFor
	case sc.facts.ExitCode > 0:
		fact = fmt.Sprintf("the container ended with code %d (%s)", sc.facts.ExitCode, sc.facts.ExitReason)
	default:
		return a
	}
	a.Complete, a.Ended, a.Error, a.End = true, fact, "", o.ended
	a.Steps = append(slices.Clone(a.Steps), verdict.Step{Name: "outlive the attack", Class: verdict.Killed, Detail: fact})
	return a
}

func (sc *scene) statement(i int, w suite.Witness, e verdict.Evidence) verdict.Statement {
	s := sc.trials[i].s
	switch w.Name {
	case suite.RangeLog:
		return sc.arrivals.Judge(nonces(e.Controls), nonces(e.Attempts), s.Kind != suite.Guarantee)
	case suite.Flows:
		return sc.judgeFlows(i, w)
	case suite.Cgroup, suite.APIServer:
		st := verdict.Statement{Witness: w.Name}
		reading, err := sc.reading(w.Name, e)
		if err == nil && w.Read == nil {
			err = fmt.Errorf("the scenario does not say how to read it")
		}
		if err != nil {
			st.Detail = err.Error()
			return st
		}
		st = w.Read(reading)
		st.Witness = w.Name
		return st
	}
	return verdict.Statement{Witness: w.Name, Detail: "there is no such witness"}
}

func nonces(all []verdict.Attempt) []string {
	out := make([]string, 0, len(all))
	for _, a := range all {
		out = append(out, a.Nonce)
	}
	return out
}

// reading is what the witnesses with numbers are given of one trial.
func (sc *scene) reading(name string, e verdict.Evidence) (suite.Reading, error) {
	rd := suite.Reading{Site: sc.field.Site, Pod: sc.facts}
	if sc.factsErr != nil {
		return rd, fmt.Errorf("asking for the Pod: %w", sc.factsErr)
	}
	if name != suite.Cgroup {
		return rd, nil
	}
	if sc.watchErr != nil {
		return rd, fmt.Errorf("reading the Pod's cgroups: %w", sc.watchErr)
	}
	begin, end := span(e.Attempts)
	var ok bool
	if rd.Before, rd.After, rd.Elapsed, ok = sc.numbers.Around(begin, end); begin.IsZero() || !ok {
		return rd, fmt.Errorf("reading the Pod's cgroups: no samples on both sides of the attempt (%d in all, %q, reader: %v)",
			sc.numbers.Len(), sc.numbers.Problem(), sc.watchEnd) //nolint:errorlint // it is nil where the reader ended well
	}
	return rd, nil
}
