// SPDX-License-Identifier: Apache-2.0

// Package kodegopher attacks kode-gopher, a server that has strangers' Go
// programs built and run in a sandbox for each session: from inside of a
// sandbox, and from the Pods around it.
//
// What its text shares with the other systems (the kernel, tokens, the metadata
// server, private ranges) is attacked by the scenarios of the other families,
// which name its claims too. Here is what differs: a sandbox has a server port,
// it may ask the cluster's DNS, and its way out is public addresses on a cluster
// of one's own and an allow-list of names on a shared one.
//
// Left out, and why:
//   - One Pod's lookup opens an address for all Pods that the same allow-list
//     selects, on the same node. The text promises nothing else: it says that the
//     list works on addresses.
//   - A name with more than one label in front of googleapis.com. Whether the
//     pattern takes it in makes no difference where all such names have the
//     addresses of those that it does.
package kodegopher

import (
	"slices"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// Scenarios returns the family's scenarios.
func Scenarios() []suite.Scenario {
	return slices.Concat(inside(), []suite.Scenario{portPolicy(), egressPolicy(), privatePolicy(), serverPolicy(), serverRights()}, sessions())
}

// inside are the attacks from inside of a sandbox, and on one from another Pod.
func inside() []suite.Scenario {
	return []suite.Scenario{
		runProgram(), serviceLinks(),
		portFromSibling(), portFromStranger(), portFromImpostor(),
		otherPods(), privateInIPv6(), dnsTunnel(), publicData(),
		allowedHost(), unlistedHost(), otherPort(), sharedFrontEnd(), perimeter(),
	}
}

// dropped is what a policy's denial looks like from inside. A refusal or a reset
// comes from somebody beyond the policy, and is none.
var dropped = []verdict.Class{verdict.Dropped}

// disclosed marks steps as what the text itself says can be done.
func disclosed(steps []verdict.Step) []verdict.Step {
	for i := range steps {
		steps[i].Expect = verdict.Disclosed
	}
	return steps
}

// marked is a name in a zone of the attacker's, with the nonce in it.
func marked(env *probe.Env) string {
	if env.Site.Tunnel == "" {
		return ""
	}
	return env.Nonce + "." + env.Site.Tunnel
}
