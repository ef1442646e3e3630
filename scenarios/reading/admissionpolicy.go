// SPDX-License-Identifier: Apache-2.0

package reading

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

// Door is a request that an admission policy has to look at.
type Door struct {
	Group     string // empty for the core group
	Resource  string // with its subresource, "pods/ephemeralcontainers"
	Operation string // CREATE or UPDATE
}

const admissionAPI = "/apis/admissionregistration.k8s.io/v1"

// guard is a policy that is bound to the target's namespace.
type guard struct{ policy, binding suite.Object }

// WaysAround reads the admission policies that are bound to the target's
// namespace, and tells for each rule, which is known by a part of its message,
// whether there is a way around all policies that have it: past one of the doors,
// by a label, by a request that the policy fails on, or because nobody refuses.
func WaysAround(ctx context.Context, env *suite.APIEnv, doors []Door, rules []string) []verdict.Step {
	const name = "find a way around the admission policy"
	guards, step := guardsOf(ctx, env, name)
	if step != nil {
		return []verdict.Step{*step}
	}
	served := map[string][]string{"": {"v1"}}
	for _, d := range doors {
		if _, known := served[d.Group]; known {
			continue
		}
		versions, step := list(ctx, env, name, "/apis/"+d.Group, "versions")
		if step != nil {
			return []verdict.Step{*step}
		}
		for _, v := range versions {
			served[d.Group] = append(served[d.Group], fmt.Sprint(v["version"]))
		}
	}
	steps := make([]verdict.Step, 0, len(rules))
	for _, says := range rules {
		steps = append(steps, judgeRule("find a way around the rule on "+says, says, guards, doors, served))
	}
	return steps
}

// FindWayAround is the control: the API server is asked, in a dry run, for a
// policy that has a way around it, and the same reading of its answer must find it.
func FindWayAround(ctx context.Context, env *suite.APIEnv, doors []Door) []verdict.Step {
	const name, says = "find the way around a policy that has one", "stockade"
	if env.Do == nil || len(doors) == 0 {
		return []verdict.Step{{Name: name, Class: verdict.ToolMissing, Detail: "the target cannot be read"}}
	}
	answer, err := env.Do(ctx, suite.Administrator, suite.Request{Verb: http.MethodPost, Path: admissionAPI + "/validatingadmissionpolicies", Body: object{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
		"metadata": object{"name": "stockade-" + env.Nonce[:min(len(env.Nonce), 12)]},
		"spec": object{
			"failurePolicy": "Ignore", // the way
			"matchConstraints": object{"resourceRules": []any{object{"apiGroups": []any{doors[0].Group}, "apiVersions": []any{"*"},
				"operations": []any{"CREATE", "UPDATE"}, "resources": []any{doors[0].Resource}}}},
			"validations": []any{object{"expression": "true", "message": says}},
		}}})
	if err != nil {
		return []verdict.Step{{Name: name, Class: verdict.TransportError, Detail: err.Error()}}
	}
	if answer.Code != http.StatusOK && answer.Code != http.StatusCreated {
		return []verdict.Step{{Name: name, Class: verdict.Unknown, Detail: fmt.Sprintf("%d %s: %s", answer.Code, answer.Reason, answer.Message)}}
	}
	bound := guard{answer.Object, object{"metadata": object{"name": "stockade"}, "spec": object{"validationActions": []any{"Deny"}}}}
	step := judgeRule(name, says, []guard{bound}, nil, nil)
	return []verdict.Step{step}
}

// guardsOf reads every policy that is bound to the target's namespace.
func guardsOf(ctx context.Context, env *suite.APIEnv, name string) ([]guard, *verdict.Step) {
	namespace, step := Object(ctx, env, name, "/api/v1/namespaces/"+env.Namespace)
	if step != nil {
		return nil, step
	}
	policies, step := Items(ctx, env, name, admissionAPI+"/validatingadmissionpolicies")
	if step != nil {
		return nil, step
	}
	bindings, step := Items(ctx, env, name, admissionAPI+"/validatingadmissionpolicybindings")
	if step != nil {
		return nil, step
	}
	labels := manifest.Map(namespace, "metadata", "labels")
	var out []guard
	for _, b := range bindings {
		if !inNamespace(manifest.Map(b, "spec", "matchResources", "namespaceSelector"), labels) {
			continue
		}
		for _, p := range policies {
			if manifest.Name(p) == manifest.Map(b, "spec")["policyName"] && inNamespace(manifest.Map(p, "spec", "matchConstraints", "namespaceSelector"), labels) {
				out = append(out, guard{p, b})
			}
		}
	}
	return out, nil
}

