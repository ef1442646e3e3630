// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/all"
	"github.com/stockade-dev/stockade/scenarios/manifest"
	"github.com/stockade-dev/stockade/workloads/execution"
)

// door is an API server that knows one admission policy and nothing else. It
// evaluates the policy's own expressions, in their order, as the real one does.
type door struct {
	t                     *testing.T
	policy, binding       unstructured.Unstructured
	namespace             string
	operations, resources []string
	variables             []program
	rules, conditions     []program
	user                  string
	// stored is what was created in earnest, to be changed.
	stored suite.Object
}

type program struct {
	name string // of a variable, or a rule's message
	cel.Program
}

// newDoor is the door of a namespace, by the policy among the objects.
func newDoor(t *testing.T, namespace string, objects []unstructured.Unstructured) *door {
	t.Helper()
	policy := only(t, objects, "ValidatingAdmissionPolicy")
	d := &door{t: t, policy: policy, binding: only(t, objects, "ValidatingAdmissionPolicyBinding"), namespace: namespace}
	env, err := cel.NewEnv(cel.Variable("object", cel.DynType), cel.Variable("variables", cel.DynType), cel.Variable("request", cel.DynType))
	require.NoError(t, err)
	compile := func(field, name string) (out []program) {
		list, _, err := unstructured.NestedSlice(policy.Object, "spec", field)
		require.NoError(t, err)
		for _, x := range list {
			x, ok := x.(map[string]any)
			require.True(t, ok)
			ast, issues := env.Compile(fmt.Sprint(x["expression"]))
			require.NoError(t, issues.Err(), x[name])
			p, err := env.Program(ast)
			require.NoError(t, err)
			out = append(out, program{fmt.Sprint(x[name]), p})
		}
		return out
	}
	d.variables, d.rules, d.conditions = compile("variables", "name"), compile("validations", "message"), compile("matchConditions", "name")
	rules, _, err := unstructured.NestedSlice(policy.Object, "spec", "matchConstraints", "resourceRules")
	require.NoError(t, err)
	require.Len(t, rules, 1, "operations and resources would be of different rules")
	for field, names := range map[string]*[]string{"operations": &d.operations, "resources": &d.resources} {
		*names, _, err = unstructured.NestedStringSlice(rules[0].(map[string]any), field) //nolint:forcetypeassert // it is a rule
		require.NoError(t, err)
	}
	return d
}

// admit returns the API server's answer about a Pod or a Sandbox. The code is what
// it says when it takes it.
func (d *door) admit(resource string, pod map[string]any, code int) suite.Answer {
	operation := "CREATE"
	if code != http.StatusCreated {
		operation = "UPDATE"
	}
	if !slices.Contains(d.resources, resource) || !slices.Contains(d.operations, operation) {
		return suite.Answer{Code: code}
	}
	for _, c := range d.conditions {
		got, _, err := c.Eval(map[string]any{"object": pod, "request": map[string]any{"userInfo": map[string]any{"username": d.user}}})
		require.NoError(d.t, err, c.name)
		if got != types.True {
			return suite.Answer{Code: code}
		}
	}
	variables := map[string]any{}
	for _, v := range d.variables {
		got, _, err := v.Eval(map[string]any{"object": pod, "variables": variables})
		require.NoError(d.t, err, v.name)
		variables[v.name] = got
	}
	for _, r := range d.rules {
		got, _, err := r.Eval(map[string]any{"object": pod, "variables": variables})
		require.NoError(d.t, err, r.name)
		if got != types.True {
			return suite.Answer{Code: http.StatusUnprocessableEntity, Message: "ValidatingAdmissionPolicy denied request: " + r.name}
		}
	}
	return suite.Answer{Code: code}
}

func (d *door) Create(_ context.Context, o suite.Object, dryRun bool) (suite.Answer, error) {
	d.user = "kubernetes-admin"
	if o["kind"] == "Pod" {
		require.True(d.t, dryRun, "no Pod may be stored")
		return d.admit("pods", o, http.StatusCreated), nil
	}
	answer := d.admit("sandboxes", o, http.StatusCreated)
	if !dryRun && answer.Code == http.StatusCreated {
		d.stored = o
	}
	return answer, nil
}

func (d *door) Update(_ context.Context, o suite.Object) (suite.Answer, error) {
	return d.admit("sandboxes", o, http.StatusOK), nil
}

func (d *door) Get(context.Context, string, string, string) (suite.Answer, error) {
	if d.stored == nil {
		return suite.Answer{Code: http.StatusNotFound}, nil
	}
	return suite.Answer{Code: http.StatusOK, Object: manifest.Clone(d.stored)}, nil
}

