// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/reading"
)

// egressPolicy accepts Absent alone: the rule that would let something out is not
// there. Packets are sent to some addresses at some ports, and a hole for another
// lets all of them be dropped all the same.
func egressPolicy() suite.Scenario {
	return suite.Scenario{
		ID:    "sandbox.egress-policy",
		Title: "Find a network policy that lets a sandbox out",
		About: "Reads the network policies that select the running sandbox: one has to speak of what it sends, and none may allow any of it, be it to one address, at one port or by a protocol " +
			"that no attack of the family egress speaks. Where there is a policy of another kind (Cilium's own, GKE's of host names, an administrator's) that speaks of egress, of the namespace " +
			"or of the whole cluster, nothing is concluded. The control finds, by the same reading, the policy that lets the router in.",
		Claims: []string{"AS-06"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1562.007", "T1048"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/services-networking/network-policies/#default-deny-all-egress-traffic"},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			const none, more = "find the sandbox without a policy on what it sends", "find a policy that lets the sandbox out"
			policies, labels, step := reading.Selected(ctx, env, more)
			if step != nil {
				return []verdict.Step{*step}
			}
			steps := []verdict.Step{reading.DefaultDeny(none, reading.Egress, policies, labels), reading.AllowsNothing(more, reading.Egress, policies, labels)}
			return append(steps, reading.Others(ctx, env, reading.Egress)...)
		},
		AskControl: reading.SomebodyLetIn,
		Live:       true,
		Accept:     []verdict.Class{verdict.Absent},
		Timeout:    30 * time.Second,
		Mutants:    []string{"egress-one-address", "network-unmanaged"},
	}
}

// router is whom the text calls the Sandbox Router.
var router = []reading.Outlet{{Peer: reading.Peer{Namespace: "agent-sandbox-system", Label: "app", Value: "sandbox-router"}}}

// ingressPolicy accepts Absent alone. Of the strangers that knock, one is of
// another namespace, and the other may send nothing itself; a Pod of the sandboxes'
// own namespace is neither, and who may make a bare Sandbox has one.
func ingressPolicy() suite.Scenario {
	return suite.Scenario{
		ID:    "sandbox.ingress-policy",
		Title: "Find a network policy that lets others in than the router",
		About: "Reads the network policies that select the running sandbox: one has to speak of what comes in, and all of them together may let in the Sandbox Router alone. " +
			"Everybody, addresses, every Pod of a namespace and other sandboxes are others; of a label that is not the router's, and of policies of other kinds that speak of ingress, " +
			"nothing is concluded. The control finds, by the same reading, the policy that lets the router in.",
		Claims: []string{"AS-04"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1562.007", "T1021"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/services-networking/network-policies/#behavior-of-to-and-from-selectors"},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return reading.NobodyElse(ctx, env, router)
		},
		AskControl: reading.SomebodyLetIn,
		Live:       true,
		Accept:     []verdict.Class{verdict.Absent},
		Timeout:    30 * time.Second,
		Mutants:    []string{"ingress-own-namespace", "network-unmanaged"},
	}
}
