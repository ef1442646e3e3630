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
