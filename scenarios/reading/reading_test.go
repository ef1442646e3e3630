// SPDX-License-Identifier: Apache-2.0

package reading

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

// cluster answers by path; what it does not have may not be read. What it is asked
// to create it gives back.
type cluster map[string]suite.Answer

func (c cluster) env() *suite.APIEnv {
	return &suite.APIEnv{Nonce: strings.Repeat("a", 32), Namespace: "boxes", Live: "live",
		Do: func(_ context.Context, as suite.Identity, r suite.Request) (suite.Answer, error) {
			if as != suite.Administrator {
				return suite.Answer{Code: 401}, nil
			}
			if r.Verb == http.MethodPost {
				return suite.Answer{Code: 201, Object: r.Body}, nil
			}
			if a, ok := c[r.Path]; ok {
				return a, nil
			}
			return suite.Answer{Code: 403}, nil
		}}
}

func (c cluster) and(path string, a suite.Answer) cluster {
	c[path] = a
	return c
}

func listOf(all ...object) suite.Answer {
	items := []any{}
	for _, o := range all {
		items = append(items, o)
	}
	return suite.Answer{Code: 200, Object: object{"items": items}}
}

func named(name string, spec object) object {
	return object{"metadata": object{"name": name}, "spec": spec}
}

// with adds network policies of kinds of their own, by the path of the list, and no
// group but theirs.
func with(lists, and cluster) cluster {
	for _, group := range PolicyGroups {
		and["/apis/"+group] = suite.Answer{Code: 404}
	}
	for path, answer := range lists {
		parts := strings.Split(path, "/") // "", apis, group, version, …
		root, of := strings.Join(parts[:3], "/"), strings.Join(parts[:4], "/")
		and[path] = answer
		and[root] = suite.Answer{Code: 200, Object: object{"versions": []any{object{"version": "v1"}, object{"version": parts[3]}}}}
		and[root+"/v1"] = suite.Answer{Code: 200, Object: object{"resources": []any{object{"name": "others", "namespaced": true}}}}
		and[of] = suite.Answer{Code: 200, Object: object{"resources": []any{
			object{"name": parts[len(parts)-1], "namespaced": len(parts) > 5}, object{"name": parts[len(parts)-1] + "/status", "namespaced": len(parts) > 5}}}}
	}
	return and
}

// Policies of all kinds add up.
func TestAPolicyOfAnotherKindIsNotHeld(t *testing.T) {
	const cilium = "/apis/cilium.io/v2/namespaces/boxes/ciliumnetworkpolicies"
	some, none := listOf(named("more", object{"egress": []any{object{}}})), listOf()
	for path, group := range map[string]string{
		cilium: "cilium.io",
		"/apis/cilium.io/v2/ciliumclusterwidenetworkpolicies":                   "cilium.io",
		"/apis/networking.gke.io/v1alpha1/namespaces/boxes/fqdnnetworkpolicies": "networking.gke.io",
		"/apis/policy.networking.k8s.io/v1alpha1/adminnetworkpolicies":          "policy.networking.k8s.io",
		"/apis/crd.projectcalico.org/v3/namespaces/boxes/networkpolicies":       "crd.projectcalico.org",
		"/apis/crd.antrea.io/v1beta1/namespaces/boxes/networkpolicies":          "crd.antrea.io",
		"/apis/projectcalico.org/v3/globalnetworkpolicies":                      "projectcalico.org",
	} {
		for _, c := range []struct {
			list suite.Answer
			want verdict.Class
		}{{some, verdict.Unknown}, {none, verdict.Absent}, {suite.Answer{Code: 403}, verdict.Unknown}} {
			for i, s := range Others(t.Context(), with(cluster{path: c.list}, cluster{}).env(), Egress) {
				want := verdict.Absent
				if PolicyGroups[i] == group {
					want = c.want
				}
				assert.Equal(t, want, s.Class, "%s, %d: %s: %s", path, c.list.Code, s.Name, s.Detail)
			}
		}
	}
	for name, c := range map[string]struct {
		policy object
		want   verdict.Class
	}{
		"says nothing of ingress":        {named("x", object{"egress": []any{object{}}}), verdict.Absent},
		"says something of it":           {named("x", object{"ingress": []any{object{}}}), verdict.Unknown},
		"says it in a list":              {object{"specs": []any{object{}, object{"ingress": []any{object{}}}}}, verdict.Unknown},
		"says nothing that is known":     {object{}, verdict.Unknown},
		"says nothing of it in its list": {object{"specs": []any{object{"egress": []any{}}}}, verdict.Absent},
	} {
		s := Others(t.Context(), with(cluster{cilium: listOf(c.policy)}, cluster{}).env(), Ingress)[0]
		assert.Equal(t, c.want, s.Class, "one of Cilium's that %s: %s", name, s.Detail)
	}
	for name, group := range map[string]suite.Answer{
		"may not be read":          {Code: 403},
		"is of no version":         {Code: 200, Object: object{"versions": []any{}}},
		"has one that is not read": {Code: 200, Object: object{"versions": []any{object{"version": "v9"}}}},
	} {
		assert.Equal(t, verdict.Unknown, Others(t.Context(), with(nil, cluster{}).and("/apis/cilium.io", group).env(), Egress)[0].Class, "a group that %s", name)
	}
}

