// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/reading"
)

// podDoors are the ways in which a Pod comes to be what it is. Of its other
// subresources none changes what a rule speaks of.
var podDoors = []reading.Door{
	{Resource: "pods", Operation: "CREATE"}, {Resource: "pods", Operation: "UPDATE"},
	{Resource: "pods/ephemeralcontainers", Operation: "UPDATE"},
}

// waysAround accepts Absent alone. The other scenarios ask by one way, in which a
// policy that can be gone around refuses as well as any.
func waysAround() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.ways-around",
		Title: "Find a way around the playground's admission policy",
		About: "Reads the admission policies that are bound to the playground, and looks for each rule of the claim whether one of them that has it leaves no way around: by a change of a Pod " +
			"that runs, by a label, by a request that the policy fails on, or because it only warns. Of conditions, exceptions and parameters nothing is concluded. " +
			"The control asks for a policy that takes what it fails on, as a dry run, and finds this by the same reading.",
		Claims: []string{"PG-02"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1562.001", "T1610"},
		Refs:       []string{"https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/"},
		Needs:      []suite.Feature{suite.Admission},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			var says []string
			for _, r := range rules {
				// Pod Security is no policy of this kind.
				if !strings.Contains(r.says, "PodSecurity") {
					says = append(says, r.says)
				}
			}
			return reading.WaysAround(ctx, env, podDoors, says)
		},
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return reading.FindWayAround(ctx, env, podDoors)
		},
		Accept:  []verdict.Class{verdict.Absent},
		Timeout: 30 * time.Second,
		Mutants: []string{"playground-fail-open", "playground-create-only"},
	}
}
