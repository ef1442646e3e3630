// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// ipv6Public accepts Dropped alone. A sandbox whose own stack says that it has
// no route sends nothing, so that no policy was tried and no witness can confirm
// it; a Pod with an IPv6 address, which is what the feature means, has a route.
func ipv6Public() suite.Scenario {
	return suite.Scenario{
		ID:     "egress.ipv6-public",
		Title:  "Connect to a public address over IPv6",
		About:  "Connects to a public IPv6 address. Lists of IPv4 ranges say nothing of it, and on a dual-stack cluster every Pod has both.",
		Claims: []string{"AS-06", "KG-05"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1048"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/services-networking/dual-stack/"},
		Needs:      []suite.Feature{suite.IPv6},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			return probe.ReachAllTCP(ctx, env, []string{env.Site.PublicTCP6})
		},
		Control:   suite.ControlSpec{Why: "a Pod without a policy connects over IPv6"},
		Accept:    dropped,
		Witnesses: suite.NothingOut(func(s probe.Site) []string { return []string{s.PublicTCP6} }),
		Attempts:  2,
		Mutants:   []string{"egress-ipv6-hole"},
	}
}
