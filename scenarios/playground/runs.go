// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// runTime bounds a scenario with two or three runs, each of which starts a Pod.
const runTime = 120 * time.Second

// ownUID accepts Absent alone: the id that is looked for, another run's, is not
// this run's. The program itself says which id it has; what the Pod declares
// would say nothing of a run that the service starts in another way.
func ownUID() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.own-uid",
		Title: "Run as the user of another run",
		About: "Has the execution service run two programs that print their user id, and compares them with each other and with that of a sandbox that runs at the " +
			"same time. The control is that the first program says which id it has.",
		Claims: []string{"PG-08"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1078"},
		Ask:        compareUIDs,
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			uid, step := printUID(ctx, env, "run a program that prints its user id")
			if step == nil {
				step = &verdict.Step{Name: "run a program that prints its user id", OK: true, Detail: fmt.Sprint(uid)}
			}
			return []verdict.Step{*step}
		},
		Accept:  []verdict.Class{verdict.Absent},
		Timeout: runTime,
		Mutants: []string{"playground-one-uid"},
	}
}

func compareUIDs(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	first, step := printUID(ctx, env, "run a program")
	if step != nil {
		return []verdict.Step{*step}
	}
	second, step := printUID(ctx, env, "run another program")
	if step != nil {
		return []verdict.Step{*step}
	}
	steps := []verdict.Step{judgeUIDs("have the user id of the run before", first, second)}
	live, err := env.API.Get(ctx, "v1", "Pod", env.Live)
	if err != nil || live.Code != 200 {
		return append(steps, verdict.Step{Name: "read the sandbox that runs", Class: verdict.TransportError, Detail: fmt.Sprint(live.Code, err)})
	}
	uid, found := podUID(live.Object)
	if !found {
		return append(steps, verdict.Step{Name: "read the sandbox that runs", Class: verdict.Unknown, Detail: "its Pod does not say as whom it runs"})
	}
	return append(steps, judgeUIDs("have the user id of a sandbox that runs", uid, second))
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

// printUID runs a program that prints its user id. The step is nil when it did.
func printUID(ctx context.Context, env *suite.APIEnv, name string) (int64, *verdict.Step) {
	x, step := execute(ctx, env, name, "import os\nprint(os.getuid())")
	if step != nil {
		return 0, step
	}
	uid, err := strconv.ParseInt(strings.TrimSpace(x.Stdout), 10, 64)
	if x.Status != "ok" || err != nil {
		return 0, &verdict.Step{Name: name, Class: verdict.Unknown, Detail: fmt.Sprintf("%s, %.80q %.80q", x.Status, x.Stdout, x.Stderr)}
	}
	return uid, nil
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
		About: "Has the execution service run a Python program that asks for 384 MiB at once, which ends with MemoryError, and one that raises another error: " +
			"the first is a violation of the memory limit, the second is not. The control is a program that does neither.",
		Claims: []string{"PG-09"}, Kind: suite.Function, Severity: suite.Low,
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return []verdict.Step{
				report(ctx, env, "run out of memory", greedy, "memory-limit"),
				report(ctx, env, "raise another error", "raise ValueError('MemoryError')", "error"),
			}
		},
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			step := report(ctx, env, "run an ordinary program", "print(sum(range(10)))", "ok")
			step.Expect = ""
			return []verdict.Step{step}
		},
		Timeout: runTime,
		Mutants: []string{"playground-no-python-limit"},
	}
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
