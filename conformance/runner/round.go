// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/conformance/witness"
	"github.com/stockade-dev/stockade/workloads/range/rangeclient"
)

// defaultTimeout bounds an attempt whose scenario says nothing.
const defaultTimeout = 10 * time.Second

// hostCgroup is where a control Pod has the node's /sys/fs/cgroup, and
// cgroupEvery how often the numbers are read.
const (
	hostCgroup  = "/host/cgroup"
	cgroupEvery = "100ms"
)

// order is one attempt to be made, and whose it is.
type order struct {
	probe.Order
	trial  int // index in the round
	role   suite.Role
	result verdict.Attempt
	end    target.Ending
	ended  time.Time // when the exec had ended
}

// scene is everything of one round.
type scene struct {
	r      *execution
	trials []*trial
	alone  bool
	field  *Field
	begun  time.Time
	orders []*order
	// asked are the attempts of API scenarios, by trial.
	asked, askedControls [][]verdict.Attempt

	listenErr error

	mark     rangeclient.Mark
	markErr  error
	arrivals witness.Arrivals
	numbers  *witness.Numbers
	watchErr error
	watchEnd error                     // how the reader of the numbers ended
	flows    map[string][]witness.Flow // by node
	flowErr  error
	// flowBreaches are what was seen to get through, by trial, in any reading.
	flowBreaches map[int]verdict.Statement

	base     witness.Baseline
	baseErr  error
	facts    suite.PodFacts
	factsErr error
}

// round makes every attempt of the trials once, with its controls and witnesses
// in the same window, and decides. It returns one Round for each trial, in
// order.
func (r *execution) round(ctx context.Context, trials []*trial, alone bool) []Round {
	sc := &scene{r: r, trials: trials, alone: alone}
	out := make([]Round, len(trials))
	if err := sc.play(ctx); err != nil {
		reason := verdict.TargetGone
		if ctx.Err() != nil {
			reason = verdict.Interrupted
		}
		for i := range out {
			out[i].Result = verdict.Unsure(reason, "%v", err)
		}
		return out
	}
	for i := range trials {
		e := sc.evidence(i)
		out[i] = Round{Evidence: e, Result: verdict.Decide(e)}
		// A breach stays one; nothing else may be concluded from half a round.
		switch {
		case out[i].Result.Verdict() == verdict.Breached:
		case ctx.Err() != nil:
			out[i].Result = verdict.Unsure(verdict.Interrupted, "%v", context.Cause(ctx))
		case trials[i].s.Listener && sc.listenErr != nil:
			out[i].Result = verdict.Unsure(verdict.SetupFailed, "%v", sc.listenErr)
		}
	}
	return out
}

func (sc *scene) play(ctx context.Context) error {
	if !sc.alone || slices.ContainsFunc(sc.trials, func(t *trial) bool { return len(t.s.Sandboxes()) > 0 }) {
		field, err := sc.r.o.Ground.Renew(ctx, sc.r.field)
		if err != nil {
			return fmt.Errorf("waiting for the target: %w", err)
		}
		sc.r.field = field
	}
	sc.field = sc.r.field
	sc.begun = sc.r.now()
	if sc.needs(suite.RangeLog) {
		if sc.r.o.Range == nil {
			sc.markErr = errors.New("no range was given")
		} else {
			sc.mark, sc.markErr = sc.r.o.Range.Mark(ctx)
		}
	}
	if box, claimed := sc.field.Pods[suite.Sandbox]; claimed {
		sc.base, sc.baseErr = sc.r.o.Ground.Baseline(ctx, box)
	} else {
		sc.baseErr = errors.New("no sandbox was claimed, for want of an attack that uses one")
	}
	stop, err := sc.listen(ctx)
	sc.listenErr = err // of no concern to those who need no listener
	defer stop()
	unwatch := sc.watch(ctx)
	sc.plan()
	sc.execute(ctx)
	unwatch()
	sc.look(ctx)
	return nil
}

func (sc *scene) needs(name string) bool {
	return slices.ContainsFunc(sc.trials, func(t *trial) bool { return requires(t.s, name) })
}

func requires(s *suite.Scenario, name string) bool {
	return slices.ContainsFunc(s.Witnesses, func(w suite.Witness) bool { return w.Name == name })
}