func (d *door) Delete(context.Context, string, string, string) (suite.Answer, error) {
	d.stored = nil
	return suite.Answer{Code: http.StatusOK}, nil
}

// read answers with what it knows: its policy, where that is bound, and the
// versions of the API that the pinned module's definitions serve.
func (d *door) read(path string) suite.Answer {
	const policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
	o, known := map[string]suite.Object{
		policies: {"items": []any{d.policy.Object}},
		"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings": {"items": []any{d.binding.Object}},
		"/api/v1/namespaces/" + d.namespace:                                       {"metadata": map[string]any{"labels": map[string]any{"kubernetes.io/metadata.name": d.namespace}}},
		"/apis/agents.x-k8s.io":                                                   {"versions": []any{map[string]any{"version": "v1beta1"}, map[string]any{"version": "v1alpha1"}}},
	}[path]
	if !known {
		return suite.Answer{Code: http.StatusForbidden}
	}
	return suite.Answer{Code: http.StatusOK, Object: o}
}

// environment is that of a run whose own Sandbox, or whose live Pod, is a
// compliant one.
func (d *door) environment(compliant func() suite.Object) *suite.APIEnv {
	return &suite.APIEnv{
		Nonce: strings.Repeat("a", 32), API: d, Pod: compliant, Sandbox: compliant, Namespace: d.namespace, Live: "live",
		Account: ExecutionAccount,
		Do: func(_ context.Context, as suite.Identity, r suite.Request) (suite.Answer, error) {
			d.user = "kubernetes-admin"
			if as == suite.Service {
				d.user = "system:serviceaccount:" + strings.ReplaceAll(ExecutionAccount, "/", ":")
			}
			switch {
			case r.Verb == http.MethodGet:
				return d.read(r.Path), nil
			case r.Verb == http.MethodPost && strings.HasSuffix(r.Path, "/pods"):
				return d.admit("pods", r.Body, http.StatusCreated), nil
			case r.Verb == http.MethodPost: // of a policy, to see what becomes of it
				return suite.Answer{Code: http.StatusCreated, Object: r.Body}, nil
			}
			require.Equal(d.t, http.MethodPatch, r.Verb)
			_, sub, found := strings.Cut(r.Path, "/pods/live")
			require.True(d.t, found, r.Path)
			patched, err := strategicpatch.StrategicMergeMapPatch(compliant(), r.Body, corev1.Pod{})
			require.NoError(d.t, err)
			return d.admit("pods"+sub, patched, http.StatusOK), nil
		},
	}
}

// judge runs a scenario of the API against the door.
func (d *door) judge(s *suite.Scenario, compliant func() suite.Object) verdict.Result {
	attempt := func(nonce string, act suite.APIAction) []verdict.Attempt {
		steps := act(d.t.Context(), d.environment(compliant))
		return []verdict.Attempt{{Nonce: nonce, Complete: true, Steps: steps, Start: time.Now(), End: time.Now()}}
	}
	return verdict.Decide(verdict.Evidence{Attempts: attempt("a", s.Ask), Controls: attempt("c", s.AskControl), Accept: s.Accept})
}

// compliantPod is what the execution service makes of the overlay's template.
func compliantPod(t *testing.T) func() suite.Object {
	t.Helper()
	objects := rendered(t, Playground)
	digest := "@sha256:" + strings.Repeat("0123456789abcdef", 4)
	require.NoError(t, Pin(objects, map[string]string{
		"stockade.local/playground:dev": "stockade.local/playground" + digest,
		"stockade.local/execution:dev":  "stockade.local/execution" + digest,
	}))
	template := typed[corev1.PodTemplate](t, only(t, objects, "PodTemplate"))
	read, err := execution.Read(&template)
	require.NoError(t, err)
	return func() suite.Object {
		o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(read.Pod("playground", "x", 20001, nil))
		require.NoError(t, err)
		o["apiVersion"], o["kind"] = "v1", "Pod"
		return o
	}
}

// compliantSandbox is what the runner makes of the reference's template.
func compliantSandbox(t *testing.T) func() suite.Object {
	t.Helper()
	template, found, err := unstructured.NestedMap(only(t, rendered(t, Reference), "SandboxTemplate").Object, "spec", "podTemplate")
	require.NoError(t, err)
	require.True(t, found)
	return func() suite.Object {
		return suite.Object{"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox",
			"spec": map[string]any{"podTemplate": manifest.Clone(template)}}
	}
}

