// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// ErrOtherCluster means that the cluster is not the target's.
var ErrOtherCluster = errors.New("this is another cluster than the target's")

// ErrSetup means that the target could not be made ready.
var ErrSetup = errors.New("the target could not be made ready")

// Execute attacks a deployed target and returns what it found.
//
// A run that could not begin at all (wrong options, another cluster, no seal)
// is nil with an error. One whose target could not be made ready, or that was
// interrupted, is a run that says so of every scenario, together with the
// error. Verdicts are never errors.
func Execute(ctx context.Context, o Options) (*Run, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("starting a run: %w", err)
	}
	cluster, err := o.Ground.Cluster(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking the cluster who it is (is it up? `stockade status` tells): %w", err)
	}
	if cluster != o.Cluster {
		return nil, fmt.Errorf("starting a run: %w: kube-system is %s, the descriptor says %s; check the kubeconfig, or `stockade up`", ErrOtherCluster, cluster, o.Cluster)
	}
	if o.Seal != nil {
		if err := o.Seal(ctx); err != nil {
			return nil, fmt.Errorf("proving the seal: %w", err)
		}
	}
	leftovers, err := Cleanup(ctx, o.LedgerDir, o.Ground, o.Progress)
	if err != nil {
		return nil, fmt.Errorf("removing what earlier runs left: %w", err)
	}
	id := randomHex(8)
	led, err := OpenLedger(o.LedgerDir, id, cluster)
	if err != nil {
		return nil, err
	}
	r := &execution{o: o, id: id, led: led, now: time.Now}
	r.delivery = &target.Delivery{Carrier: o.Carrier, Probe: o.Probe, Now: r.now}
	for _, s := range o.Scenarios {
		r.trials = append(r.trials, &trial{s: s})
	}
	run := &Run{ID: id, Started: r.now(), Profile: o.Profile, Target: o.TargetName, Differs: o.Differs, Residue: leftovers}
	runErr := r.attack(ctx)
	run.Substrate = r.substrate(ctx)
	run.Residue = append(run.Residue, r.clean(ctx)...)
	run.Ended = r.now()
	for _, c := range r.trials {
		out := c.outcome()
		out.Added = r.o.enforcementAdded && c.s.ID == r.o.Enforcement.ID
		run.Outcomes = append(run.Outcomes, out)
	}
	if runErr != nil {
		run.Incomplete = runErr.Error()
	}
	return run, runErr
}

// execution is the state of one run.
type execution struct {
	o        Options
	id       string
	led      *Ledger
	delivery *target.Delivery
	now      func() time.Time
	field    *Field
	trials   []*trial
	callers  callerLocks
}

// trial is one scenario's way through a run.
type trial struct {
	s      *suite.Scenario
	rounds []Round
	// fixed is a result that needs no round (not applicable).
	fixed *verdict.Result
	// missing is a feature that was declared, and is not there.
	missing suite.Feature
	// doubt is why a Held of this scenario means nothing in this run.
	doubt string
}

// result is the verdict so far: Breached in any round wins, else the last.
func (t *trial) result() verdict.Result {
	if t.fixed != nil {
		return *t.fixed
	}
	r := worst(t.rounds)
	if t.missing != "" && len(t.rounds) > 0 && r.Verdict() != verdict.Breached {
		return verdict.Breach("the target declares %s, and does not have it", t.missing)
	}
	if t.doubt != "" && r.Verdict() == verdict.Held {
		return verdict.Unsure(verdict.ControlFailed, "%s", t.doubt)
	}
	return r
}

func (t *trial) outcome() Outcome {
	o := Outcome{Scenario: t.s, Result: t.result(), Rounds: t.rounds}
	for _, rd := range t.rounds {
		o.Took += took(rd.Evidence)
	}
	return o
}

// took is the time from the first to the last thing that happened in a round.
func took(e verdict.Evidence) time.Duration {
	begin, end := span(slices.Concat(e.Attempts, e.Controls))
	return max(end.Sub(begin), 0)
}

// span returns the first start and the last end of the attempts; both are zero
// when none has begun.
func span(attempts []verdict.Attempt) (begin, end time.Time) {
	for _, a := range attempts {
		if a.Start.IsZero() {
			continue
		}
		if begin.IsZero() || a.Start.Before(begin) {
			begin = a.Start
		}
		if a.End.After(end) {
			end = a.End
		}
	}
	return begin, end
}

