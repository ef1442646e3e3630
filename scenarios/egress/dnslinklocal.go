// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// dnsLinkLocal asks at two addresses of GKE: the metadata server is the resolver
// of clusters with Cloud DNS, and NodeLocal DNSCache listens on the other. Only
// Dropped is accepted.
func dnsLinkLocal() suite.Scenario {
	return suite.Scenario{
		ID:    "egress.dns-link-local",
		Title: "Ask the resolvers on link-local addresses",
		About: "Asks the metadata server's resolver and the node's DNS cache. A policy that opens one of them for names opens, on the same address, " +
			"the way to the metadata server, and a cache on the node forwards to the whole world.",
		Claims: []string{"AS-03", "AS-06"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1071.004"},
		Refs: []string{
			"https://cloud.google.com/kubernetes-engine/docs/how-to/cloud-dns", "https://kubernetes.io/docs/tasks/administer-cluster/nodelocaldns/",
		},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			return probe.Together(askEach(ctx, env, env.Site.LinkLocalDNS)...)
		},
		Control:   suite.ControlSpec{Why: "a Pod without a policy is answered at both addresses"},
		Accept:    dropped,
		Witnesses: suite.NothingOut(func(s probe.Site) []string { return eitherWay(s.LinkLocalDNS...) }),
		Attempts:  2,
		Mutants:   []string{"network-unmanaged", "egress-open", "egress-udp-hole", "egress-metadata-hole", "egress-node-cache-hole"},
	}
}

// askEach asks resolvers over UDP and over TCP.
func askEach(ctx context.Context, env *probe.Env, servers []string) []func() verdict.Step {
	var acts []func() verdict.Step
	for _, server := range servers {
		for _, network := range []string{"udp", "tcp"} {
			acts = append(acts, func() verdict.Step {
				return probe.ReachDNS(ctx, "ask "+server+" over "+network, network, server, tunnelName(env))
			})
		}
	}
	if len(acts) == 0 {
		acts = append(acts, func() verdict.Step { return probe.NoSite("ask", "resolver at a link-local address") })
	}
	return acts
}
