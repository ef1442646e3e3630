// SPDX-License-Identifier: Apache-2.0

package ingress

import "github.com/stockade-dev/stockade/conformance/suite"

// The claim speaks of the policy that the controller writes when a template has
// none. The reference has one of its own, which says the same of who gets in;
// so each attack is made once more on the template without a policy.

func defaultPolicySpoofedLabel() suite.Scenario {
	return underDefaultPolicy(spoofedRouterLabel(), "ingress.default-policy-spoofed-label")
}

func defaultPolicySibling() suite.Scenario {
	return underDefaultPolicy(siblingSession(), "ingress.default-policy-sibling")
}

// underDefaultPolicy keeps the mutants: what the controller writes has no field
// to weaken, and they show that the attack notices a policy that lets it in, or
// that there is none.
func underDefaultPolicy(s suite.Scenario, id string) suite.Scenario {
	s.About = "As `" + s.ID + "`, under the policy that the controller writes when a template has none. " + s.About +
		" No field of that policy can be weakened: the mutants are templates whose own policy, or none, lets the same attack in."
	s.ID, s.Title, s.Target = id, s.Title+", under the default policy", "seed"
	return s
}
