// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"net/http"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

// forbiddenPods asks for every rule once more, as who makes the Pods: a policy may
// leave out an account, and Pod Security too, and it is the service's that whoever
// takes it over has. Accepted is what [rule.scenario] accepts.
func forbiddenPods() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.forbidden-pods",
		Title: "Create a forbidden Pod as the execution service",
		About: "As the execution service's account, asks in dry runs for a Pod of the template's with one thing changed: for each rule on Pods that are created, into one that breaks this rule " +
			"alone. The report says who refused it. The control is the Pod unchanged, which the service may create.",
		Claims: []string{"PG-02"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1610", "T1078.001"},
		Refs:       []string{"https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/#matching-requests-matchconditions", "https://kubernetes.io/docs/concepts/security/pod-security-admission/#exemptions"},
		Needs:      []suite.Feature{suite.Admission},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			var steps []verdict.Step
			for _, r := range rules {
				if len(r.cases) == 0 {
					continue // it is broken by a change, for which the service has no right
				}
				pod := env.Pod()
				r.cases[0].change(manifest.Child(pod, "spec"))
				steps = append(steps, r.own(createAsService(ctx, env, r.id+": "+r.cases[0].name, pod)))
			}
			return steps
		},
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return []verdict.Step{createAsService(ctx, env, "the compliant Pod", env.Pod())}
		},
		Accept:  []verdict.Class{verdict.AdmissionDenied},
		Timeout: 30 * time.Second,
		Mutants: []string{"playground-service-exempt"},
	}
}

// createAsService asks for a Pod as the execution service, as a dry run.
func createAsService(ctx context.Context, env *suite.APIEnv, name string, pod suite.Object) verdict.Step {
	if env.Do == nil || env.Account == "" {
		return verdict.Step{Name: name, Class: verdict.ToolMissing, Detail: "the target has no execution service"}
	}
	manifest.Rename(pod, env.Nonce)
	answer, err := env.Do(ctx, suite.Service, suite.Request{Verb: http.MethodPost, Path: core(env.Namespace, "pods"), Body: pod})
	return manifest.Judge(name, answer, err)
}
