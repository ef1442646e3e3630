// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// tcpPublic tries many ports, because policies open single ones. Only Dropped is
// accepted: there is no machine at the address but the range, which refuses
// nothing, so a refusal comes from something in between.
func tcpPublic() suite.Scenario {
	return suite.Scenario{
		ID:    "egress.tcp-public",
		Title: "Connect to a public address over TCP",
		About: "Connects to a public address on the ports that policies and firewalls like to open, and sends a mark. " +
			"A connection is a breach even when nothing is answered.",
		Claims: []string{"AS-06", "KG-05"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1048", "T1041"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/services-networking/network-policies/"},
		Attack:     connectPorts,
		Control:    suite.ControlSpec{Why: "a Pod without a policy is answered on every port"},
		Accept:     dropped,
		Witnesses:  suite.NothingOut(func(s probe.Site) []string { return ports(s.PublicTCP, opened...) }),
		Attempts:   2,
		Mutants:    []string{"network-unmanaged", "egress-open", "egress-public-open", "egress-https-hole", "kode-gopher-shared-public-open", "kode-gopher-shared-network-open"},
	}
}

// opened are web, mail, shell, and one that nobody uses.
var opened = []string{"22", "25", "80", "443", "31337"}

func connectPorts(ctx context.Context, env *probe.Env) []verdict.Step {
	return probe.ReachAllTCP(ctx, env, ports(env.Site.PublicTCP, opened...))
}
