// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

// egressPolicy accepts Absent alone: the rule that would let something out is not
// there. Where gVisor's network is off no packet meets the policy, and an opened
// one would not be noticed until the day on which it is the only wall. Policies
// add up: what one of them allows, no other denies.
func egressPolicy() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.egress-policy",
		Title: "Find a network policy that lets a run out",
		About: "Reads the network policies of the playground: one has to select every Pod and allow no egress, and no other may allow any to a run. " +
			"Where there is one of another kind (Cilium's own, GKE's of host names, an administrator's), of the namespace or of the whole cluster, nothing is concluded. " +
			"The control finds, by the same reading, the rule that lets callers in to the execution service.",
		Claims: []string{"PG-03"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1562.007"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/services-networking/network-policies/#default-deny-all-egress-traffic"},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			const name = "find a policy that lets a run out"
			policies, step := items(ctx, env, name, policiesOf(env.Namespace))
			if step != nil {
				return []verdict.Step{*step}
			}
			meta, _ := env.Pod()["metadata"].(object)
			labels, _ := meta["labels"].(object)
			steps := []verdict.Step{judgeDefaultDeny(policies), judgeEgress(name, policies, labels)}
			for _, group := range policyGroups {
				steps = append(steps, others(ctx, env, group))
			}
			return steps
		},
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			const name = "find the policy that lets callers in to the service"
			var all []object
			for _, ns := range env.Components {
				policies, step := items(ctx, env, name, policiesOf(ns))
				if step != nil {
					return []verdict.Step{*step}
				}
				all = append(all, policies...)
			}
			return []verdict.Step{judgeIngress(name, all)}
		},
		Accept:  []verdict.Class{verdict.Absent},
		Timeout: 30 * time.Second,
		Mutants: []string{"playground-egress-policy-open"},
	}
}

func policiesOf(namespace string) string {
	return "/apis/networking.k8s.io/v1/namespaces/" + namespace + "/networkpolicies"
}

// items reads a list as the administrator; the step tells why it could not.
func items(ctx context.Context, env *suite.APIEnv, name, path string) ([]object, *verdict.Step) {
	return list(ctx, env, name, path, "items")
}

// list is items of what has its list in another field.
func list(ctx context.Context, env *suite.APIEnv, name, path, field string) ([]object, *verdict.Step) {
	if env.Do == nil {
		return nil, &verdict.Step{Name: name, Class: verdict.ToolMissing, Detail: "the target cannot be read"}
	}
	answer, err := env.Do(ctx, suite.Administrator, suite.Request{Verb: http.MethodGet, Path: path})
	if err != nil {
		return nil, &verdict.Step{Name: name, Class: verdict.TransportError, Detail: err.Error()}
	}
	all, ok := answer.Object[field].([]any)
	if answer.Code != http.StatusOK || !ok {
		return nil, &verdict.Step{Name: name, Class: verdict.Unknown, Detail: fmt.Sprintf("%s: %d %s", path, answer.Code, answer.Message)}
	}
	out := make([]object, 0, len(all))
	for _, x := range all {
		o, _ := x.(object)
		out = append(out, o)
	}
	return out, nil
}

// directed returns a policy's rules for a direction, "egress" or "ingress", and
// whether it speaks of that direction at all.
func directed(policy object, direction string) (speaks bool, allowed []any) {
	spec := manifest.Map(policy, "spec")
	types, _ := spec["policyTypes"].([]any)
	speaks = slices.ContainsFunc(types, func(t any) bool { return strings.EqualFold(fmt.Sprint(t), direction) })
	allowed, _ = spec[direction].([]any)
	return speaks, allowed
}

