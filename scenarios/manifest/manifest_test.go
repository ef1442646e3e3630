// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

func TestAPathThatIsNotThereIsNil(t *testing.T) {
	o := Object{"metadata": Object{"name": "a", "labels": Object{"app": "run"}}}
	assert.Equal(t, "run", At(o, "metadata", "labels", "app"))
	assert.Nil(t, At(o, "metadata", "name", "deeper"))
	assert.Nil(t, At(nil, "metadata"))
	assert.Equal(t, Object{"app": "run"}, Map(o, "metadata", "labels"))
	assert.Nil(t, Map(o, "metadata", "name"))
	assert.Equal(t, "a", Name(o))
	assert.Empty(t, Name(Object{}))
	assert.NotContains(t, o, "spec", "nothing is made by reading")
}

func TestAConditionIsFoundByItsType(t *testing.T) {
	o := Object{"status": Object{"conditions": []any{
		Object{"type": "Initialized", "status": "True"}, Object{"type": "Ready", "status": "False"}, "none"}}}
	assert.Equal(t, "False", Condition(o, "Ready")["status"])
	assert.Nil(t, Condition(o, "PodScheduled"))
	assert.Nil(t, Condition(Object{}, "Ready"))
}

func TestAPodThatIsYetToRunHasNotEnded(t *testing.T) {
	for phase, want := range map[string]bool{"Pending": false, "Running": false, "Unknown": false, "Succeeded": true, "Failed": true} {
		assert.Equal(t, want, Ended(Object{"status": Object{"phase": phase}}), phase)
	}
	assert.False(t, Ended(Object{}))
}

func TestACloneSharesNothing(t *testing.T) {
	o := Object{"containers": []any{Object{"name": "a", "command": []any{"b"}}}}
	c := Clone(o)
	assert.Equal(t, o, c)
	InContainers(Security("privileged", true))(c)
	Containers(c)[0]["command"].([]any)[0] = "c"
	assert.Equal(t, Object{"containers": []any{Object{"name": "a", "command": []any{"b"}}}}, o)
}

func TestAVolumeIsAddedAndItsSourceStaysAsItWas(t *testing.T) {
	source := Object{"hostPath": Object{"path": "/run"}}
	spec := Object{"volumes": []any{Object{"name": "tmp"}}}
	Volume(source)(spec)
	assert.Equal(t, []any{Object{"name": "tmp"}, Object{"name": "attack", "hostPath": Object{"path": "/run"}}}, spec["volumes"])
	assert.NotContains(t, source, "name")
}

// deleter tells whether it was asked in time.
type deleter struct {
	suite.Client
	err     error
	deleted string
}

func (d *deleter) Delete(ctx context.Context, apiVersion, kind, name string) (suite.Answer, error) {
	d.err, d.deleted = ctx.Err(), apiVersion+" "+kind+" "+name
	return suite.Answer{Code: 200}, nil
}

func TestWhatAScenarioMadeIsRemovedWhenItsTimeIsUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var d deleter
	Remove(ctx, &suite.APIEnv{API: &d}, "v1", "Pod", "a")
	assert.NoError(t, d.err)
	assert.Equal(t, "v1 Pod a", d.deleted)
}

func TestOnlyARefusalIsADenial(t *testing.T) {
	for code, want := range map[int]verdict.Class{
		0: verdict.TransportError, 200: "", 201: "", 400: verdict.Unknown, 403: verdict.AdmissionDenied,
		404: verdict.Unknown, 409: verdict.Unknown, 422: verdict.AdmissionDenied, 429: verdict.Unknown, 500: verdict.Unknown,
	} {
		step := Judge("ask", suite.Answer{Code: code}, nil)
		assert.Equal(t, want, step.Class, "%d", code)
		assert.Equal(t, want == "", step.OK, "%d", code)
	}
}

// asked answers every create alike, and remembers what was asked for.
type asked struct {
	suite.Client
	answer suite.Answer
	all    []Object
}

func (a *asked) Create(_ context.Context, o suite.Object, dryRun bool) (suite.Answer, error) {
	if !dryRun {
		return suite.Answer{Code: 500}, nil
	}
	a.all = append(a.all, o)
	return a.answer, nil
}

