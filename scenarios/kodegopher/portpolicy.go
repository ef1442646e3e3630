// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"context"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/reading"
)

// servers are who may call a sandbox, in its own namespace.
var servers = []reading.Peer{{Label: "app", Value: "kode-gopher-router"}, {Label: "app", Value: "kode-gopher"}}

// portPolicy accepts Absent alone. Of those who knock, two are of another
// namespace, and a sibling may not send to private addresses; so none of them
// notices a rule for the Pods of the sandbox's own namespace.
func portPolicy() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.port-policy",
		Title: "Find a network policy that lets others in to a sandbox than the server",
		About: "Reads the network policies that select the running sandbox: one has to speak of what comes in, and all of them together may let in kode-gopher's server and the sandbox router alone. " +
			"Everybody, addresses, every Pod of a namespace and other sandboxes are others; of another label, and of policies of other kinds that speak of ingress, nothing is concluded. " +
			"The control finds, by the same reading, a policy that lets somebody in.",
		Claims: []string{"KG-08"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1562.007", "T1210"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/services-networking/network-policies/#behavior-of-to-and-from-selectors"},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return reading.NobodyElse(ctx, env, servers)
		},
		AskControl: reading.SomebodyLetIn,
		Accept:     []verdict.Class{verdict.Absent},
		Timeout:    30 * time.Second,
		Mutants:    []string{"kode-gopher-ingress-own-namespace"},
	}
}
