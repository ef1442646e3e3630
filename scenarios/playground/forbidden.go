// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"net/http"
	"slices"
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

// createAsService asks for a Pod of a run as the execution service, as a dry run.
func createAsService(ctx context.Context, env *suite.APIEnv, name string, pod suite.Object) verdict.Step {
	return create(ctx, env, suite.Service, env.Namespace, name, pod)
}

// forbiddenComponents asks where playground.runtime-socket only looks: that no
// component has a way to the node is true of those that are there, and remains so as
// long as none is let in that has one. The level baseline is enough for that, so that
// the refusal is taken whatever the level.
func forbiddenComponents() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.forbidden-components",
		Title: "Create a component with a way to the node",
		About: "Asks in dry runs for a Pod of the template's in the namespace of the execution service, with one thing changed: with a folder of the node, with the node's network, or with " +
			"privilege. The admission policy speaks of the playground alone, so that Pod Security stands in the way, or nobody. The control is the Pod unchanged, in the same namespace.",
		Claims: []string{"PG-10"}, Kind: suite.Guarantee, Severity: suite.Medium,
		Techniques: []string{"T1610", "T1611"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/security/pod-security-standards/"},
		Needs:      []suite.Feature{suite.PodSecurity},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			var steps []verdict.Step
			for _, r := range rules {
				if slices.Contains(keepTheNodeOut, r.id) {
					for _, step := range createComponents(ctx, env, r.cases[0]) {
						steps = append(steps, r.own(step))
					}
				}
			}
			return steps
		},
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return createComponents(ctx, env, variant{"the compliant Pod", func(object) {}})
		},
		Accept:  []verdict.Class{verdict.AdmissionDenied},
		Timeout: 30 * time.Second,
		Mutants: []string{"playground-component-pod-security"},
	}
}

// keepTheNodeOut are the rules whose first case is a way to the node.
var keepTheNodeOut = []string{"reject-privileged", "reject-host-namespaces", "require-emptydir"}

// createComponents asks for a changed Pod in each namespace of the target's own
// programs.
func createComponents(ctx context.Context, env *suite.APIEnv, v variant) []verdict.Step {
	if len(env.Components) == 0 {
		return []verdict.Step{{Name: v.name, Class: verdict.ToolMissing, Detail: "the target names no programs of its own"}}
	}
	steps := make([]verdict.Step, 0, len(env.Components))
	for _, ns := range env.Components {
		pod := env.Pod()
		v.change(manifest.Child(pod, "spec"))
		steps = append(steps, create(ctx, env, suite.Administrator, ns, v.name+", in namespace "+ns, pod))
	}
	return steps
}

// create asks for a Pod in a namespace as somebody, as a dry run.
func create(ctx context.Context, env *suite.APIEnv, as suite.Identity, namespace, name string, pod suite.Object) verdict.Step {
	if env.Do == nil || env.Account == "" {
		return verdict.Step{Name: name, Class: verdict.ToolMissing, Detail: "the target has no execution service"}
	}
	manifest.Rename(pod, env.Nonce)
	manifest.Child(pod, "metadata")["namespace"] = namespace
	answer, err := env.Do(ctx, as, suite.Request{Verb: http.MethodPost, Path: core(namespace, "pods"), Body: pod})
	return manifest.Judge(name, answer, err)
}
