// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
)

func network(t *testing.T) *engine {
	t.Helper()
	e := start(t, Options{})
	e.make(typeService, "compute", values{"service": apiCompute})
	return e
}

func TestTheCloudOutlivesItsProcess(t *testing.T) {
	dir := t.TempDir()
	e := start(t, Options{Dir: dir})
	e.make(typeService, "compute", values{"service": apiCompute})
	e.make(typeNetwork, "vpc", values{"name": "vpc"})
	again := start(t, Options{Dir: dir})
	assert.Equal(t, e.p.c.Resources(), again.p.c.Resources())
	assert.Equal(t, "vpc", again.p.c.Resources()[1].Name())
	_, _, err := again.create(typeNetwork, "vpc", values{"name": "vpc"})
	assert.ErrorContains(t, err, "409")
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range files {
		assert.NotEqual(t, ".new", filepath.Ext(f.Name()), "nothing half-written is left")
	}
}

func TestAStateThatIsNoneIsNotTakenForAnEmptyCloud(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, stateFile), []byte("{"), 0o600))
	schema, err := theSchema()
	require.NoError(t, err)
	_, err = Open(schema, Options{Dir: dir})
	assert.ErrorContains(t, err, "opening the stand-in cloud")
}

func TestTheJournalHasEveryCall(t *testing.T) {
	e := network(t)
	id, _ := e.make(typeNetwork, "vpc", values{"name": "vpc"})
	_, _, err := e.create(typeNetwork, "vpc", values{"name": "vpc"})
	require.Error(t, err)
	e.diff(typeNetwork, values{"name": "a"}, values{"name": "b"})
	require.NoError(t, e.delete(typeNetwork, id))
	calls, err := e.p.c.Journal()
	require.NoError(t, err)
	var got []string
	for _, c := range calls {
		got = append(got, c.Call)
	}
	assert.Equal(t, []string{"configure", "check", "create", "check", "create", "check", "create", "diff", "delete"}, got)
	assert.Equal(t, id, calls[4].ID)
	assert.Equal(t, "vpc", calls[4].Name())
	assert.Contains(t, calls[6].Error, "409")
	assert.Equal(t, []string{"name"}, calls[7].Replaces)
}

func TestAJournalOfNothingIsEmpty(t *testing.T) {
	schema, err := theSchema()
	require.NoError(t, err)
	c, err := Open(schema, Options{Dir: t.TempDir()})
	require.NoError(t, err)
	calls, err := c.Journal()
	require.NoError(t, err)
	assert.Empty(t, calls)
}

func TestAnOrderedErrorComesOnce(t *testing.T) {
	for code, word := range map[int]string{403: "quotaExceeded", 409: "alreadyExists", 429: "rateLimitExceeded", 500: "backendError"} {
		e := network(t)
		e.p.c.Inject(Fault{Call: "create", Type: typeNetwork, Nth: 2, Status: code})
		e.make(typeNetwork, "a", values{})
		assert.Equal(t, 1, e.p.c.Pending())
		_, _, err := e.create(typeNetwork, "b", values{})
		assert.ErrorContains(t, err, word)
		assert.Equal(t, 0, e.p.c.Pending())
		e.make(typeNetwork, "b", values{})
	}
}

func TestAnOrderedErrorIsForOneNameAlone(t *testing.T) {
	e := network(t)
	e.p.c.Inject(Fault{Call: "create", Name: "b", Status: 403})
	e.make(typeNetwork, "a", values{})
	_, _, err := e.create(typeNetwork, "b", values{})
	assert.ErrorContains(t, err, "403")
}

func TestAPartialFailureIsThereAndSaysSo(t *testing.T) {
	e := network(t)
	e.p.c.Inject(Fault{Call: "create", Type: typeNetwork, Status: 500, Partial: true})
	_, _, err := e.create(typeNetwork, "vpc", values{"name": "vpc"})
	require.Error(t, err)
	details := status.Convert(err).Details()
	require.Len(t, details, 1)
	failed, ok := details[0].(*pulumirpc.ErrorResourceInitFailed)
	require.True(t, ok)
	assert.Equal(t, "projects/example-project/global/networks/vpc", failed.GetId())
	assert.Equal(t, "vpc", failed.GetProperties().AsMap()["name"])
	assert.Len(t, e.p.c.all(typeNetwork), 1)
	require.NoError(t, e.update(typeNetwork, failed.GetId(), failed.GetInputs().AsMap()), "the next update mends it")
}

func TestALostAnswerLeavesWhatWasMade(t *testing.T) {
	e := network(t)
	e.p.c.Inject(Fault{Call: "create", Type: typeNetwork, Status: 500, Lost: true})
	_, _, err := e.create(typeNetwork, "vpc", values{"name": "vpc"})
	require.ErrorContains(t, err, "500")
	assert.Equal(t, codes.Unknown, status.Code(err))
	_, _, err = e.create(typeNetwork, "vpc", values{"name": "vpc"})
	assert.ErrorContains(t, err, "409", "nobody knows that it is ours")
}

func TestErrorsCanBeOrderedForEveryCall(t *testing.T) {
	e := network(t)
	id, _ := e.make(typeNetwork, "vpc", values{"name": "vpc"})
	for _, call := range []string{"read", "update", "delete"} {
		e.p.c.Inject(Fault{Call: call, Status: 429})
	}
	_, err := e.p.Read(t.Context(), &pulumirpc.ReadRequest{Type: typeNetwork, Urn: urn(typeNetwork, "x"), Id: id})
	assert.ErrorContains(t, err, "429")
	assert.ErrorContains(t, e.update(typeNetwork, id, values{"name": "vpc"}), "429")
	assert.ErrorContains(t, e.delete(typeNetwork, id), "429")
	e.p.c.Inject(Fault{Call: "update", Status: 500, Partial: true})
	err = e.update(typeNetwork, id, values{"name": "vpc", "routingMode": "GLOBAL"})
	assert.ErrorContains(t, err, "500")
	assert.Equal(t, "GLOBAL", e.p.c.Resources()[1].Inputs["routingMode"], "it took effect")
	e.p.c.Inject(Fault{Call: "delete", Status: 500, Lost: true})
	assert.ErrorContains(t, e.delete(typeNetwork, id), "500")
	require.NoError(t, e.delete(typeNetwork, id), "what is gone may be deleted again")
	assert.Empty(t, e.p.c.all(typeNetwork))
}

func TestTheCloudHasOneProject(t *testing.T) {
	e := start(t, Options{})
	_, err := e.p.Configure(t.Context(), &pulumirpc.ConfigureRequest{Args: e.wire(values{"project": "somebody-elses"})})
	assert.ErrorContains(t, err, "example-project")
	resp, err := e.p.Invoke(t.Context(), &pulumirpc.InvokeRequest{Tok: "gcp:organizations/getProject:getProject"})
	require.NoError(t, err)
	assert.Equal(t, "100000000001", resp.GetReturn().AsMap()["number"])
}