// listen starts the listeners where a scenario asks for them. That they live
// is known by the frame with their nonce; that they can be reached is for the
// scenario's own control to show.
func (sc *scene) listen(ctx context.Context) (stop func(), err error) {
	var mu sync.Mutex
	var all []*target.Listener
	stop = func() {
		var g errgroup.Group
		for _, l := range all {
			g.Go(func() error { l.End(2 * time.Second); return nil })
		}
		_ = g.Wait() // always nil
	}
	if !slices.ContainsFunc(sc.trials, func(t *trial) bool { return t.s.Listener }) {
		return stop, nil
	}
	lctx, cancel := context.WithTimeout(ctx, sc.r.o.Timeouts.Listen)
	defer cancel()
	var g errgroup.Group
	for _, role := range []suite.Role{suite.Sandbox, suite.Sibling, suite.Control} {
		pod, ok := sc.field.Pods[role]
		if !ok {
			continue
		}
		nonce := newNonce()
		g.Go(func() error {
			// The wait is bounded, the listener's life is not.
			l, err := sc.r.delivery.Listen(ctx, lctx, pod, sc.field.Preloaded[role], sc.field.Site.ListenPort, nonce)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, l)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		stop()
		return func() {}, err
	}
	return stop, nil
}

// watch reads the sandbox's cgroup numbers from a control Pod on its node, and
// returns once the first arrived.
func (sc *scene) watch(ctx context.Context) (stop func()) {
	sc.numbers = &witness.Numbers{}
	if !sc.needs(suite.Cgroup) {
		return func() {}
	}
	pod, seat := sc.field.Pods[suite.Sandbox], sc.field.Pods[suite.Control]
	if seat.Node != pod.Node {
		sc.watchErr = fmt.Errorf("no control Pod on the sandbox's node %s (the one there is on %s)", pod.Node, seat.Node)
		return func() {}
	}
	c := target.Call{Pod: seat, Preloaded: sc.field.Preloaded[suite.Control], Mode: "cgroup", Args: []string{hostCgroup, pod.UID, cgroupEvery}}
	s := sc.r.delivery.Start(ctx, c, func(r io.Reader) error { return sc.numbers.Read(r, sc.r.now) })
	wctx, cancel := context.WithTimeout(ctx, sc.r.o.Timeouts.Arrive)
	defer cancel()
	sc.watchErr = until(wctx, 20*time.Millisecond, func() bool { return sc.numbers.Len() > 0 || sc.numbers.Problem() != "" || s.Ended() })
	return func() {
		// A reader that was lost on the way leaves no sample after the attempt,
		// which is what counts; this says why there is none.
		sc.watchEnd = s.End(2 * time.Second).Err
	}
}

// until polls ok; it is an error that wraps ctx's when it never was.
func until(ctx context.Context, every time.Duration, ok func() bool) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// plan draws the nonces and lists the attempts: all first attempts, then all
// second ones, so that a scenario's attempts lie apart.
func (sc *scene) plan() {
	most := 1
	for _, t := range sc.trials {
		most = max(most, t.s.Attempts)
	}
	add := func(i int, part probe.Part, role suite.Role) {
		s := sc.trials[i].s
		sc.orders = append(sc.orders, &order{trial: i, role: role, Order: probe.Order{
			Scenario: s.ID, Part: part, Nonce: newNonce(), Timeout: timeout(s), Params: s.Params,
		}})
	}
	for n := range most {
		for i, t := range sc.trials {
			if t.s.Attack == nil || n >= max(t.s.Attempts, 1) {
				continue
			}
			if n == 0 {
				add(i, probe.Control, t.s.Control.At)
			}
			add(i, probe.Attack, t.s.From)
		}
	}
}

func timeout(s *suite.Scenario) time.Duration {
	if s.Timeout > 0 {
		return s.Timeout
	}
	return defaultTimeout
}

// execute makes all attempts. In a batch everything runs at once; alone, the
// controls come first and the attack has the machine to itself.
func (sc *scene) execute(ctx context.Context) {
	sc.asked = make([][]verdict.Attempt, len(sc.trials))
	sc.askedControls = make([][]verdict.Attempt, len(sc.trials))
	if sc.alone {
		sc.exec(ctx, func(o *order) bool { return o.Part == probe.Control }, 1)
		sc.exec(ctx, func(o *order) bool { return o.Part == probe.Attack }, 1)
		sc.ask(ctx)
		return
	}
	var g errgroup.Group
	g.Go(func() error { sc.ask(ctx); return nil })
	sc.exec(ctx, func(*order) bool { return true }, maxParallel)
	_ = g.Wait() // always nil
}

// exec sends the picked orders, one exec for each role, at the same time.
func (sc *scene) exec(ctx context.Context, pick func(*order) bool, parallel int) {
	by := map[suite.Role][]*order{}
	for _, o := range sc.orders {
		if pick(o) {
			by[o.role] = append(by[o.role], o)
		}
	}
	var g errgroup.Group
	for role, orders := range by {
		g.Go(func() error {
			sc.batch(ctx, role, orders, parallel)
			return nil
		})
	}
	_ = g.Wait() // always nil
}

func (sc *scene) batch(ctx context.Context, role suite.Role, orders []*order, parallel int) {
	pod, ok := sc.field.Pods[role]
	if !ok {
		for _, o := range orders {
			o.result = verdict.Attempt{Nonce: o.Nonce, Error: fmt.Sprintf("the target has no Pod for the role %s", role)}
		}
		return
	}
	b := target.Batch{Pod: pod, Preloaded: sc.field.Preloaded[role], Plan: probe.Plan{Site: sc.field.Site, Parallel: parallel}}
	// Workers that each take the next order end within their share of the sum and
	// the longest order.
	var sum, longest time.Duration
	for _, o := range orders {
		b.Plan.Orders = append(b.Plan.Orders, o.Order)
		sum, longest = sum+o.Timeout, max(longest, o.Timeout)
	}
	limit := sum/time.Duration(parallel) + longest + sc.r.o.Timeouts.Exec
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the exec did not end within %s", limit))
	defer cancel()
	attempts, end := sc.r.delivery.Run(ctx, b)
	for i, o := range orders {
		o.result, o.end, o.ended = attempts[i], end, sc.r.now()
	}
}

// ask makes the attempts of the API scenarios. The runner itself is the
// attacker there, so that an attempt is complete when its action returned.
func (sc *scene) ask(ctx context.Context) {
	var g errgroup.Group
	g.SetLimit(4)
	for i, t := range sc.trials {
		if t.s.Ask == nil {
			continue
		}
		g.Go(func() error {
			defer sc.r.callers.take(t.s.As, sc.field.Callers)()
			sc.askedControls[i] = append(sc.askedControls[i], sc.question(ctx, t.s, t.s.AskControl))
			for range max(t.s.Attempts, 1) {
				sc.asked[i] = append(sc.asked[i], sc.question(ctx, t.s, t.s.Ask))
			}
			return nil
		})
	}
	_ = g.Wait() // always nil
}

func (sc *scene) question(ctx context.Context, s *suite.Scenario, act suite.APIAction) verdict.Attempt {
	a := verdict.Attempt{Nonce: newNonce(), Start: sc.r.now()}
	ctx, cancel := context.WithTimeout(ctx, timeout(s))
	defer cancel()
	env := sc.field.APIEnv
	env.Nonce = a.Nonce
	if s.Live {
		env.Live = sc.field.Pods[suite.Sandbox].Name
	}
	if !s.Stores && env.API != nil {
		env.API = dryRuns{env.API}
	}
	if !s.Calls() {
		env.Execute, env.SessionServer = nil, suite.SessionServer{}
	}
	if env.Open != nil {
		l := &openedSessions{open: env.Open}
		defer l.Close()
		env.Open = l.Open
	}
	steps, err := callAction(ctx, act, &env)
	a.Steps, a.End = steps, sc.r.now()
	a.Complete = err == nil && ctx.Err() == nil
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

// dryRuns is the API client of scenarios that do not say that they store anything.
type dryRuns struct{ suite.Client }

func (c dryRuns) Create(ctx context.Context, obj suite.Object, dryRun bool) (suite.Answer, error) {
	if !dryRun {
		return suite.Answer{}, errors.New("creating an object: the scenario does not say that it stores any")
	}
	return c.Client.Create(ctx, obj, true)
}

// callAction keeps one broken action from taking the run with it.
func callAction(ctx context.Context, act suite.APIAction, env *suite.APIEnv) (steps []verdict.Step, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the action panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return act(ctx, env), nil
}
