// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"encoding/hex"
	"net"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// dnsForeignResolver accepts Dropped alone: an answer of any kind, "no such
// name" and "refused" included, is a packet there and back.
func dnsForeignResolver() suite.Scenario {
	return suite.Scenario{
		ID:    "egress.dns-foreign-resolver",
		Title: "Ask a resolver outside of the cluster",
		About: "Asks a public resolver in the four ways that resolvers understand: UDP, TCP, TLS (DoT) and HTTPS (DoH). " +
			"The Agent Sandbox controller's default writes public resolvers into the sandbox's resolv.conf, so this door is one that sandboxes really have.",
		Claims: []string{"AS-06", "KG-05"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1071.004", "T1572"},
		Refs:       []string{"https://www.rfc-editor.org/rfc/rfc7858", "https://www.rfc-editor.org/rfc/rfc8484"},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			host, _, err := net.SplitHostPort(env.Site.PublicDNS)
			if err != nil {
				return []verdict.Step{probe.NoSite("ask", "public resolver")}
			}
			name := tunnelName(env)
			return probe.Together(
				func() verdict.Step { return probe.ReachDNS(ctx, "ask over UDP", "udp", env.Site.PublicDNS, name) },
				func() verdict.Step { return probe.ReachDNS(ctx, "ask over TCP", "tcp", env.Site.PublicDNS, name) },
				func() verdict.Step {
					return probe.ReachDNS(ctx, "ask over TLS", "tls", net.JoinHostPort(host, "853"), name)
				},
				func() verdict.Step {
					return probe.ReachTLS(ctx, env, "ask over HTTPS", net.JoinHostPort(host, "443"), "dns.google")
				})
		},
		Control: suite.ControlSpec{Why: "a Pod without a policy is answered in all four ways"},
		Accept:  dropped,
		Witnesses: suite.NothingOut(func(s probe.Site) []string {
			return append(over("udp", s.PublicDNS), ports(s.PublicDNS, "853", "443")...)
		}),
		Attempts: 2,
		Mutants:  []string{"network-unmanaged", "egress-open", "egress-public-open", "egress-udp-hole", "kode-gopher-shared-public-open", "kode-gopher-shared-network-open"},
	}
}

// tunnelName is how data goes out in a question: in labels, beside a word that
// makes the name new to every cache.
func tunnelName(env *probe.Env) string {
	half := len(env.Nonce) / 2
	return env.Nonce[:half] + "." + env.Nonce[half:] + "." + hex.EncodeToString([]byte("data")) + "." + env.Site.Tunnel
}
