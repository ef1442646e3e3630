// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/reading"
)

// servicePolicy accepts Absent alone. playground.service-from-stranger knocks from
// one Pod of one namespace, and a rule for others lets it stand there all the same.
func servicePolicy() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.service-policy",
		Title: "Find a network policy that lets others in to the execution service",
		About: "Reads the network policies that select the Pods of the execution service: each has to have one on what comes in, and all of them together may let in the front end alone, at the " +
			"port where runs are asked for. The suite's own Pods play the front end, so that it is their namespace. The service asks nobody who they are: whoever reaches it has programs run, " +
			"and takes the room of others. Of policies of other kinds that speak of ingress nothing is concluded. The control finds, by the same reading, the rule that lets the front end in.",
		Claims: []string{"PG-03"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1562.007", "T1210"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/services-networking/network-policies/#behavior-of-to-and-from-selectors"},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			if len(env.Components) == 0 {
				return []verdict.Step{{Name: "find the execution service", Class: verdict.ToolMissing, Detail: "the target has none"}}
			}
			frontEnd := []reading.Outlet{{Peer: reading.Peer{Namespace: env.Controls}, Ports: []string{"8080/TCP"}}}
			var steps []verdict.Step
			for _, ns := range env.Components {
				steps = append(steps, reading.CallersOnlyIn(ctx, env, ns, "app", map[string][]reading.Outlet{"execution": frontEnd})...)
			}
			return steps
		},
		AskControl: findServicePolicy,
		Accept:     []verdict.Class{verdict.Absent},
		Timeout:    30 * time.Second,
		Mutants:    []string{"playground-execution-runs", "playground-execution-unselected"},
	}
}

// serviceFromStranger accepts Dropped alone: the service listens there, as the
// control shows in the same window, so that a refusal would be another's. Its policy
// looks at what comes in, so that the drop is seen on its own node.
func serviceFromStranger() suite.Scenario {
	dropped := suite.PolicyDrop(func(s probe.Site) []string { return []string{s.Server} })
	dropped.Flow.Servers = true
	return suite.Scenario{
		ID:     "playground.service-from-stranger",
		Title:  "Have a program run from any Pod",
		About:  "From a Pod that no policy holds back, in a namespace that is not the front end's, connects to the execution service, which runs a program for whoever asks.",
		Claims: []string{"PG-03"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1046", "T1210"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/services-networking/network-policies/"},
		From:       suite.ClientPod,
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			return probe.Together(func() verdict.Step {
				return probe.ReachTCP(ctx, env, "connect to the execution service", env.Site.Server)
			})
		},
		Control: suite.ControlSpec{Act: func(ctx context.Context, env *probe.Env) []verdict.Step {
			return probe.Together(func() verdict.Step { return probe.AskServer(ctx, "call the execution service", env.Site.Server) })
		}, Why: "a Pod of the front end's namespace is answered by the service in the same window"},
		Accept:    []verdict.Class{verdict.Dropped},
		Witnesses: []suite.Witness{dropped},
		Attempts:  2,
		Mutants:   []string{"playground-execution-unselected"},
	}
}
