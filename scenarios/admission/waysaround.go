// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"slices"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/reading"
)

// sandboxDoors are the ways in which a Sandbox comes to be what it is.
var sandboxDoors = []reading.Door{
	{Group: "agents.x-k8s.io", Resource: "sandboxes", Operation: "CREATE"},
	{Group: "agents.x-k8s.io", Resource: "sandboxes", Operation: "UPDATE"},
}

// waysAround accepts Absent alone. The other scenarios ask by one way, in which a
// policy that can be gone around refuses as well as any.
func waysAround() suite.Scenario {
	return suite.Scenario{
		ID:    "admission.ways-around",
		Title: "Find a way around the admission policy",
		About: "Reads the admission policies that are bound to the target's namespace, and looks for each rule of the claim whether one of them that has it leaves no way around: by another " +
			"version of the API, by a change of what was created, by a label, by a request that the policy fails on, or because it only warns. " +
			"Of conditions, exceptions and parameters nothing is concluded. The control asks for a policy that takes what it fails on, as a dry run, and finds this by the same reading.",
		Claims: []string{"AS-10"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1562.001", "T1610"},
		Refs:       []string{"https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/"},
		Needs:      []suite.Feature{suite.Admission},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			var says []string
			for _, r := range rules {
				if !slices.Contains(says, r.says) {
					says = append(says, r.says)
				}
			}
			return reading.WaysAround(ctx, env, sandboxDoors, says)
		},
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return reading.FindWayAround(ctx, env, sandboxDoors)
		},
		Accept:  []verdict.Class{verdict.Absent},
		Timeout: 30 * time.Second,
		Mutants: []string{"admission-fail-open", "admission-exact-version", "admission-label-exempt", "admission-create-only"},
	}
}