func compliant() Object {
	return Object{"apiVersion": "v1", "kind": "Pod", "metadata": Object{}, "spec": Object{
		"securityContext": Object{"runAsNonRoot": true, "runAsUser": int64(1000), "seccompProfile": Object{"type": "RuntimeDefault"}},
		"containers":      []any{Object{"name": "c", "securityContext": Object{"allowPrivilegeEscalation": false, "capabilities": Object{"drop": []any{"ALL"}}}}}}}
}

func TestOnlyTheLevelRestrictedItselfRefuses(t *testing.T) {
	// What Kubernetes says of each.
	words := map[string]string{
		"privileged":                   `privileged (container "c" must not set securityContext.privileged=true), allowPrivilegeEscalation != false (container "c" must set it)`,
		"hostNetwork":                  "host namespaces (hostNetwork=true)",
		"hostPID":                      "host namespaces (hostPID=true)",
		"hostIPC":                      "host namespaces (hostIPC=true)",
		"a folder of the node":         `restricted volume types (volume "attack" uses restricted volume type "hostPath")`,
		"a port of the node":           `hostPort (container "c" uses hostPort 8080)`,
		"a capability added":           `unrestricted capabilities (container "c" must not include "NET_RAW" in securityContext.capabilities.add)`,
		"an unsafe sysctl":             "forbidden sysctls (kernel.msgmax)",
		"privilege escalation allowed": `allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false)`,
		"capabilities kept":            `unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"])`,
		"no seccomp profile":           `seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`,
		"runAsNonRoot left out":        `runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)`,
		"runAsUser 0":                  "runAsUser=0 (pod must not set runAsUser=0)",
		"a disk of the network":        `restricted volume types (volume "attack" uses restricted volume type "nfs")`,
	}
	of := func(name, message string) verdict.Step {
		a := &asked{answer: suite.Answer{Code: 403, Reason: "Forbidden", Message: message}}
		for i, step := range BelowRestricted(t.Context(), &suite.APIEnv{Nonce: "0123456789abcdef", API: a, Pod: compliant}) {
			assert.NotEqual(t, compliant()["spec"], a.all[i]["spec"], "%s asks for nothing else", step.Name)
			if step.Name == name {
				return step
			}
		}
		t.Errorf("nothing is called %s", name)
		return verdict.Step{}
	}
	assert.Len(t, words, len(demands))
	for name, why := range words {
		for message, want := range map[string]verdict.Class{
			`pods "x" is forbidden: violates PodSecurity "restricted:latest": ` + why: verdict.AdmissionDenied,
			`pods "x" is forbidden: violates PodSecurity "baseline:latest": ` + why:   verdict.Unknown,
			`pods "x" is forbidden: violates PodSecurity "restricted:latest": hm`:     verdict.Unknown,
			"a policy of somebody's forbids it: " + why:                               verdict.Unknown,
			"exceeded quota": verdict.Unknown,
		} {
			step := of(name, message)
			assert.Equal(t, want, step.Class, "%s: %s", name, step.Detail)
			assert.False(t, step.OK)
		}
	}
	a := &asked{answer: suite.Answer{Code: 201}}
	for _, step := range BelowRestricted(t.Context(), &suite.APIEnv{Nonce: "0123456789abcdef", API: a, Pod: compliant}) {
		assert.True(t, step.OK, step.Name)
	}
}

func TestAQuantityIsReadAsTheAPIServerWritesIt(t *testing.T) {
	for text, want := range map[any]float64{"500m": 0.5, "2": 2, int64(1): 1, 0.5: 0.5, "0": 0, "64Mi": 64 << 20, "8Gi": 8 << 30, "1k": 1000, "1e3": 1000, "1500M": 1.5e9, "100n": 1e-7} {
		n, ok := Quantity(text)
		assert.True(t, ok, text)
		assert.InDelta(t, want, n, 1e-12, text)
	}
	for _, text := range []any{"", "much", "Mi", "1Mib", "NaN", "+Inf", "5 Gi", nil, "1mm"} {
		_, ok := Quantity(text)
		assert.False(t, ok, text)
	}
}
