// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// icmp sends echo requests, which carry whatever bytes one likes. Dropped is the
// policy's denial of a ping socket's packet; Permission is the kernel's, of a
// raw socket without CAP_NET_RAW or of a ping socket outside of
// ping_group_range. Unsupported is how a kernel without ping sockets says so.
// Where both sockets are refused no packet leaves, and the policy was not tried:
// the flow log has no drop then, and the verdict is Inconclusive.
func icmp() suite.Scenario {
	return suite.Scenario{
		ID:     "egress.icmp",
		Title:  "Carry data out in echo requests",
		About:  "Sends ICMP echo requests with a mark in them, by a ping socket, which needs no privilege, and by a raw socket, which does.",
		Claims: []string{"AS-06", "KG-05"}, Kind: suite.Guarantee, Severity: suite.Medium,
		Techniques: []string{"T1095"},
		Refs:       []string{"https://www.rfc-editor.org/rfc/rfc792"},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			return probe.Together(
				func() verdict.Step { return probe.Ping(ctx, env, "ping by a ping socket", env.Site.PublicICMP, false) },
				func() verdict.Step { return probe.Ping(ctx, env, "ping by a raw socket", env.Site.PublicICMP, true) })
		},
		Control: suite.ControlSpec{
			// A privileged Pod may ping by a raw socket whatever ping_group_range
			// says, so the control does not depend on that.
			Act: func(ctx context.Context, env *probe.Env) []verdict.Step {
				return probe.Together(func() verdict.Step { return probe.Ping(ctx, env, "ping", env.Site.PublicICMP, true) })
			},
			Why: "a Pod without a policy gets its pings answered",
		},
		Accept:    []verdict.Class{verdict.Dropped, verdict.Permission, verdict.Unsupported},
		Witnesses: suite.NothingOut(func(s probe.Site) []string { return over("icmp", s.PublicICMP) }),
		Attempts:  2,
		Mutants:   []string{"network-unmanaged", "egress-open", "egress-public-open", "egress-icmp-hole", "kode-gopher-shared-public-open", "kode-gopher-shared-network-open"},
	}
}