// doorScenarios are those of a family that one rule of the policy answers alone.
func doorScenarios(family string) (out []*suite.Scenario) {
	for _, s := range all.Registry.All() {
		if strings.HasPrefix(s.ID, family+".") && s.Params["says"] != "" && s.ID != "playground.require-pod-security" {
			out = append(out, s)
		}
	}
	return out
}

// weakened shows the door of each mutant of a deployment's policy.
func weakened(t *testing.T, base string, try func(t *testing.T, m Mutant, d *door)) {
	t.Helper()
	for _, m := range mutants(t) {
		if m.Base != base || m.Changes.Kind != "ValidatingAdmissionPolicy" {
			continue
		}
		t.Run(m.ID, func(t *testing.T) {
			objects, err := m.Render(module(t))
			require.NoError(t, err)
			try(t, m, newDoor(t, m.Namespace(), objects))
		})
	}
}

// everyRule are the scenarios that ask for every rule of the reference's policy.
var everyRule = []string{"admission.reject-update", "admission.ways-around"}

// beyond are the scenarios that do so of the playground's.
var beyond = []string{"playground.ways-around", "playground.forbidden-pods"}

func TestThePolicyOfTheReferenceHoldsEveryAttackOnIt(t *testing.T) {
	d := newDoor(t, ReferenceNamespace, rendered(t, System))
	compliant := compliantSandbox(t)
	attacks := doorScenarios("admission")
	for _, id := range everyRule {
		s, ok := all.Registry.Get(id)
		require.True(t, ok, id)
		attacks = append(attacks, s)
	}
	assert.Greater(t, len(attacks), len(d.rules))
	for _, s := range attacks {
		r := d.judge(s, compliant)
		assert.Equal(t, verdict.Held, r.Verdict(), "%s: %s %s", s.ID, r.Reason(), r.Detail())
	}
}

func TestEveryMutantOfTheReferencesPolicyIsKilled(t *testing.T) {
	compliant := compliantSandbox(t)
	weakened(t, BaseReference, func(t *testing.T, m Mutant, d *door) {
		for _, id := range m.Kills {
			s, _ := all.Registry.Get(id)
			r := d.judge(s, compliant)
			assert.Equal(t, verdict.Breached, r.Verdict(), "%s: %s %s", id, r.Reason(), r.Detail())
		}
		// What lies beside a rule makes many of them weaker, or none.
		if !strings.HasPrefix(m.Changes.Path, "spec.validations[") {
			for _, id := range m.Holds {
				s, _ := all.Registry.Get(id)
				r := d.judge(s, compliant)
				assert.Equal(t, verdict.Held, r.Verdict(), "%s: %s %s", id, r.Reason(), r.Detail())
			}
			return
		}
		for _, s := range doorScenarios("admission") {
			if !slices.Contains(m.Kills, s.ID) {
				r := d.judge(s, compliant)
				assert.Equal(t, verdict.Held, r.Verdict(), "%s: %s %s", s.ID, r.Reason(), r.Detail())
			}
		}
	})
}

// What a policy does not look at it does not refuse, whatever its rules say: an
// older version of the same kind, what a condition leaves out, what it fails on.
func TestThePoliciesCannotBeGoneAround(t *testing.T) {
	for _, overlay := range []string{System, Playground} {
		objects := rendered(t, overlay)
		spec, _, err := unstructured.NestedMap(only(t, objects, "ValidatingAdmissionPolicy").Object, "spec")
		require.NoError(t, err)
		assert.Equal(t, "Fail", spec["failurePolicy"], overlay)
		assert.NotContains(t, spec, "matchConditions", overlay)
		constraints, _ := spec["matchConstraints"].(map[string]any)
		assert.Contains(t, []any{nil, "Equivalent"}, constraints["matchPolicy"], overlay)
		for _, field := range []string{"excludeResourceRules", "namespaceSelector", "objectSelector"} {
			assert.NotContains(t, constraints, field, overlay)
		}
		rules, _ := constraints["resourceRules"].([]any)
		require.Len(t, rules, 1, overlay)
		rule, _ := rules[0].(map[string]any)
		assert.Equal(t, []any{"CREATE", "UPDATE"}, rule["operations"], overlay)
		assert.NotContains(t, rule, "resourceNames", overlay)
		binding, _, err := unstructured.NestedMap(only(t, objects, "ValidatingAdmissionPolicyBinding").Object, "spec")
		require.NoError(t, err)
		assert.Equal(t, []any{"Deny"}, binding["validationActions"], overlay)
		where, _ := binding["matchResources"].(map[string]any)
		assert.Len(t, where, 1, "%s: nothing but the namespaces", overlay)
		assert.Contains(t, where, "namespaceSelector", overlay)
	}
}

