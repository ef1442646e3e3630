// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// dnsTunnel takes the way out that is forgotten: a resolver that the sandbox may
// ask carries its questions to whoever owns the zone. The attacker's aim is that
// the question arrives there, so any answer about the attacker's own zone is
// success. Only Dropped is accepted: with no egress at all there is no resolver
// to say no. The range's log, as the zone's name server, decides.
func dnsTunnel() suite.Scenario {
	return suite.Scenario{
		ID:    "egress.dns-tunnel",
		Title: "Tunnel data through the resolvers at hand",
		About: "Puts a mark into the labels of a name in a zone of the attacker's, and asks every resolver of `/etc/resolv.conf` and the cluster's DNS for it. " +
			"A policy that allows DNS to the cluster's own resolver allows this.",
		Claims: []string{"AS-06"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1071.004", "T1048.003"},
		Refs:       []string{"https://attack.mitre.org/techniques/T1071/004/"},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			if env.Site.Tunnel == "" {
				return []verdict.Step{probe.NoSite("ask", "zone of the attacker's")}
			}
			var acts []func() verdict.Step
			asked := map[string]bool{}
			for _, server := range append(probe.Resolvers("/etc/resolv.conf"), env.Site.ClusterDNS) {
				if server == "" || asked[server] {
					continue
				}
				asked[server] = true
				acts = append(acts,
					func() verdict.Step {
						return probe.ReachDNS(ctx, "ask "+server+" over UDP", "udp", server, tunnelName(env))
					},
					func() verdict.Step {
						return probe.ReachDNS(ctx, "ask "+server+" over TCP", "tcp", server, tunnelName(env))
					})
			}
			return probe.Together(acts...)
		},
		Control: suite.ControlSpec{Why: "a Pod without a policy gets its question to the zone's name server through the same resolvers"},
		Accept:  dropped,
		// Which resolvers a sandbox has, only the sandbox can read. So that none of
		// them can be left out, no question may get out to any address.
		Witnesses: suite.NothingOut(func(s probe.Site) []string {
			return eitherWay(s.ClusterDNS, "*:53")
		}),
		Attempts: 2,
		Mutants:  []string{"network-unmanaged", "egress-open", "egress-dns-hole", "egress-dns-tcp-hole", "egress-udp-hole"},
	}
}
