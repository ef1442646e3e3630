// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

// compliant is a Sandbox as the runner hands it out.
func compliant() suite.Object {
	return object{
		"metadata": object{},
		"spec": object{"podTemplate": object{"spec": object{
			"runtimeClassName": "gvisor", "automountServiceAccountToken": false,
			"nodeSelector":    object{taint: "gvisor"},
			"tolerations":     []any{object{"key": taint, "value": "gvisor", "effect": "NoSchedule"}},
			"securityContext": object{"runAsNonRoot": true},
			"containers": []any{object{
				"name": "runtime", "securityContext": object{"capabilities": object{"drop": []any{"ALL"}}, "allowPrivilegeEscalation": false},
				"resources": object{"limits": object{"cpu": "1", "memory": "1Gi"}},
			}},
		}}},
	}
}

// server answers every create alike and remembers what it was asked.
type server struct {
	answer suite.Answer
	err    error
	asked  []suite.Object
	pod    suite.Object
	// stored is what was created, and changes how an update is answered.
	stored  suite.Object
	changes func(suite.Object) suite.Answer
	deleted int
}

func (s *server) Create(_ context.Context, o suite.Object, _ bool) (suite.Answer, error) {
	s.asked = append(s.asked, o)
	s.stored = o
	return s.answer, s.err
}
func (s *server) Update(_ context.Context, o suite.Object) (suite.Answer, error) {
	return s.changes(o), nil
}
func (s *server) Get(_ context.Context, _, kind, _ string) (suite.Answer, error) {
	if kind == "Sandbox" {
		return suite.Answer{Code: 200, Object: manifest.Clone(s.stored)}, nil
	}
	return suite.Answer{Code: 200, Object: s.pod}, nil
}
func (s *server) Delete(context.Context, string, string, string) (suite.Answer, error) {
	s.deleted++
	return suite.Answer{Code: 200}, nil
}

func env(s *server) *suite.APIEnv {
	return &suite.APIEnv{Nonce: "0123456789abcdef0123456789abcdef", API: s, Sandbox: compliant,
		Pod: func() suite.Object { return object{"spec": object{"runtimeClassName": "gvisor"}} }}
}

func TestEveryCaseChangesTheSandbox(t *testing.T) {
	for _, r := range rules {
		for _, v := range r.cases {
			t.Run(r.id+"/"+v.name, func(t *testing.T) {
				obj := compliant()
				pod, err := podSpec(obj)
				require.NoError(t, err)
				v.change(pod)
				assert.NotEqual(t, compliant(), obj, "a case that changes nothing asks for nothing")
			})
		}
	}
}

func TestAnInitContainerCaseLeavesTheOrdinaryContainersCompliant(t *testing.T) {
	for _, r := range rules {
		for _, v := range r.cases {
			obj := compliant()
			pod, _ := podSpec(obj)
			v.change(pod)
			if pod["initContainers"] == nil {
				continue
			}
			want, _ := podSpec(compliant())
			assert.Equal(t, want["containers"], pod["containers"], "%s/%s", r.id, v.name)
		}
	}
}

func TestEachRuleIsAScenarioOfItsOwn(t *testing.T) {
	var r suite.Registry
	r.MustAdd(Scenarios()...)
	assert.Len(t, r.All(), len(rules)+3)
}

func TestOnlyTheRulesOwnMessageIsADenial(t *testing.T) {
	r := rules[0]
	for name, tc := range map[string]struct {
		answer suite.Answer
		err    error
		want   verdict.Step
	}{
		"the rule's message":   {answer: suite.Answer{Code: 422, Message: "denied: use " + r.says}, want: verdict.Step{Class: verdict.AdmissionDenied}},
		"as forbidden":         {answer: suite.Answer{Code: 403, Message: "denied: use " + r.says}, want: verdict.Step{Class: verdict.AdmissionDenied}},
		"another rule's":       {answer: suite.Answer{Code: 422, Message: "spec.foo: Required value"}, want: verdict.Step{Class: verdict.Unknown}},
		"a quota":              {answer: suite.Answer{Code: 403, Message: "exceeded quota"}, want: verdict.Step{Class: verdict.Unknown}},
		"created":              {answer: suite.Answer{Code: 201}, want: verdict.Step{OK: true}},
		"an unknown kind":      {answer: suite.Answer{Code: 404}, want: verdict.Step{Class: verdict.Unknown}},
		"no answer":            {answer: suite.Answer{}, want: verdict.Step{Class: verdict.TransportError}},
		"a lost connection":    {err: errors.New("reset"), want: verdict.Step{Class: verdict.TransportError}},
		"an overloaded server": {answer: suite.Answer{Code: 429}, want: verdict.Step{Class: verdict.Unknown}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range r.ask(t.Context(), env(&server{answer: tc.answer, err: tc.err})) {
				assert.Equal(t, tc.want.OK, s.OK)
				assert.Equal(t, tc.want.Class, s.Class, s.Detail)
			}
		})
	}
}

