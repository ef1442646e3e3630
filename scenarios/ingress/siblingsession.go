// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// siblingSession is egress.sibling-sandbox seen from the victim. The sibling's
// egress and this sandbox's ingress both stand in the way, by one policy object;
// so only a mutant without that object lets it through. Only Dropped is
// accepted.
func siblingSession() suite.Scenario {
	return suite.Scenario{
		ID:     "ingress.sibling-session",
		Title:  "Reach a sandbox from another session's",
		About:  "From a second sandbox of the same template, which the policy might take for one of its own, connects to a listener in this one.",
		Claims: []string{"AS-04"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1021"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/services-networking/network-policies/#the-two-sorts-of-pod-isolation"},
		From:       suite.Sibling,
		Attack:     knock,
		Control:    suite.ControlSpec{At: suite.Router, Why: "the router, whom the policy names, reaches the same listener"},
		Accept:     []verdict.Class{verdict.Dropped},
		Witnesses: []suite.Witness{{Name: suite.Flows, Flow: &suite.Flow{
			From: suite.Sibling, To: own,
		}}},
		Attempts: 2,
		Listener: true,
		Mutants:  []string{"network-unmanaged"},
	}
}
