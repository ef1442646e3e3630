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
// the sandbox's death. Under gVisor (systrap) a process of the sandbox costs
// about one and a half tasks of the node, and a sentry that gets no more of them
// ends with all that is in it: the sandbox is killed by its own attack. None of
// these tells by itself that it was the limit's doing, for the sandbox can end
// itself, and say EAGAIN of anything. What counts is that the node has the limit
// and counted up to it.
func processBomb() suite.Scenario {
	return suite.Scenario{
		ID:    "resources.process-bomb",
		Title: "Start more processes than the limit",
		About: "Starts sleeping processes, up to a quarter more than the Pod's limit and never more than 4096. The node's cgroup " +
			"has to have the declared limit, and to have counted up to it. The control starts 16 in the same sandbox.",
		Claims:     []string{"PG-07"},
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
		Timeout:   150 * time.Second, // half a core starts some ten processes a second
		Mutants:   []string{"pids-unlimited"},
	}
}

func pidsLimit(s probe.Site) int {
	if s.PidsLimit > 0 {
		return int(min(s.PidsLimit, maxPids*4/5))
	}
	return claimedPids
}

func attackProcesses(ctx context.Context, env *probe.Env) []verdict.Step {
	limit := pidsLimit(env.Site)
	return []verdict.Step{judgeBomb(startMany(ctx, limit+limit/4), limit)}
}

// some is how many processes the control starts.
const some = 16

func startSome(ctx context.Context, _ *probe.Env) []verdict.Step {
	b := startMany(ctx, some)
	step := verdict.Step{Name: fmt.Sprintf("start %d processes", some), OK: b.got == some, Detail: fmt.Sprintf("%d of them: %v", b.got, b.err)}
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
	s.Live = peak >= some // each is a task of the node at least
	allowed := fmt.Sprintf("%.0f", most)
	if most >= probe.Unlimited {
		allowed = "any number"
	}
	s.Detail = fmt.Sprintf("at most %.0f tasks on the node, of %s", peak, allowed)
	if limit := float64(r.Site.PidsLimit); limit > 0 && most > limit {
		// Declared and not there is a missing control, whatever was used of it.
		s.Detail += fmt.Sprintf(", where %.0f are declared", limit)
		s.Breach = true
		return s
	}
	// The kernel never lets the count pass the limit. That it came up to it shows
	// that the attack was made, and that it was the limit that ended it.
	s.Agrees = most < probe.Unlimited && peak >= most*reached
	return s
}
