// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
	"github.com/stockade-dev/stockade/scenarios/reading"
)

// egressPolicy accepts Absent alone: the rule that would let something out is not
// there. Where gVisor's network is off no packet meets the policy, and an opened
// one would not be noticed until the day on which it is the only wall. Policies
// add up: what one of them allows, no other denies.
func egressPolicy() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.egress-policy",
		Title: "Find a network policy that lets a run out",
		About: "Reads the network policies of the playground: one has to select every Pod and allow no egress, and no other may allow any to a run. " +
			"Where there is one of another kind (Cilium's own, GKE's of host names, an administrator's), of the namespace or of the whole cluster, nothing is concluded. " +
			"The control finds, by the same reading, the rule that lets callers in to the execution service.",
		Claims: []string{"PG-03"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1562.007"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/services-networking/network-policies/#default-deny-all-egress-traffic"},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return readPolicies(ctx, env, reading.Egress, "find the runs without a policy on what they send", "find a policy that lets a run out")
		},
		AskControl: findServicePolicy,
		Accept:     []verdict.Class{verdict.Absent},
		Timeout:    30 * time.Second,
		Mutants:    []string{"playground-egress-policy-open", "playground-policy-no-egress", "playground-policy-some-pods"},
	}
}

// ingressPolicy is the same for what comes in. playground.default-deny-ingress
// knocks from one Pod of one namespace, and a rule for others lets it stand there
// all the same.
func ingressPolicy() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.ingress-policy",
		Title: "Find a network policy that lets somebody in to a run",
		About: "Reads the network policies of the playground: one has to select every Pod and allow no ingress, and no other may allow any to a run, be it from another run alone. " +
			"Where there is one of another kind that speaks of ingress, of the namespace or of the whole cluster, nothing is concluded. " +
			"The control finds, by the same reading, the rule that lets callers in to the execution service.",
		Claims: []string{"PG-03"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1562.007"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/services-networking/network-policies/#default-deny-all-ingress-traffic"},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return readPolicies(ctx, env, reading.Ingress, "find the runs without a policy on what comes in", "find a policy that lets somebody in")
		},
		AskControl: findServicePolicy,
		Accept:     []verdict.Class{verdict.Absent},
		Timeout:    30 * time.Second,
		Mutants:    []string{"playground-ingress-runs", "playground-policy-some-pods"},
	}
}

func readPolicies(ctx context.Context, env *suite.APIEnv, d reading.Direction, none, more string) []verdict.Step {
	policies, step := reading.Items(ctx, env, more, reading.PoliciesOf(env.Namespace))
	if step != nil {
		return []verdict.Step{*step}
	}
	labels := manifest.Map(env.Pod(), "metadata", "labels")
	steps := []verdict.Step{reading.DefaultDeny(none, d, policies, nil), reading.AllowsNothing(more, d, policies, labels)}
	return append(steps, reading.Others(ctx, env, d)...)
}

func findServicePolicy(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	const name = "find the policy that lets callers in to the service"
	var all []object
	for _, ns := range env.Components {
		policies, step := reading.Items(ctx, env, name, reading.PoliciesOf(ns))
		if step != nil {
			return []verdict.Step{*step}
		}
		all = append(all, policies...)
	}
	return []verdict.Step{reading.AllowsSomething(name, reading.Ingress, all)}
}
