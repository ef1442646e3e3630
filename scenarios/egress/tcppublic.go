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
		Witnesses:  both(func(s probe.Site) []string { return ports(s.PublicTCP, opened...) }),
		Attempts:   2,
		Mutants:    []string{"network-unmanaged", "egress-open", "egress-public-open", "egress-https-hole", "kode-gopher-shared-public-open", "kode-gopher-shared-network-open"},
	}
}

// opened are web, mail, shell, and one that nobody uses.
var opened = []string{"22", "25", "80", "443", "31337"}

func connectPorts(ctx context.Context, env *probe.Env) []verdict.Step {
	addrs := ports(env.Site.PublicTCP, opened...)
	if len(addrs) == 0 {
		return []verdict.Step{probe.NoSite("connect", "public TCP address")}
	}
	return connectAll(ctx, env, addrs)
}

// connectAll connects to all addresses at once.
func connectAll(ctx context.Context, env *probe.Env, addrs []string) []verdict.Step {
	acts := make([]func() verdict.Step, 0, len(addrs))
	for _, a := range addrs {
		acts = append(acts, func() verdict.Step { return probe.ReachTCP(ctx, env, "connect to "+a, a) })
	}
	return probe.Together(acts...)
}
