// SPDX-License-Identifier: Apache-2.0

package credentials

import "github.com/stockade-dev/stockade/conformance/suite"

// The claim speaks of the policy that the controller writes when a template has
// none; the reference has one of its own, which lets nothing out. So the server
// is asked for once more on the template without a policy: by its address, and
// by the one of IPv6, for which that policy has an exception of its own.
//
// The rest of 169.254.0.0/16 is tried by egress.default-policy-private. By name it
// is not asked for: the public resolvers are open there, as the text says.

func defaultPolicyMetadata() suite.Scenario {
	return underDefaultPolicy(metadataToken(), "credentials.default-policy-metadata", "network-unmanaged", "egress-metadata-hole")
}

func defaultPolicyMetadataIPv6() suite.Scenario {
	return underDefaultPolicy(metadataIPv6(), "credentials.default-policy-metadata-ipv6", "egress-ipv6-hole")
}

// underDefaultPolicy takes other mutants: what the controller writes has no
// field to weaken. They show that the attack notices a policy that lets it out,
// or that there is none. No other system's text speaks of that policy.
func underDefaultPolicy(s suite.Scenario, id string, mutants ...string) suite.Scenario {
	s.About = "As `" + s.ID + "`, under the policy that the controller writes when a template has none. " + s.About +
		" No field of that policy can be weakened: the mutants are templates whose own policy, or none, lets the same attack out."
	s.ID, s.Title, s.Target, s.Mutants, s.Claims = id, s.Title+", under the default policy", "seed", mutants, []string{"AS-03"}
	return s
}