func TestWhoElseIsLetInIsFound(t *testing.T) {
	router := object{"namespaceSelector": object{"matchLabels": object{namespaceLabel: "system"}}, "podSelector": object{"matchLabels": object{"app": "router"}}}
	narrower := object{"namespaceSelector": object{"matchLabels": object{namespaceLabel: "system"}},
		"podSelector": object{"matchLabels": object{"app": "router", "tier": "x"}, "matchExpressions": []any{object{}}}}
	own := object{"podSelector": object{"matchLabels": object{"app": "server"}}}
	peers := []Outlet{{Peer: Peer{Namespace: "system", Label: "app", Value: "router"}}, {Peer: Peer{Label: "app", Value: "server"}}}
	policy := func(selector object, from ...any) object {
		return named("p", object{"podSelector": selector, "policyTypes": []any{"Ingress"}, "ingress": []any{object{"from": from}}})
	}
	mine := object{"matchLabels": object{"app": "box"}}
	for name, c := range map[string]struct {
		policies []object
		ok       bool
		want     verdict.Class
	}{
		"nothing":                       {nil, false, verdict.Absent},
		"the router":                    {[]object{policy(mine, router)}, false, verdict.Absent},
		"a part of it, and the server":  {[]object{policy(mine, narrower, own)}, false, verdict.Absent},
		"everybody":                     {[]object{policy(mine)}, true, ""},
		"everybody, beside the router":  {[]object{policy(mine, router), policy(object{}, object{"podSelector": object{}})}, true, ""},
		"of other Pods":                 {[]object{policy(object{"matchLabels": object{"app": "other"}})}, false, verdict.Absent},
		"of nobody knows which":         {[]object{policy(object{"matchExpressions": []any{object{}}})}, false, verdict.Unknown},
		"addresses":                     {[]object{policy(mine, object{"ipBlock": object{"cidr": "192.0.2.0/24"}})}, true, ""},
		"the Pods of its own namespace": {[]object{policy(mine, router, object{"podSelector": object{}})}, true, ""},
		"another sandbox":               {[]object{policy(mine, object{"podSelector": mine})}, true, ""},
		"a router of any namespace": {[]object{policy(mine, object{"namespaceSelector": object{}, "podSelector": object{"matchLabels": object{"app": "router"}}})},
			true, ""},
		"a router of its own namespace": {[]object{policy(mine, object{"podSelector": object{"matchLabels": object{"app": "router"}}})}, false, verdict.Unknown},
		"a server of another namespace": {[]object{policy(mine, object{"namespaceSelector": object{"matchLabels": object{"x": "y"}}, "podSelector": object{"matchLabels": object{"app": "server"}}})},
			false, verdict.Unknown},
		"all of the router's namespace": {[]object{policy(mine, object{"namespaceSelector": object{"matchLabels": object{namespaceLabel: "system"}}})}, true, ""},
		"somebody with another label":   {[]object{policy(mine, object{"podSelector": object{"matchLabels": object{"app": "who"}}})}, false, verdict.Unknown},
		"the worst of two": {[]object{policy(mine, object{"podSelector": object{"matchLabels": object{"app": "who"}}}, object{"podSelector": object{}})},
			true, ""},
	} {
		e := with(nil, cluster{PoliciesOf("boxes"): listOf(c.policies...), "/api/v1/namespaces/boxes/pods/live": {Code: 200, Object: object{
			"metadata": object{"labels": object{"app": "box"}}}}}).env()
		steps := NobodyElse(t.Context(), e, peers)
		require.Len(t, steps, 2+len(PolicyGroups), name)
		assert.Equal(t, c.ok, steps[1].OK, "%s: %s", name, steps[1].Detail)
		assert.Equal(t, c.want, steps[1].Class, "%s: %s", name, steps[1].Detail)
	}
	for name, e := range map[string]*suite.APIEnv{"no Pod": cluster{PoliciesOf("boxes"): listOf()}.env(), "no way to read": {}} {
		steps := NobodyElse(t.Context(), e, peers)
		require.Len(t, steps, 1, name)
		assert.False(t, steps[0].OK || steps[0].Class.IsEvidence(), name)
	}
	e := cluster{PoliciesOf("boxes"): listOf(policy(mine, router))}.env()
	assert.True(t, SomebodyLetIn(t.Context(), e)[0].OK)
	e = cluster{PoliciesOf("boxes"): listOf(named("p", object{"policyTypes": []any{"Ingress", "Egress"}}))}.env()
	assert.Equal(t, verdict.Unknown, SomebodyLetIn(t.Context(), e)[0].Class)
}

