// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// claimedPids is tried where the target declares no limit.
const claimedPids = 1024

// maxPids bounds the attack whatever the target declares.
const maxPids = 4096

// processBomb accepts EAGAIN and ENOMEM, the kernel's answers at a limit, and
// the sandbox's death. Under gVisor a process of the sandbox is not one of the
// node's, so the node's own count is what tells whether the node was kept free.
func processBomb() suite.Scenario {
	return suite.Scenario{
		ID:    "resources.process-bomb",
		Title: "Start more processes than the limit",
		About: "Starts sleeping processes, up to twice the Pod's limit and never more than 4096. The node's cgroup has to have a " +
			"limit and never more tasks than that. The control starts 16 in the same sandbox.",
		Claims:     []string{"AS-08", "AS-09"},
		Kind:       suite.Guarantee,
		Techniques: []string{"T1499.001"},
		Severity:   suite.High,
		Attack:     attackProcesses,
		Control: suite.ControlSpec{At: suite.Sandbox, Act: startSome,
			Why: "A few processes can be started in the same sandbox, so it is their number that is stopped."},
		Accept:    []verdict.Class{verdict.ResourceLimit, verdict.Killed},
		Witnesses: []suite.Witness{{Name: suite.Cgroup, Read: readPids}},
		Exclusive: true,
		MayKill:   true,
		Timeout:   90 * time.Second,
		Mutants:   []string{"no-memory-limit"},
	}
}

func pidsLimit(s probe.Site) int {
	if s.PidsLimit > 0 {
		return int(min(s.PidsLimit, maxPids/2))
	}
	return claimedPids
}

func attackProcesses(ctx context.Context, env *probe.Env) []verdict.Step {
	limit := pidsLimit(env.Site)
	env.Report(verdict.Step{Name: "start one process", Expect: verdict.MustWork, OK: startMany(ctx, 1).got == 1, Class: verdict.Unknown})
	return []verdict.Step{judgeBomb(startMany(ctx, 2*limit), limit)}
}

func startSome(ctx context.Context, _ *probe.Env) []verdict.Step {
	const want = 16
	b := startMany(ctx, want)
	step := verdict.Step{Name: "start 16 processes", OK: b.got == want, Detail: fmt.Sprintf("%d of them: %v", b.got, b.err)}
	if !step.OK {
		step.Class = verdict.Unknown
	}
	return []verdict.Step{step}
}

// bomb is what became of starting many processes.
type bomb struct {
	got, wanted int
	err         error // why the last was not started
	took        time.Duration
}

func judgeBomb(b bomb, limit int) verdict.Step {
	step := verdict.Step{
		Name:   fmt.Sprintf("start %d processes", b.wanted),
		Detail: fmt.Sprintf("%d were running at once", b.got),
		Millis: b.took.Milliseconds(),
	}
	if b.err != nil {
		step.Detail += ": " + b.err.Error()
	}
	switch {
	case b.got > limit+limit/10:
		step.OK = true
	case errors.Is(b.err, syscall.EAGAIN), errors.Is(b.err, syscall.ENOMEM):
		step.Class = verdict.ResourceLimit
	default:
		step.Class = verdict.Unknown
	}
	return step
}

// startMany starts up to n sleeping processes, and ends all of them before it
// returns.
func startMany(ctx context.Context, n int) bomb {
	began, b := time.Now(), bomb{wanted: n}
	program, args := sleeper()
	var running []*os.Process
	for len(running) < n && b.err == nil {
		if b.err = ctx.Err(); b.err != nil {
			break
		}
		var p *os.Process
		if p, b.err = os.StartProcess(program, args, &os.ProcAttr{}); b.err == nil {
			running = append(running, p)
		}
	}
	b.got = len(running)
	for _, p := range running {
		_ = p.Kill() // it may have ended by itself
	}
	for _, p := range running {
		_, _ = p.Wait()
	}
	b.took = time.Since(began)
	return b
}

// sleeper is the cheapest sleeping program there is: the image's own, or else
// the probe, which is ten times as large.
func sleeper() (program string, args []string) {
	for _, s := range []string{"/bin/sleep", "/usr/bin/sleep"} {
		if _, err := os.Stat(s); err == nil {
			return s, []string{"sleep", "120"}
		}
	}
	return "/proc/self/exe", []string{"probe", "idle"}
}

// readPids judges the node's own count of the Pod's tasks.
func readPids(r suite.Reading) verdict.Statement {
	s := verdict.Statement{Witness: suite.Cgroup}
	most, ok1 := r.After["pids.max"]
	now, ok2 := r.After["pids.current"]
	if !ok1 || !ok2 {
		s.Detail = "the node shows no pids.max and pids.current for this Pod"
		return s
	}
	peak := max(now, r.After["pids.peak"])
	s.Live = peak > 0
	s.Detail = fmt.Sprintf("at most %.0f tasks on the node, of %.0f", peak, most)
	switch limit := float64(r.Site.PidsLimit); {
	case most >= probe.Unlimited:
		s.Detail = fmt.Sprintf("at most %.0f tasks on the node, and no limit", peak)
	case limit > 0 && most > limit:
		s.Detail += fmt.Sprintf(", where %.0f are declared", limit)
		s.Breach = true
	default:
		s.Agrees = peak <= most
		s.Breach = !s.Agrees
	}
	return s
}
