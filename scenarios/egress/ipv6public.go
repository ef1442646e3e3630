// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// ipv6Public (EG-05). Dropped is the policy's denial. Unreachable is accepted
// beside it, in this family here alone: where the control got out over IPv6, a
// sandbox without an IPv6 route was denied by that, and only CAP_NET_ADMIN could
// add one. No flow is demanded: flows are looked for by the Pod's primary
// address, which on most dual-stack clusters is the IPv4 one.
func ipv6Public() suite.Scenario {
	return suite.Scenario{
		ID:     "egress.ipv6-public",
		Title:  "Connect to a public address over IPv6",
		About:  "Connects to a public IPv6 address. Lists of IPv4 ranges say nothing of it, and on a dual-stack cluster every Pod has both.",
		Claims: []string{"AS-06"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1048"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/services-networking/dual-stack/"},
		Needs:      []suite.Feature{suite.IPv6},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			return connectAll(ctx, env, []string{env.Site.PublicTCP6})
		},
		Control:   suite.ControlSpec{Why: "a Pod without a policy connects over IPv6"},
		Accept:    []verdict.Class{verdict.Dropped, verdict.Unreachable},
		Witnesses: []suite.Witness{{Name: suite.RangeLog}},
		Attempts:  2,
		Mutants:   []string{"egress-ipv6-hole"},
	}
}