func TestACallerIsLetInAtItsPortsAlone(t *testing.T) {
	callers := map[string][]Outlet{
		"server":   {{Peer{Mark: "clients"}, []string{"80/TCP"}}},
		"metadata": {{Peer{Label: "app", Value: "box"}, []string{"80/TCP"}}, {Peer{Label: "app", Value: "server"}, []string{"81/TCP"}}},
	}
	to := func(app string, rules ...any) object {
		return named(app, object{"podSelector": object{"matchLabels": object{"app": app}}, "policyTypes": []any{"Ingress"}, "ingress": rules})
	}
	from := func(peer object, number int) object {
		return object{"from": []any{peer}, "ports": []any{port("TCP", float64(number))}}
	}
	of := func(app string) object { return object{"podSelector": object{"matchLabels": object{"app": app}}} }
	clients := object{"namespaceSelector": object{"matchLabels": object{"clients": "true"}}}
	live := suite.Answer{Code: 200, Object: object{"metadata": object{"labels": object{"app": "box"}}}}
	server, metadata := to("server", from(clients, 80)), to("metadata", from(of("box"), 80), from(of("server"), 81))
	pods := listOf(object{"metadata": object{"labels": object{"app": "server"}}}, object{"metadata": object{"labels": object{"app": "metadata"}}})
	for name, c := range map[string]struct {
		policies []object
		ok       bool
		want     verdict.Class
	}{
		"as it should be":                  {[]object{server, metadata}, false, verdict.Absent},
		"no policy":                        {[]object{server}, true, ""},
		"a sandbox where runs begin":       {[]object{server, metadata, to("metadata", from(of("box"), 81))}, true, ""},
		"a sandbox at every port":          {[]object{server, metadata, to("metadata", object{"from": []any{of("box")}})}, true, ""},
		"a sandbox in front of the server": {[]object{server, metadata, to("server", from(of("box"), 80))}, true, ""},
		"somebody in front of the server":  {[]object{server, metadata, to("server", from(of("who"), 80))}, false, verdict.Unknown},
		"the server, of any namespace":     {[]object{server, metadata, to("metadata", from(object{"namespaceSelector": object{}, "podSelector": object{"matchLabels": object{"app": "server"}}}, 81))}, true, ""},
		"namespaces with another label":    {[]object{metadata, to("server", from(object{"namespaceSelector": object{"matchLabels": object{"clients": "false"}}}, 80))}, true, ""},
	} {
		steps := CallersOnly(t.Context(), with(nil, cluster{PoliciesOf("boxes"): listOf(c.policies...), "/api/v1/namespaces/boxes/pods": pods, "/api/v1/namespaces/boxes/pods/live": live}).env(), "app", callers)
		require.Len(t, steps, 4+len(PolicyGroups), name)
		got := verdict.Absent
		ok := false
		for _, s := range steps {
			ok = ok || s.OK
			if s.Class != verdict.Absent && got == verdict.Absent {
				got = s.Class
			}
		}
		assert.Equal(t, c.ok, ok, name)
		assert.Equal(t, c.want, got, name)
	}
	lone := with(nil, cluster{PoliciesOf("boxes"): listOf(server), "/api/v1/namespaces/boxes/pods": listOf(), "/api/v1/namespaces/boxes/pods/live": live}).env()
	assert.Equal(t, verdict.Unknown, CallersOnly(t.Context(), lone, "app", callers)[0].Class, "who is not there was not looked at")
	assert.Equal(t, verdict.Unknown, CallersOnly(t.Context(), cluster{PoliciesOf("boxes"): listOf()}.env(), "app", callers)[0].Class)
	assert.Equal(t, verdict.ToolMissing, CallersOnly(t.Context(), &suite.APIEnv{}, "app", callers)[0].Class)
}

