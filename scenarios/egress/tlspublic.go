// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// tlsPublic is a scenario of its own because 443 is the port that is opened
// first, and because data leaves by the server name already, before any
// certificate is looked at. Only Dropped is accepted; a handshake that fails has
// had its connection, and is a breach.
func tlsPublic() suite.Scenario {
	return suite.Scenario{
		ID:     "egress.tls-public",
		Title:  "Send data out in a TLS server name",
		About:  "Connects to a public web server and puts a mark into the server name, the one part of TLS that everybody on the way can read and nobody checks.",
		Claims: []string{"AS-06", "KG-05"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1048.002", "T1071.001"},
		Refs:       []string{"https://www.rfc-editor.org/rfc/rfc6066#section-3"},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			return probe.Together(func() verdict.Step {
				return probe.ReachTLS(ctx, env, "connect with a marked server name", env.Site.PublicTLS, env.Nonce+".stockade.test")
			})
		},
		Control:   suite.ControlSpec{Why: "a Pod without a policy completes the handshake"},
		Accept:    dropped,
		Witnesses: suite.NothingOut(func(s probe.Site) []string { return []string{s.PublicTLS} }),
		Attempts:  2,
		Mutants:   []string{"network-unmanaged", "egress-open", "egress-public-open", "egress-https-hole", "kode-gopher-shared-public-open", "kode-gopher-shared-network-open"},
	}
}
