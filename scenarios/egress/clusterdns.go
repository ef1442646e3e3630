// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// clusterDNS accepts Dropped alone. The range can witness it because the
// cluster's DNS forwards foreign names there; in the flow log the drop stands
// under the address of a DNS Pod, since the policy is asked after the service's
// address was translated.
func clusterDNS() suite.Scenario {
	return suite.Scenario{
		ID:    "egress.cluster-dns",
		Title: "Ask the cluster's DNS for its services",
		About: "Asks the cluster's DNS for the API server's name, over UDP and TCP, and for a name outside. " +
			"Who may ask it can list the cluster's services by name, and be heard outside.",
		Claims: []string{"AS-06"}, Kind: suite.Guarantee, Severity: suite.Medium,
		Techniques: []string{"T1613", "T1046"},
		Refs:       []string{"https://github.com/kubernetes/dns/blob/master/docs/specification.md"},
		Attack:     askCluster,
		Control:    suite.ControlSpec{Why: "a Pod without a policy is answered by the cluster's DNS"},
		Accept:     dropped,
		Witnesses:  suite.NothingOut(func(s probe.Site) []string { return eitherWay(s.ClusterDNS) }),
		Attempts:   2,
		Mutants:    []string{"network-unmanaged", "egress-open", "egress-dns-hole", "egress-dns-tcp-hole", "egress-udp-hole"},
	}
}

func askCluster(ctx context.Context, env *probe.Env) []verdict.Step {
	const api = "kubernetes.default.svc.cluster.local."
	dns := env.Site.ClusterDNS
	return probe.Together(
		func() verdict.Step { return probe.ReachDNS(ctx, "ask over UDP for "+api, "udp", dns, api) },
		func() verdict.Step { return probe.ReachDNS(ctx, "ask over TCP for "+api, "tcp", dns, api) },
		func() verdict.Step {
			return probe.ReachDNS(ctx, "ask over UDP for a name outside", "udp", dns, tunnelName(env))
		})
}