// Whoever calls a program of the target's own may be a whole namespace.
func TestTheCallersOfAnotherNamespaceAreRead(t *testing.T) {
	callers := map[string][]Outlet{"server": {{Peer{Namespace: "front"}, []string{"80/TCP"}}}}
	of := func(name string) object {
		return object{"namespaceSelector": object{"matchLabels": object{namespaceLabel: name}}}
	}
	to := func(selector object, types []any, rules ...any) object {
		return named("p", object{"podSelector": selector, "policyTypes": types, "ingress": rules})
	}
	at := func(number int, from ...any) object {
		return object{"from": from, "ports": []any{port("TCP", float64(number))}}
	}
	in, mine := []any{"Ingress"}, object{"matchLabels": object{"app": "server"}}
	part := of("front")
	part["podSelector"] = object{"matchLabels": object{"tier": "web"}}
	for name, c := range map[string]struct {
		policy object
		ok     bool
		want   verdict.Class
	}{
		"the front end":              {to(mine, in, at(80, of("front"))), false, verdict.Absent},
		"a part of it":               {to(mine, in, at(80, part)), false, verdict.Absent},
		"of every Pod":               {to(object{}, in, at(80, of("front"))), false, verdict.Absent},
		"at another port":            {to(mine, in, at(81, of("front"))), true, ""},
		"at every port":              {to(mine, in, object{"from": []any{of("front")}}), true, ""},
		"the sandboxes":              {to(mine, in, at(80, of("front"), of("boxes"))), true, ""},
		"every namespace":            {to(mine, in, at(80, object{"namespaceSelector": object{}})), true, ""},
		"everybody":                  {to(mine, in, object{"ports": []any{port("TCP", float64(80))}}), true, ""},
		"its own namespace":          {to(mine, in, at(80, object{"podSelector": object{}})), true, ""},
		"of another's Pods":          {to(object{"matchLabels": object{"app": "another"}}, in, at(80, of("front"))), true, ""},
		"says nothing of what comes": {to(mine, []any{"Egress"}), true, ""},
		"a Pod of its own namespace": {to(mine, in, at(80, object{"podSelector": mine})), false, verdict.Unknown},
	} {
		e := with(nil, cluster{PoliciesOf("system"): listOf(c.policy), "/api/v1/namespaces/system/pods": listOf(
			object{"metadata": object{"name": "server-1", "labels": object{"app": "server"}}}, object{"metadata": object{"labels": object{"app": "other"}}})}).env()
		steps := CallersOnlyIn(t.Context(), e, "system", "app", callers)
		require.Len(t, steps, 2+len(PolicyGroups), name)
		assert.Equal(t, "boxes", e.Namespace, "the caller's is left as it is")
		got, ok := verdict.Absent, false
		for _, s := range steps {
			ok = ok || s.OK
			if s.Class != verdict.Absent && got == verdict.Absent {
				got = s.Class
			}
		}
		assert.Equal(t, c.ok, ok, name)
		assert.Equal(t, c.want, got, name)
	}
	const cilium = "/apis/cilium.io/v2/namespaces/system/ciliumnetworkpolicies"
	whole := cluster{PoliciesOf("system"): listOf(to(mine, in)), "/api/v1/namespaces/system/pods": listOf(object{"metadata": object{"labels": object{"app": "server"}}})}
	steps := CallersOnlyIn(t.Context(), with(cluster{cilium: listOf(named("more", object{"ingress": []any{object{}}}))}, whole).env(), "system", "app", callers)
	assert.Equal(t, verdict.Unknown, steps[2].Class, "a policy of another kind, of that namespace")
	for name, c := range map[string]cluster{
		"no Pod":                 {PoliciesOf("system"): listOf(), "/api/v1/namespaces/system/pods": listOf()},
		"Pods that are not read": {PoliciesOf("system"): listOf()},
		"policies that are not":  {"/api/v1/namespaces/system/pods": listOf()},
		"of another namespace":   {PoliciesOf("boxes"): listOf(), "/api/v1/namespaces/boxes/pods": listOf()},
	} {
		assert.Equal(t, verdict.Unknown, CallersOnlyIn(t.Context(), with(nil, c).env(), "system", "app", callers)[0].Class, name)
	}
}

