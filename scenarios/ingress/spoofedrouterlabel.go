// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// spoofedRouterLabel knocks with the label of the router. The sandbox's server
// runs code for whoever connects. The control Pods carry the router's label in a
// namespace that is not the router's: a policy that lets in any Pod at all lets
// in this one, and so does one that forgets the namespace. One attack covers
// both.
//
// Only Dropped is accepted: the listener is there, so a refusal would mean that
// the packet arrived at a sandbox without one, and proved nothing.
func spoofedRouterLabel() suite.Scenario {
	return suite.Scenario{
		ID:     "ingress.spoofed-router-label",
		Title:  "Reach a sandbox as a router of the wrong namespace",
		About:  "From a Pod that has no policy of its own, and the Sandbox Router's label in a namespace that anybody may have, connects to a listener in the sandbox.",
		Claims: []string{"AS-04"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1609", "T1021", "T1036"},
		Refs:       []string{"https://github.com/kubernetes-sigs/agent-sandbox"},
		From:       suite.Control,
		Attack:     knock,
		Control:    suite.ControlSpec{At: suite.Router, Why: "the router, whom the policy names, reaches the same listener"},
		Accept:     []verdict.Class{verdict.Dropped},
		Witnesses: []suite.Witness{{Name: suite.Flows, Flow: &suite.Flow{
			From: suite.Control, To: own,
		}}},
		Attempts: 2,
		Listener: true,
		Mutants:  []string{"network-unmanaged", "ingress-open", "ingress-router-any-namespace"},
	}
}