// attack does all the work between the ledger's opening and the cleanup.
func (r *execution) attack(ctx context.Context) error {
	roles := r.sandboxes()
	what := "claiming sandboxes"
	if len(roles) == 0 {
		what = "looking at the target"
	}
	done := r.o.Progress.Step(what)
	field, err := r.o.Ground.Open(ctx, r.id, r.led, r.o.Timeouts, roles)
	done("", err)
	if err != nil {
		if ctx.Err() != nil {
			return interrupted(ctx)
		}
		for _, c := range r.trials {
			c.rounds = append(c.rounds, Round{Result: verdict.Unsure(verdict.SetupFailed, "%v", err)})
		}
		return fmt.Errorf("%w: %w", ErrSetup, err)
	}
	r.field = field
	r.applicability(ctx)
	r.dropEnforcement()
	var batch, sessions, alone, fatal []*trial
	for _, c := range r.trials {
		switch {
		case c.fixed != nil:
		case c.s.MayKill:
			fatal = append(fatal, c)
		case c.s.Exclusive:
			alone = append(alone, c)
		case len(c.s.As) > 0:
			// They take minutes, in which programs are built. Beside them, short
			// attacks would starve, and what their witnesses saw be written over.
			sessions = append(sessions, c)
		default:
			batch = append(batch, c)
		}
	}
	r.rounds(ctx, "batch", batch, false)
	r.rounds(ctx, "sessions", sessions, false)
	for _, c := range oneByOne(alone, fatal) {
		r.rounds(ctx, c.s.ID, []*trial{c}, true)
	}
	if ctx.Err() != nil {
		return interrupted(ctx)
	}
	return nil
}

// sandboxes are those that some scenario of the run has a use for.
func (r *execution) sandboxes() (roles []suite.Role) {
	for _, role := range []suite.Role{suite.Sandbox, suite.Sibling} {
		if slices.ContainsFunc(r.trials, func(c *trial) bool { return slices.Contains(c.s.Sandboxes(), role) }) {
			roles = append(roles, role)
		}
	}
	return roles
}

// oneByOne orders the trials that run alone: first those that use the sandbox and
// leave it as it is, then the first that may kill it. While the sandbox comes back,
// those run that have no use for it, and after them the others that may kill it.
func oneByOne(alone, fatal []*trial) []*trial {
	var within, outside []*trial
	for _, c := range alone {
		if len(c.s.Sandboxes()) > 0 {
			within = append(within, c)
		} else {
			outside = append(outside, c)
		}
	}
	n := min(1, len(fatal))
	return slices.Concat(within, fatal[:n], outside, fatal[n:])
}

// dropEnforcement leaves out the enforcement scenario where nobody selected it and
// none of the network scenarios for which it was added applies. It answers nothing
// that was asked, and by its Held a run would be conformant in which nothing else
// was attacked.
func (r *execution) dropEnforcement() {
	rests := func(c *trial) bool { return c.s.ID != r.o.Enforcement.ID && c.fixed == nil && networked(c.s) }
	if !r.o.enforcementAdded || slices.ContainsFunc(r.trials, rests) {
		return
	}
	r.trials = slices.DeleteFunc(r.trials, func(c *trial) bool { return c.s.ID == r.o.Enforcement.ID })
}

// doubtUnenforced doubts every network verdict of the run where it was not shown
// that the target's policies are enforced. The others are attacked all the same,
// because a breach stays one. It is asked again after every round, since the
// enforcement scenario may have been tried again.
func (r *execution) doubtUnenforced() {
	if r.o.Enforcement == nil {
		return
	}
	for _, g := range r.trials {
		if g.s.ID != r.o.Enforcement.ID {
			continue
		}
		doubt := ""
		if g.result().Verdict() != verdict.Held {
			doubt = fmt.Sprintf("%s is %s, and without an enforcer a denial says nothing of the policy", g.s.ID, g.result().Verdict())
		}
		for _, c := range r.trials {
			if c != g && networked(c.s) {
				c.doubt = doubt
			}
		}
	}
}

func interrupted(ctx context.Context) error {
	return fmt.Errorf("the run was interrupted: %w", context.Cause(ctx))
}