var doors = []Door{{"group", "things", "CREATE"}, {"group", "things", "UPDATE"}, {"group", "things/part", "UPDATE"}}

// sound is a cluster whose policy has no way around it, as the API server fills it
// in.
func sound() (policy, binding object, c cluster) {
	policy = named("p", object{
		"failurePolicy": "Fail",
		"matchConstraints": object{"matchPolicy": "Equivalent", "namespaceSelector": object{}, "objectSelector": object{}, "resourceRules": []any{object{
			"apiGroups": []any{"group"}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE", "UPDATE"}, "resources": []any{"things", "things/part"}, "scope": "*"}}},
		"validations": []any{object{"message": "do not do that"}},
	})
	binding = named("b", object{"policyName": "p", "validationActions": []any{"Deny", "Audit"}, "matchResources": object{
		"matchPolicy": "Equivalent", "objectSelector": object{},
		"namespaceSelector": object{"matchExpressions": []any{object{"key": namespaceLabel, "operator": "NotIn", "values": []any{"kube-system"}}}}}})
	return policy, binding, cluster{
		"/api/v1/namespaces/boxes":                          {Code: 200, Object: object{"metadata": object{"labels": object{namespaceLabel: "boxes"}}}},
		"/apis/group":                                       {Code: 200, Object: object{"versions": []any{object{"version": "v1"}, object{"version": "v1alpha1"}}}},
		admissionAPI + "/validatingadmissionpolicies":       listOf(policy),
		admissionAPI + "/validatingadmissionpolicybindings": listOf(binding),
	}
}

func TestAWayAroundAPolicyIsFound(t *testing.T) {
	constraints := func(p object) object { return manifest.Map(p, "spec", "matchConstraints") }
	rule := func(p object) object { return constraints(p)["resourceRules"].([]any)[0].(object) } //nolint:forcetypeassert // sound has it
	bound := func(b object) object { return manifest.Map(b, "spec", "matchResources") }
	selector := func(operator string, values ...any) object {
		return object{"matchExpressions": []any{object{"key": namespaceLabel, "operator": operator, "values": values}}}
	}
	for name, c := range map[string]struct {
		change func(p, b object)
		ok     bool
		want   verdict.Class
	}{
		"none": {func(object, object) {}, false, verdict.Absent},
		"none, and nothing filled in": {func(p, b object) {
			delete(manifest.Map(p, "spec"), "failurePolicy")
			delete(constraints(p), "matchPolicy")
			delete(manifest.Map(b, "spec"), "matchResources")
		}, false, verdict.Absent},
		"none, for all there is": {func(p, _ object) {
			rule(p)["apiVersions"] = []any{"*"}
			rule(p)["resources"] = []any{"*/*"}
			rule(p)["operations"] = []any{"*"}
		}, false, verdict.Absent},
		"all of a kind's parts": {func(p, _ object) { rule(p)["resources"] = []any{"*", "things/*"} }, false, verdict.Absent},
		"what it fails on":      {func(p, _ object) { manifest.Map(p, "spec")["failurePolicy"] = "Ignore" }, true, ""},
		"another version":       {func(p, _ object) { constraints(p)["matchPolicy"] = "Exact" }, true, ""},
		"no other version": {func(p, _ object) {
			constraints(p)["matchPolicy"] = "Exact"
			rule(p)["apiVersions"] = []any{"v1", "v1alpha1"}
		}, false, verdict.Absent},
		"a version that is not served": {func(p, _ object) { rule(p)["apiVersions"] = []any{"v2"} }, true, ""},
		"a change":                     {func(p, _ object) { rule(p)["operations"] = []any{"CREATE"} }, true, ""},
		"a part":                       {func(p, _ object) { rule(p)["resources"] = []any{"*"} }, true, ""},
		"another name":                 {func(p, _ object) { rule(p)["resourceNames"] = []any{"x"} }, true, ""},
		"another group":                {func(p, _ object) { rule(p)["apiGroups"] = []any{""} }, true, ""},
		"objects of the cluster's":     {func(p, _ object) { rule(p)["scope"] = "Cluster" }, true, ""},
		"a label":                      {func(p, _ object) { constraints(p)["objectSelector"] = object{"matchLabels": object{"x": "y"}} }, true, ""},
		"a label, by its binding":      {func(_, b object) { bound(b)["objectSelector"] = selector("DoesNotExist") }, true, ""},
		"a warning":                    {func(_, b object) { manifest.Map(b, "spec")["validationActions"] = []any{"Warn"} }, true, ""},
		"conditions":                   {func(p, _ object) { manifest.Map(p, "spec")["matchConditions"] = []any{object{}} }, false, verdict.Unknown},
		"exceptions":                   {func(p, _ object) { constraints(p)["excludeResourceRules"] = []any{object{}} }, false, verdict.Unknown},
		"a choice of its binding's":    {func(_, b object) { bound(b)["resourceRules"] = []any{object{}} }, false, verdict.Unknown},
		"parameters":                   {func(_, b object) { manifest.Map(b, "spec")["paramRef"] = object{} }, false, verdict.Unknown},
		"conditions, and a way": {func(p, _ object) {
			manifest.Map(p, "spec")["matchConditions"] = []any{object{}}
			manifest.Map(p, "spec")["failurePolicy"] = "Ignore"
		}, true, ""},
		"no rule":                {func(p, _ object) { manifest.Map(p, "spec")["validations"] = []any{object{"message": "another"}} }, false, verdict.Unknown},
		"a binding of another's": {func(_, b object) { manifest.Map(b, "spec")["policyName"] = "q" }, false, verdict.Unknown},
		"another namespace":      {func(_, b object) { bound(b)["namespaceSelector"] = selector("NotIn", "boxes") }, false, verdict.Unknown},
		"this namespace":         {func(_, b object) { bound(b)["namespaceSelector"] = selector("In", "boxes") }, false, verdict.Absent},
		"a labelled namespace":   {func(p, _ object) { constraints(p)["namespaceSelector"] = object{"matchLabels": object{"x": "y"}} }, false, verdict.Unknown},
		"an odd selector":        {func(_, b object) { bound(b)["namespaceSelector"] = selector("Like", "boxes") }, false, verdict.Unknown},
	} {
		policy, binding, c2 := sound()
		c.change(policy, binding)
		steps := WaysAround(t.Context(), c2.env(), doors, []string{"do that"})
		require.Len(t, steps, 1, name)
		assert.Equal(t, c.ok, steps[0].OK, "%s: %s", name, steps[0].Detail)
		assert.Equal(t, c.want, steps[0].Class, "%s: %s", name, steps[0].Detail)
	}
}

// Policies add up: where one of two stands, there is no way around both.
func TestOnePolicyThatStandsIsEnough(t *testing.T) {
	weak, binding, c := sound()
	manifest.Map(weak, "spec")["failurePolicy"] = "Ignore"
	whole, other, _ := sound()
	manifest.Map(whole, "metadata")["name"], manifest.Map(other, "spec")["policyName"] = "whole", "whole"
	c[admissionAPI+"/validatingadmissionpolicies"] = listOf(weak, whole)
	c[admissionAPI+"/validatingadmissionpolicybindings"] = listOf(binding, other)
	assert.Equal(t, verdict.Absent, WaysAround(t.Context(), c.env(), doors, []string{"do that"})[0].Class)
	manifest.Map(whole, "spec")["matchConditions"] = []any{object{}}
	assert.Equal(t, verdict.Unknown, WaysAround(t.Context(), c.env(), doors, []string{"do that"})[0].Class, "the other may stand")
}

func TestAPolicyThatMayNotBeReadIsNoEvidence(t *testing.T) {
	_, _, whole := sound()
	for path := range whole {
		_, _, c := sound()
		delete(c, path)
		steps := WaysAround(t.Context(), c.env(), doors, []string{"do that"})
		require.Len(t, steps, 1, path)
		assert.Equal(t, verdict.Unknown, steps[0].Class, path)
	}
	assert.Equal(t, verdict.ToolMissing, WaysAround(t.Context(), &suite.APIEnv{}, doors, nil)[0].Class)
}

func TestTheControlFindsTheWayThatItAskedFor(t *testing.T) {
	_, _, c := sound()
	s := FindWayAround(t.Context(), c.env(), doors)[0]
	assert.True(t, s.OK, s.Detail)
	for name, answer := range map[string]suite.Answer{"refused": {Code: 403}, "another": {Code: 201, Object: object{}}} {
		e := c.env()
		e.Do = func(context.Context, suite.Identity, suite.Request) (suite.Answer, error) { return answer, nil }
		assert.Equal(t, verdict.Unknown, FindWayAround(t.Context(), e, doors)[0].Class, name)
	}
	assert.Equal(t, verdict.ToolMissing, FindWayAround(t.Context(), &suite.APIEnv{}, doors)[0].Class)
}
