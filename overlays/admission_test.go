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
	"github.com/stockade-dev/stockade/workloads/execution"
)

// door is an API server that knows one admission policy and nothing else. It
// evaluates the policy's own expressions, in their order, as the real one does.
type door struct {
	t         *testing.T
	resources []string
	variables []program
	rules     []program
}

type program struct {
	name string // of a variable, or a rule's message
	cel.Program
}

func newDoor(t *testing.T, policy unstructured.Unstructured) *door {
	t.Helper()
	d := &door{t: t}
	env, err := cel.NewEnv(cel.Variable("object", cel.DynType), cel.Variable("variables", cel.DynType))
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
	d.variables, d.rules = compile("variables", "name"), compile("validations", "message")
	rules, _, err := unstructured.NestedSlice(policy.Object, "spec", "matchConstraints", "resourceRules")
	require.NoError(t, err)
	for _, r := range rules {
		names, _, err := unstructured.NestedStringSlice(r.(map[string]any), "resources") //nolint:forcetypeassert // it is a rule
		require.NoError(t, err)
		d.resources = append(d.resources, names...)
	}
	return d
}

// admit returns the API server's answer about a Pod.
func (d *door) admit(resource string, pod map[string]any, code int) suite.Answer {
	if !slices.Contains(d.resources, resource) {
		return suite.Answer{Code: code}
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
	require.True(d.t, dryRun, "nothing may be stored")
	return d.admit("pods", o, http.StatusCreated), nil
}

func (d *door) Update(context.Context, suite.Object) (suite.Answer, error) {
	return suite.Answer{Code: http.StatusNotFound}, nil
}

func (d *door) Get(context.Context, string, string, string) (suite.Answer, error) {
	return suite.Answer{Code: http.StatusNotFound}, nil
}

func (d *door) Delete(context.Context, string, string, string) (suite.Answer, error) {
	return suite.Answer{Code: http.StatusNotFound}, nil
}

// environment is that of a run whose live Pod is a compliant one.
func (d *door) environment(compliant func() suite.Object) *suite.APIEnv {
	return &suite.APIEnv{
		Nonce: strings.Repeat("a", 32), API: d, Pod: compliant, Namespace: "playground", Live: "live",
		Do: func(_ context.Context, _ suite.Identity, r suite.Request) (suite.Answer, error) {
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

// doorScenarios are those that the policy alone answers.
func doorScenarios() (out []*suite.Scenario) {
	for _, s := range all.Registry.All() {
		if strings.HasPrefix(s.ID, "playground.") && s.Params["says"] != "" && s.ID != "playground.require-pod-security" {
			out = append(out, s)
		}
	}
	return out
}

func TestThePolicyOfThePlaygroundHoldsEveryAttackOnIt(t *testing.T) {
	d := newDoor(t, only(t, rendered(t, Playground), "ValidatingAdmissionPolicy"))
	compliant := compliantPod(t)
	assert.Equal(t, http.StatusCreated, d.admit("pods", compliant(), http.StatusCreated).Code)
	require.Len(t, doorScenarios(), len(d.rules))
	for _, s := range doorScenarios() {
		r := d.judge(s, compliant)
		assert.Equal(t, verdict.Held, r.Verdict(), "%s: %s %s", s.ID, r.Reason(), r.Detail())
	}
}

// This is the kill matrix of these mutants, without a cluster.
func TestEveryMutantOfThePolicyIsKilledAndKillsNothingElse(t *testing.T) {
	compliant := compliantPod(t)
	for _, m := range mutants(t) {
		if m.Base != BasePlayground || m.Changes.Kind != "ValidatingAdmissionPolicy" {
			continue
		}
		t.Run(m.ID, func(t *testing.T) {
			objects, err := m.Render(module(t))
			require.NoError(t, err)
			d := newDoor(t, only(t, objects, "ValidatingAdmissionPolicy"))
			for _, s := range doorScenarios() {
				want := verdict.Held
				if slices.Contains(m.Kills, s.ID) {
					want = verdict.Breached
				}
				r := d.judge(s, compliant)
				assert.Equal(t, want, r.Verdict(), "%s: %s %s", s.ID, r.Reason(), r.Detail())
			}
		})
	}
}

func TestThePolicyReadsAPodThatSaysNothing(t *testing.T) {
	d := newDoor(t, only(t, rendered(t, Playground), "ValidatingAdmissionPolicy"))
	bare := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "x"}}}}
	got := d.admit("pods", bare, http.StatusCreated)
	assert.Contains(t, got.Message, "the runtime class", "an absent field is a refusal, not an error")
}