// A namespace that the cluster does not make itself is its maker's.
func TestThePolicyOfTheReferenceLeavesOutNobodysNamespace(t *testing.T) {
	binding := only(t, rendered(t, System), "ValidatingAdmissionPolicyBinding")
	where, _, err := unstructured.NestedMap(binding.Object, "spec", "matchResources")
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"namespaceSelector": map[string]any{"matchExpressions": []any{map[string]any{
		"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": []any{"kube-system"}}}}}, where)
}

// The API server takes every quantity for a limit that is not negative.
func TestALimitOfNothingIsNone(t *testing.T) {
	d := newDoor(t, ReferenceNamespace, rendered(t, System))
	compliant := compliantSandbox(t)
	for limit, taken := range map[any]bool{
		"500m": true, "1": true, "10": true, "0.5": true, ".5": true, "+1": true, "1e3": true, "512Mi": true, "100M": true, "0010": true, int64(2): true,
		"0": false, "0m": false, "0.0": false, ".0": false, "00Gi": false, "+0": false, "0e5": false, "0E+12": false, int64(0): false, "-1": false, "": false,
	} {
		for _, resource := range []string{"cpu", "memory"} {
			sandbox := compliant()
			containers, _, err := unstructured.NestedSlice(sandbox, "spec", "podTemplate", "spec", "containers")
			require.NoError(t, err)
			for _, c := range containers {
				require.NoError(t, unstructured.SetNestedField(c.(map[string]any), limit, "resources", "limits", resource)) //nolint:forcetypeassert // it is a container
			}
			require.NoError(t, unstructured.SetNestedSlice(sandbox, containers, "spec", "podTemplate", "spec", "containers"))
			answer := d.admit("sandboxes", sandbox, http.StatusCreated)
			assert.Equal(t, taken, answer.Code == http.StatusCreated, "%s: %v is answered with %d %s", resource, limit, answer.Code, answer.Message)
			assert.Equal(t, !taken, strings.Contains(answer.Message, "resource limits"), "%s: %v", resource, limit)
		}
	}
}

func TestThePolicyOfThePlaygroundHoldsEveryAttackOnIt(t *testing.T) {
	d := newDoor(t, PlaygroundNamespace, rendered(t, Playground))
	compliant := compliantPod(t)
	assert.Equal(t, http.StatusCreated, d.admit("pods", compliant(), http.StatusCreated).Code)
	require.Len(t, doorScenarios("playground"), len(d.rules))
	for _, s := range doorScenarios("playground") {
		r := d.judge(s, compliant)
		assert.Equal(t, verdict.Held, r.Verdict(), "%s: %s %s", s.ID, r.Reason(), r.Detail())
	}
	around, ok := all.Registry.Get(beyond[0])
	require.True(t, ok)
	r := d.judge(around, compliant)
	assert.Equal(t, verdict.Held, r.Verdict(), "%s: %s %s", around.ID, r.Reason(), r.Detail())
	// What Pod Security alone forbids is not the door's.
	forbidden, ok := all.Registry.Get(beyond[1])
	require.True(t, ok)
	for _, step := range forbidden.Ask(t.Context(), d.environment(compliant)) {
		assert.Equal(t, strings.HasPrefix(step.Name, "require-pod-security: "), step.OK, "%s: %s", step.Name, step.Detail)
	}
}

// This is the kill matrix of these mutants, without a cluster.
func TestEveryMutantOfThePolicyIsKilledAndKillsNothingElse(t *testing.T) {
	compliant := compliantPod(t)
	weakened(t, BasePlayground, func(t *testing.T, m Mutant, d *door) {
		attacks := doorScenarios("playground")
		for _, id := range beyond {
			if s, ok := all.Registry.Get(id); ok && slices.Contains(m.Kills, id) {
				attacks = append(attacks, s)
			}
		}
		for _, s := range attacks {
			want := verdict.Held
			if slices.Contains(m.Kills, s.ID) {
				want = verdict.Breached
			}
			r := d.judge(s, compliant)
			assert.Equal(t, want, r.Verdict(), "%s: %s %s", s.ID, r.Reason(), r.Detail())
		}
	})
}

func TestThePolicyReadsAPodThatSaysNothing(t *testing.T) {
	d := newDoor(t, PlaygroundNamespace, rendered(t, Playground))
	bare := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "x"}}}}
	got := d.admit("pods", bare, http.StatusCreated)
	assert.Contains(t, got.Message, "the runtime class", "an absent field is a refusal, not an error")
}
