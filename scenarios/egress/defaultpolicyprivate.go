// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"github.com/stockade-dev/stockade/conformance/suite"
)

// defaultPolicyPrivate is AS-05's guaranteed half by itself, so that the range
// can be a witness: nothing of this attempt may arrive there. Of AS-03 it is what
// 169.254.169.254 does not stand for: an exception for that address alone leaves
// the ways around it open. Only Dropped is accepted.
func defaultPolicyPrivate() suite.Scenario {
	return suite.Scenario{
		ID:    "egress.default-policy-private",
		Title: "Reach the cluster's inside under the default policy",
		About: "Under the policy that the controller writes when a template has none, tries RFC 1918 addresses over TCP and UDP, the cluster's DNS over both, the API server, " +
			"the metadata server with its other port and the address that GKE rewrites it to, and the resolvers at link-local addresses.",
		Claims: []string{"AS-03", "AS-05"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1046", "T1552.005"},
		Refs:       []string{"https://github.com/kubernetes-sigs/agent-sandbox"},
		Target:     "seed",
		Attack:     reachPrivate,
		Control:    suite.ControlSpec{Why: "a Pod without a policy reaches every one of these places"},
		Accept:     dropped,
		Witnesses:  suite.NothingOut(privatePlaces),
		Attempts:   2,
		Mutants:    privateMutants,
	}
}
