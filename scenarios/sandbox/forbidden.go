// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

// forbiddenPods accepts the refusal by Pod Security's level restricted alone, and
// for the one thing that was changed. The admission policy looks at Sandboxes, and
// at no Pod: somebody who may make Pods beside them meets this wall and no other.
func forbiddenPods() suite.Scenario {
	return suite.Scenario{
		ID:    "sandbox.forbidden-pods",
		Title: "Create a forbidden Pod beside the sandboxes",
		About: "Asks in dry runs for a bare Pod of the template's in the sandboxes' namespace, each time with one thing changed: into what Pod Security's level baseline forbids, and into what " +
			"only the level restricted does. The admission policy speaks of Sandboxes, so that Pod Security alone stands in the way. It knows nothing of runtime classes: a bare Pod on the " +
			"node's own kernel is taken, if it has no privilege there. The control is the Pod unchanged.",
		Claims: []string{"AS-10", "KG-01"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1610", "T1611"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/security/pod-security-standards/"},
		Needs:      []suite.Feature{suite.PodSecurity},
		Ask:        manifest.BelowRestricted,
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return []verdict.Step{manifest.DryRun(ctx, env, "the compliant Pod", env.Pod())}
		},
		Accept:  []verdict.Class{verdict.AdmissionDenied},
		Timeout: 30 * time.Second,
		Mutants: []string{"pod-security-baseline", "pod-security-privileged", "kode-gopher-pod-security-baseline", "kode-gopher-shared-pod-security-privileged"},
	}
}
