// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// metadataToken accepts Dropped alone, which is how a network policy's denial
// looks: no answer at all. A refusal would come from a machine at that address,
// and so would be a packet that got out; a 403 would be the metadata server
// itself, reached.
func metadataToken() suite.Scenario {
	return suite.Scenario{
		ID:    "credentials.metadata-token",
		Title: "Take the node's token from the metadata server",
		About: "Asks 169.254.169.254 for the default service account's access token, with the header that the server demands. " +
			"A connection is a breach even when no token follows: who can talk to the server can go on asking.",
		Claims: []string{"AS-03", "KG-07"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1552.005"},
		Refs:       []string{"https://cloud.google.com/compute/docs/metadata/overview", "https://cloud.google.com/kubernetes-engine/docs/concepts/workload-identity"},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			return probe.Together(func() verdict.Step {
				return probe.ReachMetadata(ctx, env, "ask for a token", env.Site.Metadata)
			})
		},
		Control:   suite.ControlSpec{Why: "a Pod without a policy is handed a token, so a server is there and its way open"},
		Accept:    []verdict.Class{verdict.Dropped},
		Witnesses: suite.NothingOut(func(s probe.Site) []string { return []string{s.Metadata} }),
		Attempts:  2,
		Mutants: []string{"network-unmanaged", "egress-open", "egress-metadata-hole",
			"kode-gopher-metadata-hole", "kode-gopher-network-open", "kode-gopher-shared-metadata-hole", "kode-gopher-shared-network-open"},
	}
}