// judgeRule is a pure function.
func judgeRule(name, says string, guards []guard, doors []Door, served map[string][]string) verdict.Step {
	var ways, odd []string
	for _, g := range guards {
		has := slices.ContainsFunc(objects(manifest.Map(g.policy, "spec"), "validations"), func(v suite.Object) bool {
			message, _ := v["message"].(string)
			return strings.Contains(message, says)
		})
		if !has {
			continue
		}
		around, unread := g.around(doors, served)
		switch {
		case len(around) > 0:
			for _, way := range around {
				ways = append(ways, manifest.Name(g.policy)+" "+way)
			}
		case len(unread) > 0:
			odd = append(odd, manifest.Name(g.policy)+" has "+strings.Join(unread, ", "))
		default:
			return verdict.Step{Name: name, Class: verdict.Absent, Detail: fmt.Sprintf("%s, bound by %s, has none", manifest.Name(g.policy), manifest.Name(g.binding))}
		}
	}
	switch {
	case len(ways) == 0 && len(odd) == 0:
		return verdict.Step{Name: name, Class: verdict.Unknown, Detail: "no policy that is bound to the namespace has the rule"}
	case len(odd) > 0:
		// Where another policy has a way around it, this one may stand there.
		return verdict.Step{Name: name, Class: verdict.Unknown, Detail: strings.Join(odd, "; ") + ", which is not read"}
	}
	return verdict.Step{Name: name, OK: true, Detail: strings.Join(ways, "; ")}
}

// around returns the ways around a policy, and what of it is not understood. What
// the API server fills in is Fail, Equivalent, and selectors that select all.
func (g guard) around(doors []Door, served map[string][]string) (ways, unread []string) {
	spec, match := manifest.Map(g.policy, "spec"), manifest.Map(g.policy, "spec", "matchConstraints")
	bound := manifest.Map(g.binding, "spec")
	if p, set := spec["failurePolicy"]; set && p != "Fail" {
		ways = append(ways, "takes what it fails on")
	}
	if !slices.Contains(texts(bound, "validationActions"), "Deny") {
		ways = append(ways, fmt.Sprintf("is bound to %v alone", bound["validationActions"]))
	}
	for _, o := range []suite.Object{match, manifest.Map(bound, "matchResources")} {
		if !empty(manifest.Map(o, "objectSelector")) {
			ways = append(ways, "leaves out what is labelled so, by whoever makes it")
		}
		if len(objects(o, "excludeResourceRules")) > 0 {
			unread = append(unread, "exceptions")
		}
	}
	if len(objects(spec, "matchConditions")) > 0 {
		unread = append(unread, "conditions")
	}
	if spec["paramKind"] != nil || bound["paramRef"] != nil {
		unread = append(unread, "parameters")
	}
	if len(objects(manifest.Map(bound, "matchResources"), "resourceRules")) > 0 {
		unread = append(unread, "a binding that selects requests")
	}
	for _, d := range doors {
		for _, version := range unguarded(match, d, served[d.Group]) {
			ways = append(ways, fmt.Sprintf("does not look at %s of %s %s", d.Operation, d.Resource, version))
		}
	}
	return ways, unread
}

// unguarded returns the versions of a door's resource at which a policy does not
// look. One that matches equivalent requests looks at all if it does at one.
func unguarded(constraints suite.Object, d Door, served []string) (open []string) {
	for _, version := range served {
		if !slices.ContainsFunc(objects(constraints, "resourceRules"), func(r suite.Object) bool { return guards(r, d, version) }) {
			open = append(open, version)
		}
	}
	if policy, set := constraints["matchPolicy"]; (!set || policy == "Equivalent") && len(open) < len(served) {
		return nil
	}
	return open
}

func guards(rule suite.Object, d Door, version string) bool {
	has := func(field, value string) bool {
		return slices.ContainsFunc(texts(rule, field), func(t string) bool { return t == value || t == "*" })
	}
	resource, sub, _ := strings.Cut(d.Resource, "/")
	names := []string{d.Resource, "*/*"}
	if sub == "" {
		names = append(names, "*")
	} else {
		names = append(names, resource+"/*", "*/"+sub)
	}
	scope, scoped := rule["scope"]
	return has("apiGroups", d.Group) && has("apiVersions", version) && has("operations", d.Operation) &&
		slices.ContainsFunc(texts(rule, "resources"), func(t string) bool { return slices.Contains(names, t) }) &&
		len(texts(rule, "resourceNames")) == 0 && (!scoped || scope == "*" || scope == "Namespaced")
}

// inNamespace reads a selector of namespaces. One that cannot be read selects none:
// the rule is then looked for elsewhere.
func inNamespace(selector, labels suite.Object) bool {
	if !hasLabels(selector, labels) {
		return false
	}
	for _, e := range objects(selector, "matchExpressions") {
		got, has := labels[fmt.Sprint(e["key"])]
		in := has && slices.Contains(texts(e, "values"), fmt.Sprint(got))
		switch e["operator"] {
		case "In":
			if !in {
				return false
			}
		case "NotIn":
			if in {
				return false
			}
		case "Exists":
			if !has {
				return false
			}
		case "DoesNotExist":
			if has {
				return false
			}
		default:
			return false
		}
	}
	return true
}
