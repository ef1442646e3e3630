// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"slices"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// privateRanges accepts Dropped alone. The special ranges are here because
// clusters use them for Pods and nodes, and because the default policy's list of
// exceptions does not have them.
func privateRanges() suite.Scenario {
	return suite.Scenario{
		ID:    "egress.private-ranges",
		Title: "Reach a neighbour on a private address",
		About: "Connects to addresses of the three RFC 1918 ranges, and of the ranges that clusters take when these run out: " +
			"shared address space (100.64.0.0/10), benchmarking (198.18.0.0/15) and the former class E (240.0.0.0/4).",
		Claims: []string{"AS-06", "KG-06", "KG-07"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1046", "T1021"},
		Refs:       []string{"https://www.rfc-editor.org/rfc/rfc1918", "https://www.rfc-editor.org/rfc/rfc6890", "https://cloud.google.com/kubernetes-engine/docs/concepts/alias-ips"},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			if len(env.Site.RFC1918) == 0 {
				return []verdict.Step{probe.NoSite("connect", "private address")}
			}
			return probe.ReachAllTCP(ctx, env, slices.Concat(env.Site.RFC1918, special))
		},
		Control:   suite.ControlSpec{Why: "a Pod without a policy is answered from every one of the ranges"},
		Accept:    dropped,
		Witnesses: suite.NothingOut(func(s probe.Site) []string { return slices.Concat(s.RFC1918, special) }),
		Attempts:  2,
		Mutants: []string{"network-unmanaged", "egress-open", "egress-public-open", "egress-private-hole", "egress-shared-hole",
			"kode-gopher-private-hole", "kode-gopher-network-open", "kode-gopher-shared-network-open"},
	}
}

// special are ranges that are neither private by RFC 1918 nor public.
var special = []string{"100.64.0.7:8080", "198.18.0.7:8080", "240.0.0.7:8080"}
