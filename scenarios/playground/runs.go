// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// runTime bounds a scenario with two or three runs, each of which starts a Pod.
const runTime = 150 * time.Second

// ownUID accepts Absent alone: the id that is looked for, another run's, is not
// this run's. The program itself says which id it has; what the Pod declares
// would say nothing of a run that the service starts in another way.
func ownUID() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.own-uid",
		Title: "Run as the user of another run",
		About: "Has the deployed execution service run two programs at the same time and one after them, which print their user id, and compares them with each " +
			"other and with that of a sandbox that runs all the while. The control is that a program says which id it has.",
		Claims: []string{"PG-08"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1078"},
		Ask:        compareUIDs,
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			l, step := printUID(ctx, env, "run a program that prints its user id", 0)
			if step == nil {
				step = &verdict.Step{Name: "run a program that prints its user id", OK: true, Detail: fmt.Sprint(l.uid)}
			}
			return []verdict.Step{*step}
		},
		Live:         true,
		Server:       true,
		SelfReported: true,
		Accept:       []verdict.Class{verdict.Absent},
		Timeout:      runTime,
		Mutants:      []string{"playground-one-uid"},
	}
}

// together is how many seconds each of two programs stays that run at the same
// time: their Pods do not start at the same moment.
const together = 6

func compareUIDs(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	var first, second lived
	var failed [2]*verdict.Step
	var wg sync.WaitGroup
	wg.Go(func() { first, failed[0] = printUID(ctx, env, "run a program", together) })
	wg.Go(func() { second, failed[1] = printUID(ctx, env, "run another at the same time", together) })
	wg.Wait()
	for _, step := range failed {
		if step != nil {
			return []verdict.Step{*step}
		}
	}
	third, step := printUID(ctx, env, "run one after them", 0)
	if step != nil {
		return []verdict.Step{*step}
	}
	steps := []verdict.Step{
		judgeTogether(first, second),
		judgeUIDs("have the user id of a run before", first.uid, third.uid), judgeUIDs("have that of the other", second.uid, third.uid),
	}
	live, err := env.API.Get(ctx, "v1", "Pod", env.Live)
	if err != nil || live.Code != 200 {
		return append(steps, verdict.Step{Name: "read the sandbox that runs", Class: verdict.TransportError, Detail: fmt.Sprint(live.Code, err)})
	}
	uid, found := podUID(live.Object)
	if !found {
		return append(steps, verdict.Step{Name: "read the sandbox that runs", Class: verdict.Unknown, Detail: "its Pod does not say as whom it runs"})
	}
	return append(steps, judgeUIDs("have the user id of a sandbox that runs", uid, first.uid), judgeUIDs("have it later", uid, third.uid))
}

// judgeTogether is a pure function. Runs that missed each other show nothing of
// what two at once would get.
func judgeTogether(a, b lived) verdict.Step {
	step := judgeUIDs("have the user id of a run at the same time", a.uid, b.uid)
	if !step.OK && (a.ended <= b.began || b.ended <= a.began) {
		step.Class = verdict.Unknown
		step.Detail += fmt.Sprintf(", but they did not run at the same time: %.1f to %.1f s and %.1f to %.1f s", a.began, a.ended, b.began, b.ended)
	}
	return step
}

// judgeUIDs is a pure function.
func judgeUIDs(name string, a, b int64) verdict.Step {
	if a == b {
		return verdict.Step{Name: name, OK: true, Detail: fmt.Sprintf("both are %d", a)}
	}
	return verdict.Step{Name: name, Class: verdict.Absent, Detail: fmt.Sprintf("%d and %d", a, b)}
}

func podUID(pod suite.Object) (int64, bool) {
	spec, _ := pod["spec"].(object)
	security, _ := spec["securityContext"].(object)
	switch v := security["runAsUser"].(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), true
	}
	return 0, false
}

// lived is what a program says of itself: its user id, and when it ran, in
// seconds.
type lived struct {
	uid          int64
	began, ended float64
}

// printUID runs a program that prints its user id and stays for some seconds. The
// step is nil when it did.
func printUID(ctx context.Context, env *suite.APIEnv, name string, seconds int) (lived, *verdict.Step) {
	x, step := execute(ctx, env, name, fmt.Sprintf("import os, time\nbegan = time.time()\ntime.sleep(%d)\nprint(os.getuid(), began, time.time())", seconds))
	if step != nil {
		return lived{}, step
	}
	var l lived
	if n, err := fmt.Sscan(x.Stdout, &l.uid, &l.began, &l.ended); x.Status != "ok" || n != 3 || err != nil {
		return lived{}, &verdict.Step{Name: name, Class: verdict.Unknown, Detail: fmt.Sprintf("%s, %.80q %.80q", x.Status, x.Stdout, x.Stderr)}
	}
	return l, nil
}

// execute has the service run a program; a step tells why it did not.
func execute(ctx context.Context, env *suite.APIEnv, name, source string) (suite.Execution, *verdict.Step) {
	if env.Execute == nil {
		return suite.Execution{}, &verdict.Step{Name: name, Class: verdict.ToolMissing, Detail: "the target has no execution service"}
	}
	x, err := env.Execute(ctx, suite.Program{Language: "python", Source: source})
	if err != nil {
		return x, &verdict.Step{Name: name, Class: verdict.TransportError, Detail: err.Error()}
	}
	return x, nil
}

// greedy asks for more memory than a Python run may have, and less than its Pod
// may: it is the limit of the run that must say no. calloc's pages are never
// touched, so that the node pays nothing where nobody says no.
const greedy = "x = bytes(384 << 20)\nprint('survived with', len(x))"

// memoryError is a function: what the service says of a run. A wrong word is
// Absent, because the report of a violation is not there.
func memoryError() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.memory-error",
		Title: "Have a run out of memory reported as one",
		About: "Has the deployed execution service run a Python program that asks for 384 MiB at once, which ends with MemoryError, and one that raises another error: " +
			"the first is a violation of the memory limit, the second is not. The control is a program that does neither.",
		Claims: []string{"PG-09"}, Kind: suite.Function, Severity: suite.Low,
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return []verdict.Step{
				report(ctx, env, "run out of memory", greedy, "memory-limit"),
				report(ctx, env, "raise another error", "raise ValueError('MemoryError')", "error"),
			}
		},
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return []verdict.Step{ordinary(ctx, env)}
		},
		Server:  true,
		Timeout: runTime,
		Mutants: []string{"playground-no-python-limit"},
	}
}

// ordinary is the control of what is asked of the service.
func ordinary(ctx context.Context, env *suite.APIEnv) verdict.Step {
	step := report(ctx, env, "run an ordinary program", "print(sum(range(10)))", "ok")
	step.Expect = ""
	return step
}

func report(ctx context.Context, env *suite.APIEnv, name, source, want string) verdict.Step {
	x, step := execute(ctx, env, name, source)
	if step != nil {
		step.Expect = verdict.MustWork
		return *step
	}
	return judgeReport(name, want, x)
}

// judgeReport is a pure function.
func judgeReport(name, want string, x suite.Execution) verdict.Step {
	step := verdict.Step{Name: name, Expect: verdict.MustWork, OK: x.Status == want,
		Detail: fmt.Sprintf("%s, exit code %d: %.120q", x.Status, x.ExitCode, x.Stdout+x.Stderr)}
	switch {
	case step.OK:
	case x.Status == "time-limit":
		// Slow is not wrong.
		step.Class = verdict.Unknown
	default:
		step.Class = verdict.Absent
		step.Detail = "it should be " + want + ", and is " + step.Detail
	}
	return step
}
