// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"slices"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// defaultPolicyPublic shows AS-05's admitted half on the text's own template:
// the default policy leaves the public internet open. Getting out there is as
// disclosed; getting into anything private by the same attempt is not, and
// only Dropped is accepted of that. The range must have heard every attempt;
// that the other half was dropped, the flow log must show.
//
// 100.64.0.0/10 and its like are in neither half: the text does not speak of
// them, and the default policy lets them pass (egress.private-ranges has them).
func defaultPolicyPublic() suite.Scenario {
	return suite.Scenario{
		ID:    "egress.default-policy-public",
		Title: "Send data to the internet under the default policy",
		About: "Under the policy that the controller writes when a template has none, sends data to public addresses over TCP, TLS, UDP and DNS, " +
			"which the text discloses, and tries private ranges, link-local addresses, the cluster's DNS and the metadata server, which it says are blocked.",
		Claims: []string{"AS-05"}, Kind: suite.Limit, Severity: suite.Medium,
		Techniques: []string{"T1048", "T1567"},
		Refs:       []string{"https://github.com/kubernetes-sigs/agent-sandbox"},
		Target:     "seed",
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			steps := probe.Together(
				func() verdict.Step { return probe.ReachTCP(ctx, env, "send over TCP", env.Site.PublicTCP) },
				func() verdict.Step {
					return probe.ReachTLS(ctx, env, "send over TLS", env.Site.PublicTLS, env.Nonce+".stockade.test")
				},
				func() verdict.Step {
					return probe.ReachUDP(ctx, env, "send over UDP", env.Site.PublicUDP, probe.Payload(env))
				},
				func() verdict.Step {
					return probe.ReachDNS(ctx, "send over DNS", "udp", env.Site.PublicDNS, tunnelName(env))
				})
			for i := range steps {
				steps[i].Expect = verdict.Disclosed
			}
			return append(steps, reachPrivate(ctx, env)...)
		},
		Control:   suite.ControlSpec{Why: "a Pod without a policy reaches both halves, so what fails is the policy's doing"},
		Accept:    dropped,
		Witnesses: suite.NothingOut(privatePlaces),
		Attempts:  2,
		Mutants:   privateMutants,
	}
}

// privateMutants each let out to other places of [reachPrivate] than the rest.
var privateMutants = []string{"network-unmanaged", "egress-open", "egress-private-hole", "egress-private-udp-hole", "egress-dns-tcp-hole",
	"egress-metadata-dnat-hole", "egress-node-cache-hole"}

// reachPrivate tries what AS-05 says is blocked.
func reachPrivate(ctx context.Context, env *probe.Env) []verdict.Step {
	if len(env.Site.RFC1918) == 0 {
		return []verdict.Step{probe.NoSite("connect", "private address")}
	}
	acts := askEach(ctx, env, env.Site.LinkLocalDNS)
	for _, network := range []string{"udp", "tcp"} {
		acts = append(acts, func() verdict.Step {
			return probe.ReachDNS(ctx, "ask the cluster's DNS over "+network, network, env.Site.ClusterDNS, tunnelName(env))
		})
	}
	for _, a := range append(env.Site.MetadataIPv4(), env.Site.Metadata) {
		acts = append(acts, func() verdict.Step { return probe.ReachMetadata(ctx, env, "ask the metadata server at "+a, a) })
	}
	acts = append(acts, func() verdict.Step { return probe.ReachTCP(ctx, env, "connect to the API server", env.Site.APIServer) })
	for _, a := range env.Site.RFC1918 {
		acts = append(acts,
			func() verdict.Step { return probe.ReachTCP(ctx, env, "connect to "+a, a) },
			func() verdict.Step { return probe.ReachUDP(ctx, env, "send to "+a, a, probe.Payload(env)) })
	}
	return probe.Together(acts...)
}

// privatePlaces are the places of [reachPrivate].
func privatePlaces(s probe.Site) []string {
	return slices.Concat(eitherWay(s.RFC1918...), s.MetadataIPv4(), []string{s.Metadata, s.APIServer}, eitherWay(s.LinkLocalDNS...), eitherWay(s.ClusterDNS))
}