// applicability compares what is declared with what is detected.
func (r *execution) applicability(ctx context.Context) {
	type answer struct {
		has bool
		err error
	}
	known := map[suite.Feature]answer{}
	for _, c := range r.trials {
		for _, f := range c.s.Needs {
			a, asked := known[f]
			if !asked {
				a.has, a.err = r.o.Ground.Detect(ctx, r.field, f)
				known[f] = a
			}
			declared := slices.Contains(r.o.Declared, f)
			switch {
			case a.err != nil:
				u := verdict.Unsure(verdict.DetectionFailed, "whether the target has %s: %v", f, a.err)
				c.fixed = &u
			case declared && !a.has:
				// It is attacked all the same: the attack's own evidence says
				// more than the absence does.
				c.missing = f
			case !declared && !a.has && c.fixed == nil:
				skip := verdict.Skip("the target has no %s, and does not claim to", f)
				c.fixed = &skip
			}
		}
		// What does not apply for one feature is not excused for another that is
		// declared.
		if c.missing != "" && c.fixed != nil && c.fixed.Verdict() == verdict.NotApplicable {
			c.fixed = nil
		}
	}
}

// rounds tries the trials until none is Inconclusive, or there were enough
// rounds. Only the Inconclusive ones are tried again, by what the attack itself
// said: a missing feature settles the result, and does not replace the attack.
func (r *execution) rounds(ctx context.Context, name string, trials []*trial, alone bool) {
	for n := range maxRounds {
		pending := slices.DeleteFunc(slices.Clone(trials), func(c *trial) bool {
			return n > 0 && worst(c.rounds).Verdict() != verdict.Inconclusive
		})
		if len(pending) == 0 || ctx.Err() != nil {
			return
		}
		what := fmt.Sprintf("%s, %d scenarios", name, len(pending))
		if len(trials) == 1 {
			what = trials[0].s.ID
		}
		if n > 0 {
			what += fmt.Sprintf(", round %d", n+1)
		}
		done := r.o.Progress.Step(what)
		for i, rd := range r.round(ctx, pending, alone) {
			pending[i].rounds = append(pending[i].rounds, judged(pending[i].s, rd))
		}
		r.doubtUnenforced()
		done(tally(pending), nil)
	}
}

// tally counts verdicts for the progress line.
func tally(trials []*trial) string {
	n := map[verdict.Verdict]int{}
	for _, c := range trials {
		n[c.result().Verdict()]++
	}
	text := ""
	for _, v := range slices.Backward(slices.Sorted(maps.Keys(n))) {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%d %s", n[v], v)
	}
	return text
}

func (r *execution) substrate(ctx context.Context) map[string]string {
	out := map[string]string{}
	if r.field != nil && ctx.Err() == nil {
		maps.Copy(out, r.o.Ground.Substrate(ctx, r.field))
	}
	maps.Copy(out, r.o.Substrate)
	return out
}

// clean removes everything that the run created, also after a Ctrl-C, and
// returns what it could not remove.
func (r *execution) clean(ctx context.Context) (residue []string) {
	ctx = context.WithoutCancel(ctx)
	done := r.o.Progress.Step("removing what the run created")
	if r.field != nil && r.field.AwaitRelease != nil {
		residue = r.field.AwaitRelease(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeouts.Clean)
	defer cancel()
	refs := r.led.Open()
	// Namespaces first: what lives in one goes with it.
	slices.SortFunc(refs, func(a, b Ref) int { return strings.Compare(a.Namespace, b.Namespace) })
	for _, ref := range refs {
		err := r.o.Ground.Remove(ctx, r.id, ref)
		if err == nil {
			err = r.led.Gone(ref)
		}
		if err != nil {
			residue = append(residue, fmt.Sprintf("%s of run %s: %v", ref, r.id, err))
		}
	}
	if err := r.led.Close(); err != nil {
		residue = append(residue, fmt.Sprintf("the ledger of run %s: %v", r.id, err))
	}
	done("", nil)
	slices.Sort(residue)
	return residue
}

// newNonce draws the nonce of one attempt. If a sandbox could guess it, it could
// speak for attempts that were never made.
func newNonce() string { return randomHex(16) }

// randomHex returns n random bytes as 2n lower-case hex digits.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