// judgeDefaultDeny is a pure function.
func judgeDefaultDeny(policies []object) verdict.Step {
	step := verdict.Step{Name: "find the runs without a policy on what they send"}
	for _, p := range policies {
		speaks, allowed := directed(p, "egress")
		selector := manifest.Map(p, "spec", "podSelector")
		everyPod := len(manifest.Map(selector, "matchLabels")) == 0 && selector["matchExpressions"] == nil
		if speaks && len(allowed) == 0 && everyPod {
			step.Class, step.Detail = verdict.Absent, manifest.Name(p)+" selects every Pod and allows nothing"
			return step
		}
	}
	step.OK, step.Detail = true, fmt.Sprintf("none of %d policies selects every Pod and allows nothing", len(policies))
	return step
}

// judgeEgress is a pure function.
func judgeEgress(name string, policies []object, labels object) verdict.Step {
	for _, p := range policies {
		speaks, allowed := directed(p, "egress")
		if !speaks || len(allowed) == 0 {
			continue
		}
		selector := manifest.Map(p, "spec", "podSelector")
		others := false
		for key, want := range manifest.Map(selector, "matchLabels") {
			others = others || labels[key] != want
		}
		if others {
			continue
		}
		if selector["matchExpressions"] != nil {
			return verdict.Step{Name: name, Class: verdict.Unknown, Detail: manifest.Name(p) + " allows something, and whom it selects is not read"}
		}
		return verdict.Step{Name: name, OK: true, Detail: fmt.Sprintf("%s allows %v", manifest.Name(p), allowed)}
	}
	return verdict.Step{Name: name, Class: verdict.Absent, Detail: fmt.Sprintf("none of %d policies allows it", len(policies))}
}

// judgeIngress is a pure function.
func judgeIngress(name string, policies []object) verdict.Step {
	for _, p := range policies {
		if speaks, allowed := directed(p, "ingress"); speaks && len(allowed) > 0 {
			return verdict.Step{Name: name, OK: true, Detail: manifest.Name(p)}
		}
	}
	return verdict.Step{Name: name, Class: verdict.Unknown, Detail: fmt.Sprintf("none of %d policies is one", len(policies))}
}

// policyGroups are the API groups that have network policies besides Kubernetes'
// own: Cilium's, GKE's, those of the cluster's administrator, Calico's and Antrea's.
// What one of them allows, Kubernetes' own do not deny.
var policyGroups = []string{"cilium.io", "networking.gke.io", "policy.networking.k8s.io", "crd.projectcalico.org", "projectcalico.org", "crd.antrea.io"}

// others looks for network policies of a group, in every version that the cluster
// serves. One of them is nothing that this suite could read; a cluster without the
// group has none.
func others(ctx context.Context, env *suite.APIEnv, group string) verdict.Step {
	step := verdict.Step{Name: "find a network policy of " + group}
	root := "/apis/" + group
	about, err := env.Do(ctx, suite.Administrator, suite.Request{Verb: http.MethodGet, Path: root})
	if err == nil && about.Code == http.StatusNotFound {
		step.Class, step.Detail = verdict.Absent, "the cluster does not have the group"
		return step
	}
	versions, problem := list(ctx, env, step.Name, root, "versions")
	if problem != nil {
		return *problem
	}
	for _, v := range versions {
		of := fmt.Sprintf("%s/%v", root, v["version"])
		kinds, problem := list(ctx, env, step.Name, of, "resources")
		if problem != nil {
			return *problem
		}
		for _, k := range kinds {
			resource := fmt.Sprint(k["name"])
			if !strings.Contains(resource, "networkpolic") || strings.Contains(resource, "/") {
				continue
			}
			path := of + "/" + resource
			if k["namespaced"] == true {
				path = of + "/namespaces/" + env.Namespace + "/" + resource
			}
			found, problem := items(ctx, env, step.Name, path)
			switch {
			case problem != nil:
				return *problem
			case len(found) > 0:
				step.Class, step.Detail = verdict.Unknown, fmt.Sprintf("%s %s is there, and what it allows is not read", resource, manifest.Name(found[0]))
				return step
			}
		}
	}
	if len(versions) == 0 {
		step.Class, step.Detail = verdict.Unknown, "the cluster serves no version of the group"
		return step
	}
	step.Class, step.Detail = verdict.Absent, "there is none"
	return step
}
