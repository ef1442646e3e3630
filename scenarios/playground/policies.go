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
			"Where there is one of Cilium's own, of the namespace or of the whole cluster, nothing is concluded. " +
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
			return []verdict.Step{judgeDefaultDeny(policies), judgeEgress(name, policies, labels),
				cilium(ctx, env, "find a policy of Cilium's own", "namespaces/"+env.Namespace+"/ciliumnetworkpolicies"),
				cilium(ctx, env, "find a policy of Cilium's for every namespace", "ciliumclusterwidenetworkpolicies")}
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
	if env.Do == nil {
		return nil, &verdict.Step{Name: name, Class: verdict.ToolMissing, Detail: "the target cannot be read"}
	}
	answer, err := env.Do(ctx, suite.Administrator, suite.Request{Verb: http.MethodGet, Path: path})
	if err != nil {
		return nil, &verdict.Step{Name: name, Class: verdict.TransportError, Detail: err.Error()}
	}
	list, ok := answer.Object["items"].([]any)
	if answer.Code != http.StatusOK || !ok {
		return nil, &verdict.Step{Name: name, Class: verdict.Unknown, Detail: fmt.Sprintf("%s: %d %s", path, answer.Code, answer.Message)}
	}
	out := make([]object, 0, len(list))
	for _, x := range list {
		o, _ := x.(object)
		out = append(out, o)
	}
	return out, nil
}

// at returns a map below an object, empty where there is none.
func at(o object, fields ...string) object {
	for _, f := range fields {
		o, _ = o[f].(object)
	}
	return o
}

func nameOf(o object) string { return fmt.Sprint(at(o, "metadata")["name"]) }

// directed returns a policy's rules for a direction, "egress" or "ingress", and
// whether it speaks of that direction at all.
func directed(policy object, direction string) (speaks bool, allowed []any) {
	spec := at(policy, "spec")
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
		selector := at(p, "spec", "podSelector")
		everyPod := len(at(selector, "matchLabels")) == 0 && selector["matchExpressions"] == nil
		if speaks && len(allowed) == 0 && everyPod {
			step.Class, step.Detail = verdict.Absent, nameOf(p)+" selects every Pod and allows nothing"
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
		selector := at(p, "spec", "podSelector")
		others := false
		for key, want := range at(selector, "matchLabels") {
			others = others || labels[key] != want
		}
		if others {
			continue
		}
		if selector["matchExpressions"] != nil {
			return verdict.Step{Name: name, Class: verdict.Unknown, Detail: nameOf(p) + " allows something, and whom it selects is not read"}
		}
		return verdict.Step{Name: name, OK: true, Detail: fmt.Sprintf("%s allows %v", nameOf(p), allowed)}
	}
	return verdict.Step{Name: name, Class: verdict.Absent, Detail: fmt.Sprintf("none of %d policies allows it", len(policies))}
}

// judgeIngress is a pure function.
func judgeIngress(name string, policies []object) verdict.Step {
	for _, p := range policies {
		if speaks, allowed := directed(p, "ingress"); speaks && len(allowed) > 0 {
			return verdict.Step{Name: name, OK: true, Detail: nameOf(p)}
		}
	}
	return verdict.Step{Name: name, Class: verdict.Unknown, Detail: fmt.Sprintf("none of %d policies is one", len(policies))}
}

// cilium looks for policies of a kind of Cilium's own, which add up with the others.
// One of them is nothing that this suite could read; a cluster without that kind has
// none.
func cilium(ctx context.Context, env *suite.APIEnv, name, resource string) verdict.Step {
	path := "/apis/cilium.io/v2/" + resource
	answer, err := env.Do(ctx, suite.Administrator, suite.Request{Verb: http.MethodGet, Path: path})
	if err == nil && answer.Code == http.StatusNotFound {
		return verdict.Step{Name: name, Class: verdict.Absent, Detail: "the cluster does not have the kind"}
	}
	policies, step := items(ctx, env, name, path)
	switch {
	case step != nil:
		return *step
	case len(policies) > 0:
		return verdict.Step{Name: name, Class: verdict.Unknown, Detail: nameOf(policies[0]) + " is there, and what it allows is not read"}
	}
	return verdict.Step{Name: name, Class: verdict.Absent, Detail: "there is none"}
}
