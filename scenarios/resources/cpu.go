// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// claimedCPU is the text's own limit, in cores, for targets that declare none, of
// profiles that do not say how much they may.
const claimedCPU = 0.5

// cpuRunaway accepts ResourceLimit alone: a rate that was measured, and that
// stays at the limit. There is no error to see, so the numbers of the node are
// what counts; the attack's own is the work that it got done.
func cpuRunaway() suite.Scenario {
	return suite.Scenario{
		ID:    "resources.cpu-runaway",
		Title: "Take more CPU than the limit",
		About: "Spins on every core for two seconds. The work done, against what one core does in a moment without throttling, " +
			"tells how many cores were had; the node's cgroup says how much time was taken, and that there is a quota, of no more than may be declared. " +
			"The control does the same in a Pod without a limit, on runc, and must get more.",
		Claims:     []string{"AS-09"},
		Kind:       suite.Guarantee,
		Techniques: []string{"T1496", "T1499"},
		Severity:   suite.High,
		Attack:     attackCPU,
		Control: suite.ControlSpec{Act: spinFreely,
			Why: "The same spinning gets more than the limit where there is none, so the node has the CPU to give."},
		Accept:    []verdict.Class{verdict.ResourceLimit},
		Witnesses: []suite.Witness{{Name: suite.Cgroup, Read: readCPU}},
		Exclusive: true,
		Timeout:   20 * time.Second,
		Mutants:   []string{"no-cpu-limit", "cpu-limit-raised"},
	}
}

func cpuLimit(s probe.Site) float64 {
	if s.CPULimit > 0 {
		return s.CPULimit
	}
	return claimedCPU
}

const (
	spinFor = 2 * time.Second
	// A burst is far shorter than the kernel's period of 100 ms, and the rest
	// between bursts is long, so that no sensible quota throttles one.
	burst, rest, bursts = 4 * time.Millisecond, 50 * time.Millisecond, 20
	// insideSlack is generous: clocks inside are coarse, and cores differ.
	insideSlack = 1.5
)

func attackCPU(ctx context.Context, env *probe.Env) []verdict.Step {
	began := time.Now()
	full := calibrate(ctx)
	work, took := spinAll(ctx, runtime.NumCPU())
	step := judgeRate(full, float64(work)/took.Seconds(), cpuLimit(env.Site), insideSlack)
	step.Name = fmt.Sprintf("spin on %d cores", runtime.NumCPU())
	step.Millis = time.Since(began).Milliseconds()
	if ctx.Err() != nil {
		step.OK, step.Class = false, verdict.Unknown
	}
	return []verdict.Step{step}
}

// spinFreely is the attack where no limit is. It has to get more than the limit,
// and only just: on a busy node it shares with others.
func spinFreely(ctx context.Context, env *probe.Env) []verdict.Step {
	full := calibrate(ctx)
	work, took := spinAll(ctx, runtime.NumCPU())
	step := judgeRate(full, float64(work)/took.Seconds(), cpuLimit(env.Site), 1)
	step.Name = fmt.Sprintf("spin on %d cores without a limit", runtime.NumCPU())
	return []verdict.Step{step}
}

// judgeRate turns rates of work (a second) into cores: of one unthrottled core,
// and of the spinning. OK means more than slack times the limit.
func judgeRate(full, got, limit, slack float64) verdict.Step {
	if full <= 0 || got <= 0 {
		return verdict.Step{Class: verdict.Unknown, Detail: "no work was measured"}
	}
	cores := got / full
	step := verdict.Step{Detail: fmt.Sprintf("%.2f cores of a limit of %.2f", cores, limit)}
	if step.OK = cores > limit*slack; !step.OK {
		step.Class = verdict.ResourceLimit
	}
	return step
}

// calibrate returns the work of one core in a second, as the best of many short
// bursts: whatever else runs can only make a burst slower.
func calibrate(ctx context.Context) float64 {
	best := 0.0
	tick := time.NewTicker(rest)
	defer tick.Stop()
	for range bursts {
		work, took := spin(ctx, burst)
		best = max(best, float64(work)/took.Seconds())
		select {
		case <-ctx.Done():
			return best
		case <-tick.C:
		}
	}
	return best
}

// spinAll spins on n threads and returns their work together.
func spinAll(ctx context.Context, n int) (work uint64, took time.Duration) {
	began := time.Now()
	done := make([]uint64, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { done[i], _ = spin(ctx, spinFor) })
	}
	wg.Wait()
	for _, w := range done {
		work += w
	}
	return work, time.Since(began)
}

// spin computes for the time given and counts the rounds.
func spin(ctx context.Context, during time.Duration) (rounds uint64, took time.Duration) {
	began, x := time.Now(), uint64(88172645463325252)
	for time.Since(began) < during && ctx.Err() == nil {
		// Xorshift: cheap, and not to be computed in advance. The clock is
		// read seldom, because under gVisor it may be a system call.
		for range 20000 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		rounds++
	}
	if x == 0 { // never, but the compiler has to compute it
		rounds = 0
	}
	return rounds, time.Since(began)
}

// outsideSlack covers the last period, whose quota may be used at once.
const outsideSlack = 1.15

// readCPU judges the time that the node accounted to the Pod, and its quota.
func readCPU(r suite.Reading) verdict.Statement {
	s := verdict.Statement{Witness: suite.Cgroup}
	before, ok1 := r.Before["cpuacct.usage"]
	after, ok2 := r.After["cpuacct.usage"]
	if !ok1 || !ok2 || r.Elapsed <= 0 {
		s.Detail = "the node shows no cpuacct.usage for this Pod"
		return s
	}
	limit := cpuLimit(r.Site)
	used := (after - before) / 1e9 // seconds of CPU
	// At least a third of what the limit allows for the spinning must show, or
	// these are not this Pod's numbers.
	s.Live = used >= limit*spinFor.Seconds()/3
	s.Breach = used > limit*outsideSlack*r.Elapsed.Seconds()
	s.Detail = fmt.Sprintf("%.2f s of CPU in %.2f s, at a limit of %.2f cores", used, r.Elapsed.Seconds(), limit)
	quota, ok1 := r.After["cpu.cfs_quota_us"]
	period, ok2 := r.After["cpu.cfs_period_us"]
	switch {
	case !ok1 || !ok2 || period <= 0:
		s.Detail += ", and the node shows no quota for this Pod"
	case quota <= 0 || quota/period > limit*1.01:
		// No quota, or a larger one, is a missing control, however little the
		// attack got on a busy node.
		s.Breach = true
		s.Detail += fmt.Sprintf(", with a quota of %.0f us in %.0f us", quota, period)
	default:
		s.Agrees = !s.Breach
	}
	return s
}
