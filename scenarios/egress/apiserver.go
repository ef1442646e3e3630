// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"net"
	"os"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// apiServer accepts Dropped alone: a 401 is the API server, reached, and an
// anonymous request is all that many an exploit of it needed.
func apiServer() suite.Scenario {
	return suite.Scenario{
		ID:    "egress.api-server",
		Title: "Reach the cluster's API server",
		About: "Connects to the API server by the service address, by the address that the kubelet writes into every environment, and directly by its node's. " +
			"Policies see the address after translation, so the service's address in a rule blocks nothing.",
		Claims: []string{"AS-06", "KG-03", "KG-07"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1613", "T1552.007"},
		Refs:       []string{"https://kubernetes.io/docs/reference/access-authn-authz/authentication/#anonymous-requests"},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			addrs := []string{env.Site.APIServer, env.Site.APIDirect}
			if h := os.Getenv("KUBERNETES_SERVICE_HOST"); h != "" {
				// The port is not always set, and 443 when it is.
				if a := net.JoinHostPort(h, "443"); a != env.Site.APIServer {
					addrs = append(addrs, a)
				}
			}
			acts := make([]func() verdict.Step, 0, len(addrs))
			for _, a := range addrs {
				acts = append(acts, func() verdict.Step {
					return probe.ReachTLS(ctx, env, "connect to "+a, a, "kubernetes.default.svc")
				})
			}
			return probe.Together(acts...)
		},
		Control:   suite.ControlSpec{Why: "a Pod without a policy reaches the API server by the same addresses"},
		Accept:    dropped,
		Witnesses: []suite.Witness{suite.PolicyDrop(func(s probe.Site) []string { return []string{s.APIServer, s.APIDirect} })},
		Attempts:  2,
		Mutants:   []string{"network-unmanaged", "egress-open", "egress-apiserver-entity", "kode-gopher-network-open", "kode-gopher-shared-network-open"},
	}
}
