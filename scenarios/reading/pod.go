// SPDX-License-Identifier: Apache-2.0

package reading

import (
	"context"
	"maps"
	"slices"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

// Selected reads the network policies of the target's namespace, and the labels of
// its running sandbox, by which they select it.
func Selected(ctx context.Context, env *suite.APIEnv, name string) (policies []suite.Object, labels suite.Object, step *verdict.Step) {
	if env.Live == "" {
		return nil, nil, &verdict.Step{Name: name, Class: verdict.ToolMissing, Detail: "no sandbox runs that could be read"}
	}
	pod, step := Object(ctx, env, name, "/api/v1/namespaces/"+env.Namespace+"/pods/"+env.Live)
	if step != nil {
		return nil, nil, step
	}
	policies, step = Items(ctx, env, name, PoliciesOf(env.Namespace))
	return policies, manifest.Map(pod, "metadata", "labels"), step
}

// NobodyElse looks whether a running sandbox has a policy on what comes in, and
// whether all that select it let in the peers alone.
func NobodyElse(ctx context.Context, env *suite.APIEnv, peers []Outlet) []verdict.Step {
	const none, more = "find the sandbox without a policy on what comes in", "find a policy that lets somebody else in"
	policies, labels, step := Selected(ctx, env, more)
	if step != nil {
		return []verdict.Step{*step}
	}
	steps := []verdict.Step{DefaultDeny(none, Ingress, policies, labels), LetsInOnly(more, peers, policies, labels, labels)}
	return append(steps, Others(ctx, env, Ingress)...)
}

// SomebodyLetIn is the control: by the same reading, the policy is found that lets
// somebody in.
func SomebodyLetIn(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	return findAllowing(ctx, env, "find the policy that lets somebody in", Ingress)
}

// findAllowing reads the policies of the target's namespace, of which one has to
// allow something.
func findAllowing(ctx context.Context, env *suite.APIEnv, name string, d Direction) []verdict.Step {
	policies, step := Items(ctx, env, name, PoliciesOf(env.Namespace))
	if step != nil {
		return []verdict.Step{*step}
	}
	return []verdict.Step{AllowsSomething(name, d, policies)}
}

// CallersOnly looks, for each running Pod of the target's namespace that has one of
// the values of a label, whether it has a policy on what comes in, and whether all
// that select it let in its callers alone. Each value must be some Pod's.
func CallersOnly(ctx context.Context, env *suite.APIEnv, label string, callers map[string][]Outlet) []verdict.Step {
	policies, sandbox, step := Selected(ctx, env, lettingIn)
	if step != nil {
		return []verdict.Step{*step}
	}
	return callersOnly(ctx, env, label, callers, policies, sandbox)
}

// CallersOnlyIn is [CallersOnly] for another namespace, of the target's own programs:
// no sandbox runs there.
func CallersOnlyIn(ctx context.Context, env *suite.APIEnv, namespace, label string, callers map[string][]Outlet) []verdict.Step {
	policies, step := Items(ctx, env, lettingIn, PoliciesOf(namespace))
	if step != nil {
		return []verdict.Step{*step}
	}
	there := *env
	there.Namespace = namespace
	return callersOnly(ctx, &there, label, callers, policies, nil)
}

const lettingIn = "find a policy that lets others in"

func callersOnly(ctx context.Context, env *suite.APIEnv, label string, callers map[string][]Outlet, policies []suite.Object, sandbox suite.Object) []verdict.Step {
	pods, step := Items(ctx, env, lettingIn, "/api/v1/namespaces/"+env.Namespace+"/pods")
	if step != nil {
		return []verdict.Step{*step}
	}
	var steps []verdict.Step
	for _, value := range slices.Sorted(maps.Keys(callers)) {
		found := false
		for _, pod := range pods {
			labels := manifest.Map(pod, "metadata", "labels")
			if labels[label] != value {
				continue
			}
			found = true
			steps = append(steps, DefaultDeny("find no policy on what comes in to "+manifest.Name(pod), Ingress, policies, labels),
				LetsInOnly(lettingIn+" to "+manifest.Name(pod), callers[value], policies, labels, sandbox))
		}
		if !found {
			steps = append(steps, verdict.Step{Name: lettingIn + " to " + value, Class: verdict.Unknown, Detail: "there is no Pod of it"})
		}
	}
	return append(steps, Others(ctx, env, Ingress)...)
}
