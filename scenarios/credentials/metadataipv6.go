// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// metadataIPv6 is a scenario of its own because a cluster without IPv6 has no
// such door: there it does not apply, and must not make the other aliases
// doubtful.
//
// Only Dropped is accepted. A sandbox whose own stack says that it has no route
// sends nothing, so that no policy was tried and no witness can confirm it; a
// Pod with an IPv6 address, which is what the feature means, has a route.
func metadataIPv6() suite.Scenario {
	return suite.Scenario{
		ID:    "credentials.metadata-ipv6",
		Title: "Reach the metadata server over IPv6",
		About: "Asks the metadata server at its IPv6 address, fd20:ce::254, which a policy that speaks of 169.254.0.0/16 does not cover. " +
			"The default policy excepts fc00::/7, in which it lies.",
		Claims: []string{"AS-03", "KG-07"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1552.005"},
		Refs:       []string{"https://cloud.google.com/compute/docs/metadata/querying-metadata"},
		Needs:      []suite.Feature{suite.IPv6},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			var acts []func() verdict.Step
			for _, addr := range env.Site.MetadataIPv6() {
				acts = append(acts, door(ctx, env, addr))
			}
			return probe.Together(acts...)
		},
		Control:   suite.ControlSpec{Why: "a Pod without a policy is handed a token over IPv6"},
		Accept:    []verdict.Class{verdict.Dropped},
		Witnesses: suite.NothingOut(probe.Site.MetadataIPv6),
		Attempts:  2,
		Mutants:   []string{"egress-ipv6-hole", "kode-gopher-ipv6-exceptions"},
	}
}