func TestTheControlAsksForTheUnchangedSandbox(t *testing.T) {
	s := &server{answer: suite.Answer{Code: 201}}
	steps := takeCompliant(t.Context(), env(s))
	require.Len(t, steps, 1)
	assert.True(t, steps[0].OK)
	got := maps.Clone(s.asked[0])
	delete(got, "metadata")
	want := compliant()
	delete(want, "metadata")
	assert.Equal(t, want, got)
}

func TestTheSchedulersAnswerMustNameTheTaint(t *testing.T) {
	pending := func(message string) suite.Object {
		return object{"spec": object{}, "status": object{"conditions": []any{object{
			"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}}}}
	}
	for name, tc := range map[string]struct {
		pod     suite.Object
		decided bool
		ok      bool
		class   verdict.Class
	}{
		"put on a node":     {object{"spec": object{"nodeName": "gvisor-1"}}, true, true, ""},
		"kept out":          {pending("0/2 nodes are available: 1 had untolerated taint {sandbox.gke.io/runtime: gvisor}"), true, false, verdict.Unschedulable},
		"kept out, in 1.36": {pending("0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s). no new claims"), true, false, verdict.Unschedulable},
		"by another taint":  {pending("0/2 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }"), true, false, verdict.Unknown},
		"no room":           {pending("0/2 nodes are available: 2 Insufficient cpu"), true, false, verdict.Unknown},
		"no word yet":       {object{"spec": object{}}, false, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			step, decided := scheduled("x", tc.pod)
			assert.Equal(t, tc.decided, decided)
			assert.Equal(t, tc.ok, step.OK)
			assert.Equal(t, tc.class, step.Class)
		})
	}
}

func TestAnOrdinaryPodIsNoSandbox(t *testing.T) {
	s := &server{answer: suite.Answer{Code: 201}, pod: object{"spec": object{"nodeName": "n"}}}
	step := schedule(t.Context(), env(s), "x", false)
	assert.True(t, step.OK)
	spec := manifest.Child(s.asked[0], "spec")
	assert.NotContains(t, spec, "runtimeClassName")
	assert.NotContains(t, spec, "tolerations")
	assert.Equal(t, object{taint: "gvisor"}, spec["nodeSelector"])
}

func TestEveryRuleIsAskedForInAnUpdateToo(t *testing.T) {
	asked := 0
	s := &server{answer: suite.Answer{Code: 201}, changes: func(o suite.Object) suite.Answer {
		r := rules[asked]
		asked++
		if spec := manifest.Child(o, "spec"); spec["operatingMode"] != "Suspended" {
			return suite.Answer{Code: 500, Message: "it would have a Pod"}
		}
		return suite.Answer{Code: 422, Message: "denied: " + r.says}
	}}
	steps := rejectUpdate().Ask(t.Context(), env(s))
	require.Len(t, steps, len(rules))
	for _, step := range steps {
		assert.Equal(t, verdict.AdmissionDenied, step.Class, "%s: %s", step.Name, step.Detail)
	}
	assert.Equal(t, 1, s.deleted)
}

// A policy with operations: [CREATE] takes every one of them.
func TestAnUpdateThatIsTakenIsABreach(t *testing.T) {
	s := &server{answer: suite.Answer{Code: 201}, changes: func(suite.Object) suite.Answer { return suite.Answer{Code: 200} }}
	for _, step := range rejectUpdate().Ask(t.Context(), env(s)) {
		assert.True(t, step.OK, step.Name)
	}
	assert.True(t, rejectUpdate().AskControl(t.Context(), env(s))[0].OK)
}

func TestAnUpdateThatAdmissionNeverSawIsNoDenial(t *testing.T) {
	conflicts := 0
	late := &server{answer: suite.Answer{Code: 201}, changes: func(suite.Object) suite.Answer {
		if conflicts++; conflicts < 3 {
			return suite.Answer{Code: 409, Message: "the object has been modified"}
		}
		return suite.Answer{Code: 422, Message: rules[0].says}
	}}
	assert.Equal(t, verdict.AdmissionDenied, changed(t.Context(), env(late), rules[:1])[0].Class)
	for name, s := range map[string]*server{
		"a conflict without end":   {answer: suite.Answer{Code: 201}, changes: func(suite.Object) suite.Answer { return suite.Answer{Code: 409} }},
		"another rule's refusal":   {answer: suite.Answer{Code: 201}, changes: func(suite.Object) suite.Answer { return suite.Answer{Code: 422, Message: "immutable"} }},
		"nothing could be created": {answer: suite.Answer{Code: 403, Message: rules[0].says}},
	} {
		step := changed(t.Context(), env(s), rules[:1])[0]
		assert.False(t, step.OK, name)
		assert.False(t, step.Class.IsEvidence(), name)
	}
}
