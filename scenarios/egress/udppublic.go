// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"net"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// udpPublic is there because policies that list TCP ports say nothing of UDP,
// and QUIC carries the web on it. Only Dropped is accepted: Refused would be an
// ICMP answer to a datagram that got out.
func udpPublic() suite.Scenario {
	return suite.Scenario{
		ID:    "egress.udp-public",
		Title: "Send datagrams to a public address",
		About: "Sends marked datagrams to a public address, one of them the opening of a QUIC connection on port 443, and waits for an answer. " +
			"What got out without being answered, the range's log shows.",
		Claims: []string{"AS-06", "KG-05"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1048"},
		Refs:       []string{"https://www.rfc-editor.org/rfc/rfc9000#section-6.1"},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			host, _, err := net.SplitHostPort(env.Site.PublicUDP)
			if err != nil {
				return []verdict.Step{probe.NoSite("send", "public UDP address")}
			}
			return probe.Together(
				func() verdict.Step {
					return probe.ReachUDP(ctx, env, "send to "+env.Site.PublicUDP, env.Site.PublicUDP, probe.Payload(env))
				},
				func() verdict.Step {
					addr := net.JoinHostPort(host, "443")
					return probe.ReachUDP(ctx, env, "open QUIC to "+addr, addr, probe.QUICInitial(env))
				})
		},
		Control:   suite.ControlSpec{Why: "a Pod without a policy gets its datagrams answered"},
		Accept:    dropped,
		Witnesses: suite.NothingOut(func(s probe.Site) []string { return over("udp", ports(s.PublicUDP, "443")...) }),
		Attempts:  2,
		Mutants:   []string{"network-unmanaged", "egress-open", "egress-public-open", "egress-udp-hole", "kode-gopher-shared-public-open", "kode-gopher-shared-network-open"},
	}
}
