// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"net/netip"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// metadataIPv6 (CR-05) is a scenario of its own because a cluster without IPv6
// has no such door: there it does not apply, and must not make the other
// aliases doubtful.
//
// Dropped is the policy's denial. Unreachable is accepted beside it: where the
// control got through, a sandbox that was given no IPv6 route was denied by
// that, and a route is nothing that code without CAP_NET_ADMIN can add. No flow
// is demanded: flows are looked for by the Pod's primary address, which on most
// dual-stack clusters is the IPv4 one.
func metadataIPv6() suite.Scenario {
	return suite.Scenario{
		ID:    "credentials.metadata-ipv6",
		Title: "Reach the metadata server over IPv6",
		About: "Asks the metadata server at its IPv6 address, fd20:ce::254, which a policy that speaks of 169.254.0.0/16 does not cover. " +
			"The default policy excepts fc00::/7, in which it lies.",
		Claims: []string{"AS-03"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1552.005"},
		Refs:       []string{"https://cloud.google.com/compute/docs/metadata/querying-metadata"},
		Needs:      []suite.Feature{suite.IPv6},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			var acts []func() verdict.Step
			for _, addr := range v6(env.Site) {
				acts = append(acts, door(ctx, env, addr))
			}
			return probe.Together(acts...)
		},
		Control:   suite.ControlSpec{Why: "a Pod without a policy is handed a token over IPv6"},
		Accept:    []verdict.Class{verdict.Dropped, verdict.Unreachable},
		Witnesses: []suite.Witness{{Name: suite.RangeLog}},
		Attempts:  2,
		Mutants:   []string{"egress-ipv6-hole"},
	}
}

func v6(s probe.Site) []string {
	return family(s.MetadataAlso, func(a netip.Addr) bool { return a.Is6() && !a.Is4In6() })
}
