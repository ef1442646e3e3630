// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// raiseLimits accepts Confined where a limit is set, Permission when the kernel
// refuses to raise it, and ResourceLimit where it is met. The helper sets the
// limits before a program starts, and the probe starts like every program, so it
// has them itself.
func raiseLimits() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.raise-limits",
		Title: "Raise the resource limits of a run",
		About: "Looks whether processes, open files, file size, core files and address space are limited, by numbers that can be met, asks for one more of each than the hard " +
			"limit allows, for itself and for the Pod's first process, and opens files until there are no more. The control moves a soft limit " +
			"below the hard one and back, which everybody may.",
		Claims: []string{"PG-06"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1499.001", "T1548"},
		Refs:       []string{"https://man7.org/linux/man-pages/man2/getrlimit.2.html"},
		Attack:     tryLimits,
		Control: suite.ControlSpec{At: suite.Sandbox, Act: moveSoft,
			Why: "a soft limit can be moved in the same sandbox, so it is the hard one that does not move"},
		Accept: []verdict.Class{verdict.Permission, verdict.Confined, verdict.ResourceLimit},
		// It takes every file descriptor of the probe.
		Exclusive: true,
		Timeout:   20 * time.Second,
		Mutants:   []string{"playground-no-rlimits"},
	}
}

// runLimits is raiseLimits for a program that the deployed service starts;
// raiseLimits itself starts as the suite thinks that runs do. It accepts Confined
// where a limit is set, and Permission when the kernel refuses to raise it.
func runLimits() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.run-limits",
		Title: "Raise the resource limits of a program that the service runs",
		About: "Gives the deployed execution service a program that reads its limits on processes, open files, file size, core files and address space, which must be numbers that can be met, and asks for " +
			"one more of each than the hard limit allows. The control is an ordinary program.",
		Claims: []string{"PG-06"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1499.001", "T1548"},
		Refs:       []string{"https://man7.org/linux/man-pages/man2/getrlimit.2.html"},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			const name = "read the limits of a run"
			x, step := execute(ctx, env, name, printLimits)
			if step != nil {
				return []verdict.Step{*step}
			}
			return judgePrinted(name, x)
		},
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return []verdict.Step{ordinary(ctx, env)}
		},
		Server:       true,
		SelfReported: true,
		Accept:       []verdict.Class{verdict.Permission, verdict.Confined},
		Timeout:      runTime,
		Mutants:      []string{"playground-no-rlimits"},
	}
}

// printLimits prints a line for each limit: its name, soft, hard, and what became
// of asking for more. -1 is no limit.
const printLimits = `import resource as r
for name, it in (("processes", r.RLIMIT_NPROC), ("open files", r.RLIMIT_NOFILE), ("the size of a file", r.RLIMIT_FSIZE),
                 ("core files", r.RLIMIT_CORE), ("address space", r.RLIMIT_AS)):
    soft, hard = r.getrlimit(it)
    answer = "not asked"
    if hard != r.RLIM_INFINITY:
        try:
            r.setrlimit(it, (soft, hard + 1))
            answer = "granted"
        except (ValueError, OSError) as e:
            answer = str(e)
    print(name, soft, hard, answer, sep="\t")
`

// printed are the limits that printLimits tells of.
var printed = []string{"processes", "open files", "the size of a file", "core files", "address space"}

// judgePrinted reads what printLimits printed. It is a pure function.
func judgePrinted(name string, x suite.Execution) []verdict.Step {
	lines := strings.Split(strings.TrimSuffix(x.Stdout, "\n"), "\n")
	odd := []verdict.Step{{Name: name, Class: verdict.Unknown, Detail: fmt.Sprintf("%s, %.200q %.80q", x.Status, x.Stdout, x.Stderr)}}
	if x.Status != "ok" || len(lines) != len(printed) {
		return odd
	}
	var steps []verdict.Step
	for i, line := range lines {
		part := strings.Split(line, "\t")
		if len(part) != 4 || part[0] != printed[i] {
			return odd
		}
		soft, err1 := strconv.ParseInt(part[1], 10, 64)
		hard, err2 := strconv.ParseInt(part[2], 10, 64)
		if err1 != nil || err2 != nil || soft < -1 || hard < -1 {
			return odd
		}
		l := limit{name: part[0], soft: uint64(soft), hard: uint64(hard)} //nolint:gosec // -1 is infinite
		steps = append(steps, judgeLimit("the run", l))
		if l.hard != infinite {
			steps = append(steps, judgeAnswer(l.name, part[3]))
		}
	}
	return steps
}

// judgeAnswer reads Python's word for the kernel's answer: "not allowed to raise
// maximum limit" is EPERM, and no other error.
func judgeAnswer(of, answer string) verdict.Step {
	name := "the run: raise the limit on " + of
	switch answer {
	case "granted":
		return probe.Reached(name, "the kernel granted it")
	case "not allowed to raise maximum limit":
		return probe.Failed(name, verdict.Permission, "%s", answer)
	}
	return probe.Failed(name, verdict.Unknown, "%.80q", answer)
}

// infinite is what the kernel calls no limit (RLIM_INFINITY).
const infinite = ^uint64(0)

// limit is a resource limit as the kernel tells it.
type limit struct {
	name       string
	soft, hard uint64
	err        error
}

// most is the largest limit of each kind that counts as one: more is never met by
// what a Pod of a run has anyway, with its folders of 64 MiB and its 512 MiB of
// memory. Programs reserve more addresses than they use.
var most = map[string]uint64{
	"processes": 4096, "open files": 4096, "the size of a file": room, "core files": room, "address space": 16 << 30,
}

// judgeLimit tells whether there is one.
func judgeLimit(whose string, l limit) verdict.Step {
	name := whose + ": no limit on " + l.name
	switch {
	case l.err != nil:
		return probe.Denied(name, l.err)
	case l.hard == infinite:
		return probe.Reached(name, "there is none")
	case most[l.name] > 0 && l.hard > most[l.name]:
		return probe.Reached(name, "it is %d, and more than %d is none", l.hard, most[l.name])
	case l.soft > l.hard:
		return probe.Failed(name, verdict.Unknown, "soft %d, hard %d", l.soft, l.hard)
	}
	return probe.Failed(name, verdict.Confined, "soft %d, hard %d", l.soft, l.hard)
}

// judgeRaise reads what became of asking for more.
func judgeRaise(whose, of string, err error) verdict.Step {
	name := whose + ": raise the limit on " + of
	if err == nil {
		return probe.Reached(name, "the kernel granted it")
	}
	return probe.Denied(name, err)
}

// judgeOpen reads how many files could be open at once.
func judgeOpen(opened int, hard uint64, err error) verdict.Step {
	const name = "open more files than the limit"
	if uint64(max(opened, 0)) > hard {
		return probe.Reached(name, "%d were open", opened)
	}
	if err == nil {
		return probe.Failed(name, verdict.Unknown, "%d files were open, and the limit of %d was not met", opened, hard)
	}
	step := probe.Denied(name, err)
	step.Detail = fmt.Sprintf("%d were open: %s", opened, step.Detail)
	return step
}

// tryLimits looks at itself and at the Pod's first process: of the same user,
// and so a process that a run could take over.
func tryLimits(context.Context, *probe.Env) []verdict.Step {
	var steps []verdict.Step
	for pid, whose := range []string{"the run", "the first process"} {
		for _, l := range readLimits(pid) {
			steps = append(steps, judgeLimit(whose, l))
			if l.err == nil && l.hard != infinite {
				steps = append(steps, judgeRaise(whose, l.name, raise(pid, l)))
			}
		}
	}
	return append(steps, openMany())
}
