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

// byDefault are the ranges that the text says the default policy blocks. Of others that
// are not public either, it says nothing.
var byDefault = reading.Prefixes("10.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fe80::/10")

// defaultEgressPolicy accepts Absent alone. Packets are sent to one address or two of
// each range, and an exception for a part of it has them dropped all the same.
func defaultEgressPolicy() suite.Scenario {
	return suite.Scenario{
		ID:    "sandbox.default-egress-policy",
		Title: "Find a default policy that lets a sandbox out to private addresses",
		About: "Reads the network policies that select a running sandbox of a template that has none of its own, Cilium's among them: one has to speak of what it sends, and all of them together may lead to public " +
			"addresses and names alone, which are those outside of RFC 1918's ranges, of the link-local ones and of IPv6's unique local ones. " +
			"Of Pods by their labels, of policies of other kinds, and of what is not understood, nothing is concluded. No field of that policy can be weakened: the mutant is a template whose own policy lets more out. " +
			"The control finds, by the same reading, a policy that lets something out.",
		Claims: []string{"AS-03", "AS-05"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1562.007", "T1046", "T1552.005"},
		Refs:       []string{"https://github.com/kubernetes-sigs/agent-sandbox", "https://www.rfc-editor.org/rfc/rfc1918"},
		Target:     "seed",
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return reading.NowhereElse(ctx, env, reading.Outlets{Public: true, Private: byDefault})
		},
		AskControl: reading.SomethingLetOut,
		Live:       true,
		Accept:     []verdict.Class{verdict.Absent},
		Timeout:    30 * time.Second,
		Mutants:    []string{"egress-half-a-range"},
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
