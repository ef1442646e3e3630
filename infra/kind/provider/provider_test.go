// SPDX-License-Identifier: Apache-2.0

package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil/rpcerror"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/stockade-dev/stockade/infra/kind/provider"
	"github.com/stockade-dev/stockade/infra/kind/provider/fake"
)

const urn = "urn:pulumi:dev::stockade::stockade:kind:Cluster::cluster"

// with returns a provider that works through s, and what it has shown.
func with(t *testing.T, s provider.CLI, env map[string]string) (*provider.Provider, *[]string) {
	t.Helper()
	shown := &[]string{}
	return provider.New(t.Context(), provider.Options{
		CLI:    func(string) provider.CLI { return s },
		Status: func(at, line string) { *shown = append(*shown, at+" "+line) },
		Getenv: func(k string) string { return env[k] },
	}), shown
}

func props(t *testing.T, m map[string]any) *structpb.Struct {
	t.Helper()
	s, err := plugin.MarshalProperties(resource.NewPropertyMapFromMap(m), plugin.MarshalOptions{KeepUnknowns: true, KeepSecrets: true})
	require.NoError(t, err)
	return s
}

func values(t *testing.T, s *structpb.Struct) resource.PropertyMap {
	t.Helper()
	m, err := plugin.UnmarshalProperties(s, plugin.MarshalOptions{KeepUnknowns: true, KeepSecrets: true})
	require.NoError(t, err)
	return m
}

// create makes a cluster and returns its id and properties.
func create(t *testing.T, p *provider.Provider, inputs map[string]any) (string, *structpb.Struct) {
	t.Helper()
	r, err := p.Create(t.Context(), &pulumirpc.CreateRequest{Urn: urn, Properties: props(t, inputs)})
	require.NoError(t, err)
	return r.GetId(), r.GetProperties()
}

func TestCreateBringsTheClusterUpAndSaysWhereItIs(t *testing.T) {
	s := &fake.Stockade{}
	p, shown := with(t, s, nil)
	id, out := create(t, p, map[string]any{"home": "/h"})
	assert.Equal(t, "uid-1", id)
	assert.Equal(t, []string{"/h: up --bare", "/h: place"}, s.Calls())
	assert.Equal(t, []string{urn + " … up --bare", urn + " … place"}, *shown)

	m := values(t, out)
	assert.Equal(t, "/h", m["home"].StringValue())
	assert.Equal(t, "uid-1", m["uid"].StringValue())
	assert.True(t, m["healthy"].BoolValue())
	assert.Len(t, m["nodes"].ArrayValue(), 2)
	assert.Equal(t, "v1.36.3", m["kubernetesVersion"].StringValue())
	assert.True(t, m["descriptor"].ObjectValue()["disruptive"].BoolValue())
}

func TestMoreProfilesAndNewerProgramsComeInPlace(t *testing.T) {
	s := &fake.Stockade{}
	p, _ := with(t, s, nil)
	before := map[string]any{"profiles": []any{"playground"}, "programs": []any{"probe-1"}}
	more := map[string]any{"profiles": []any{"playground", "all"}, "programs": []any{"probe-1"}}
	newer := map[string]any{"profiles": []any{"playground"}, "programs": []any{"probe-2"}}
	id, state := create(t, p, before)
	assert.Equal(t, []string{": up --bare --profile playground", ": place"}, s.Calls())

	diff := func(olds, news map[string]any) *pulumirpc.DiffResponse {
		d, err := p.Diff(t.Context(), &pulumirpc.DiffRequest{Urn: urn, Id: id, Olds: state, OldInputs: props(t, olds), News: props(t, news)})
		require.NoError(t, err)
		assert.Empty(t, d.GetReplaces())
		return d
	}
	assert.Equal(t, pulumirpc.DiffResponse_DIFF_NONE, diff(before, before).GetChanges())
	assert.Equal(t, pulumirpc.DiffResponse_DIFF_NONE, diff(nil, map[string]any{"profiles": []any{}}).GetChanges(), "none is none")
	assert.Equal(t, []string{"profiles"}, diff(before, more).GetDiffs())
	assert.Equal(t, []string{"programs"}, diff(before, newer).GetDiffs())

	update := func(news map[string]any, preview bool) resource.PropertyMap {
		u, err := p.Update(t.Context(), &pulumirpc.UpdateRequest{Urn: urn, Id: id, Olds: state, News: props(t, news), Preview: preview})
		require.NoError(t, err)
		return values(t, u.GetProperties())
	}
	for _, news := range []map[string]any{more, newer} {
		planned := update(news, true)
		assert.Equal(t, id, planned["uid"].StringValue(), "it stays the same cluster")
		for _, k := range secrets {
			assert.True(t, planned[k].IsSecret() && !planned[k].ContainsUnknowns(), k)
		}
		assert.Equal(t, news["profiles"], planned["profiles"].Mappable())
	}
	assert.False(t, update(more, true)["images"].ContainsUnknowns(), "those that are there stay")
	assert.True(t, update(newer, true)["images"].IsComputed())
	assert.Len(t, s.Calls(), 2, "a preview runs nothing")
	assert.Equal(t, id, update(more, false)["uid"].StringValue())
	assert.Equal(t, []string{": up --bare --profile playground,all", ": place"}, s.Calls()[2:])
}

func TestProfilesAreAListOfNames(t *testing.T) {
	p, _ := with(t, &fake.Stockade{}, nil)
	for _, v := range []any{"all", []any{1.0}, []any{""}, []any{"a,b"}, []any{"a\n"}} {
		r, err := p.Check(t.Context(), &pulumirpc.CheckRequest{Urn: urn, News: props(t, map[string]any{"profiles": v})})
		require.NoError(t, err)
		require.Len(t, r.GetFailures(), 1, v)
		assert.Equal(t, "profiles", r.GetFailures()[0].GetProperty())
	}
}

// secrets are the properties that no state shows.
var secrets = []resource.PropertyKey{"kubeconfig", "tokens"}

func TestTheKubeconfigAndTheTokensAreSecrets(t *testing.T) {
	p, _ := with(t, &fake.Stockade{}, nil)
	_, out := create(t, p, nil)
	m := values(t, out)
	require.True(t, m["kubeconfig"].IsSecret())
	assert.Equal(t, "made: up", m["kubeconfig"].SecretValue().Element.StringValue())
	assert.Equal(t, "made sha256:up\n", m["tokens"].SecretValue().Element.StringValue())
	assert.Equal(t, "PEM", m["rangeCA"].StringValue())
	for k, v := range m {
		assert.Equal(t, slices.Contains(secrets, k), v.ContainsSecrets(), k)
	}
}

func TestPreviewRunsNothing(t *testing.T) {
	s := &fake.Stockade{}
	p, _ := with(t, s, nil)
	r, err := p.Create(t.Context(), &pulumirpc.CreateRequest{Urn: urn, Properties: props(t, map[string]any{"home": "/h"}), Preview: true})
	require.NoError(t, err)
	assert.Empty(t, r.GetId())
	m := values(t, r.GetProperties())
	assert.True(t, m["uid"].IsComputed())
	assert.True(t, m["kubeconfig"].IsSecret() && m["tokens"].IsSecret())
	assert.Equal(t, "/h", m["home"].StringValue())
	u, err := p.Update(t.Context(), &pulumirpc.UpdateRequest{Urn: urn, News: props(t, nil), Preview: true})
	require.NoError(t, err)
	assert.True(t, values(t, u.GetProperties())["uid"].IsComputed())
	assert.Empty(t, s.Calls())
}

func TestEveryPropertyIsInTheSchema(t *testing.T) {
	p, _ := with(t, &fake.Stockade{}, nil)
	r, err := p.GetSchema(t.Context(), &pulumirpc.GetSchemaRequest{})
	require.NoError(t, err)
	var schema struct {
		Name      string
		Version   string
		Resources map[string]struct {
			InputProperties map[string]any
			Properties      map[string]struct{ Secret bool }
			Required        []string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.GetSchema()), &schema))
	assert.Equal(t, "stockade", schema.Name)
	info, err := p.GetPluginInfo(t.Context(), nil)
	require.NoError(t, err)
	assert.Equal(t, info.GetVersion(), schema.Version)
	cluster := schema.Resources[provider.Type]
	_, out := create(t, p, map[string]any{"home": "/h", "inputs": "1", "profiles": []any{"all"}, "programs": []any{"p-1"}})
	var names []string
	for k := range values(t, out) {
		names = append(names, string(k))
		assert.Equal(t, slices.Contains(secrets, k), cluster.Properties[string(k)].Secret, k)
	}
	declared := append([]string{"home", "inputs", "profiles", "programs"}, cluster.Required...)
	assert.ElementsMatch(t, declared, names)
	assert.Len(t, cluster.Properties, len(names))
	assert.Len(t, cluster.InputProperties, 4)
}

func TestTheHomeIsWrittenDownWhereTheEnvironmentSaysIt(t *testing.T) {
	p, _ := with(t, &fake.Stockade{}, map[string]string{"STOCKADE_HOME": "/of/the/environment/"})
	check := func(m map[string]any) *pulumirpc.CheckResponse {
		r, err := p.Check(t.Context(), &pulumirpc.CheckRequest{Urn: urn, News: props(t, m)})
		require.NoError(t, err)
		return r
	}
	r := check(nil)
	assert.Empty(t, r.GetFailures())
	assert.Equal(t, "/of/the/environment", values(t, r.GetInputs())["home"].StringValue())
	r = check(map[string]any{"home": "/a/../b"})
	assert.Equal(t, "/b", values(t, r.GetInputs())["home"].StringValue())

	p, _ = with(t, &fake.Stockade{}, nil)
	assert.Empty(t, values(t, check(nil).GetInputs()), "the command knows its default itself")
	r = check(map[string]any{"home": resource.Computed{Element: resource.NewProperty("")}})
	assert.Empty(t, r.GetFailures())
	assert.True(t, values(t, r.GetInputs())["home"].IsComputed())
}

func TestWhatIsNoInputIsRefused(t *testing.T) {
	p, _ := with(t, &fake.Stockade{}, map[string]string{"STOCKADE_HOME": "relative"})
	for want, m := range map[string]map[string]any{
		"no such input":             {"nodes": 7.0, "home": "/h"},
		`"here" is none`:            {"home": "here"},
		"home must be a string":     {"home": 1.0},
		"inputs must be a string":   {"inputs": true, "home": "/h"},
		`"relative" is none`:        {},
		"must be an absolute path,": {"home": ""},
	} {
		r, err := p.Check(t.Context(), &pulumirpc.CheckRequest{Urn: urn, News: props(t, m)})
		require.NoError(t, err)
		require.Len(t, r.GetFailures(), 1, want)
		assert.Contains(t, r.GetFailures()[0].GetReason(), want)
	}
	_, err := p.Check(t.Context(), &pulumirpc.CheckRequest{Urn: strings.Replace(urn, "Cluster", "Other", 1)})
	assert.ErrorContains(t, err, "stockade:kind:Other")
	_, err = p.Create(t.Context(), &pulumirpc.CreateRequest{Urn: "nonsense"})
	assert.ErrorContains(t, err, "invalid URN")
}

func TestASecondUpChangesNothing(t *testing.T) {
	p, _ := with(t, &fake.Stockade{}, nil)
	inputs := map[string]any{"home": "/h"}
	id, out := create(t, p, inputs)
	d, err := p.Diff(t.Context(), &pulumirpc.DiffRequest{Id: id, Urn: urn, Olds: out, OldInputs: props(t, inputs), News: props(t, inputs)})
	require.NoError(t, err)
	assert.Equal(t, pulumirpc.DiffResponse_DIFF_NONE, d.GetChanges())
	assert.Empty(t, d.GetReplaces())
}

func TestWhatMakesAnotherClusterReplacesTheResourceAndTheOldOneGoesFirst(t *testing.T) {
	p, _ := with(t, &fake.Stockade{}, nil)
	good := map[string]any{"home": "/h", "uid": "u", "healthy": true, "kubeconfig": "k"}
	set := func(m map[string]any, key string, v any) map[string]any {
		out := map[string]any{}
		maps.Copy(out, m)
		out[key] = v
		return out
	}
	for name, c := range map[string]struct {
		state, news map[string]any
		replaces    []string
	}{
		"another home":       {good, map[string]any{"home": "/other"}, []string{"home"}},
		"no home any more":   {good, map[string]any{}, []string{"home"}},
		"other inputs":       {good, map[string]any{"home": "/h", "inputs": "2"}, []string{"inputs"}},
		"a broken cluster":   {set(good, "healthy", false), map[string]any{"home": "/h"}, []string{"healthy"}},
		"another cluster":    {set(good, "uid", "v"), map[string]any{"home": "/h"}, []string{"uid"}},
		"a state of nothing": {nil, map[string]any{"home": "/h"}, []string{"healthy", "uid"}},
	} {
		d, err := p.Diff(t.Context(), &pulumirpc.DiffRequest{
			Id: "u", Urn: urn, Olds: props(t, c.state), OldInputs: props(t, map[string]any{"home": "/h"}), News: props(t, c.news),
		})
		require.NoError(t, err)
		assert.Equal(t, pulumirpc.DiffResponse_DIFF_SOME, d.GetChanges(), name)
		assert.Equal(t, c.replaces, d.GetReplaces(), name)
		assert.True(t, d.GetDeleteBeforeReplace(), name)
		for _, key := range c.replaces {
			assert.Contains(t, d.GetDetailedDiff(), key, name)
		}
	}
}

func TestAClosedGateIsMendedInPlace(t *testing.T) {
	s := &fake.Stockade{}
	p, _ := with(t, s, nil)
	id, _ := create(t, p, nil)
	state := props(t, map[string]any{"uid": id, "healthy": false, "kubeconfig": ""})
	d, err := p.Diff(t.Context(), &pulumirpc.DiffRequest{Id: id, Urn: urn, Olds: state})
	require.NoError(t, err)
	assert.Equal(t, []string{"healthy"}, d.GetDiffs())
	assert.Empty(t, d.GetReplaces())
	u, err := p.Update(t.Context(), &pulumirpc.UpdateRequest{Id: id, Urn: urn, Olds: state})
	require.NoError(t, err)
	m := values(t, u.GetProperties())
	assert.True(t, m["healthy"].BoolValue())
	assert.Equal(t, id, m["uid"].StringValue())
}

func TestAnUpdateThatLeadsToAnotherClusterSaysSo(t *testing.T) {
	s := &fake.Stockade{}
	p, shown := with(t, s, nil)
	id, _ := create(t, p, nil)
	s.Cluster["healthy"] = false
	u, err := p.Update(t.Context(), &pulumirpc.UpdateRequest{Id: id, Urn: urn})
	require.NoError(t, err)
	assert.NotEqual(t, id, values(t, u.GetProperties())["uid"].StringValue())
	assert.Contains(t, (*shown)[len(*shown)-1], "another one now")
}

func TestAnUpdateThatFailsCondemnsNoHealthyCluster(t *testing.T) {
	s := &fake.Stockade{}
	p, _ := with(t, s, nil)
	id, _ := create(t, p, map[string]any{"home": "/h"})
	inputs := props(t, map[string]any{"home": "/h", "profiles": []any{"playground"}})
	s.Fail = map[string]error{"up --bare": &provider.ExitError{Code: 130, Said: "interrupted"}}
	update := func() *pulumirpc.ErrorResourceInitFailed {
		_, err := p.Update(t.Context(), &pulumirpc.UpdateRequest{Id: id, Urn: urn, News: inputs})
		require.ErrorContains(t, err, "interrupted")
		f := initFailed(t, err)
		require.NotNil(t, f, "the engine tries again what it is told of as failed")
		assert.Equal(t, id, f.GetId())
		return f
	}
	diff := func(state *structpb.Struct) *pulumirpc.DiffResponse {
		d, err := p.Diff(t.Context(), &pulumirpc.DiffRequest{Id: id, Urn: urn, Olds: state, OldInputs: inputs, News: inputs})
		require.NoError(t, err)
		return d
	}
	assert.Empty(t, diff(update().GetProperties()).GetReplaces())

	s.Cluster["healthy"] = false
	assert.NotEmpty(t, diff(update().GetProperties()).GetReplaces(), "a broken one is replaced as ever")
	s.Cluster["healthy"], s.Cluster["uid"] = true, "another"
	assert.NotEmpty(t, diff(update().GetProperties()).GetReplaces(), "and one that is not the state's")
}

func TestRefreshSeesWhatHappenedBehindItsBack(t *testing.T) {
	s := &fake.Stockade{}
	p, _ := with(t, s, nil)
	inputs := map[string]any{"home": "/h"}
	id, out := create(t, p, inputs)
	read := func() *pulumirpc.ReadResponse {
		r, err := p.Read(t.Context(), &pulumirpc.ReadRequest{Id: id, Urn: urn, Inputs: props(t, inputs), Properties: out})
		require.NoError(t, err)
		return r
	}
	r := read()
	assert.Equal(t, id, r.GetId())
	assert.Equal(t, values(t, out), values(t, r.GetProperties()), "a refresh right after changes nothing")
	assert.Equal(t, "/h", values(t, r.GetInputs())["home"].StringValue())

	s.Cluster["nodes"], s.Cluster["healthy"], s.Cluster["reason"] = []string{"n1"}, false, "node n2 is not ready"
	r = read()
	assert.Equal(t, id, r.GetId())
	m := values(t, r.GetProperties())
	assert.Len(t, m["nodes"].ArrayValue(), 1)
	assert.False(t, m["healthy"].BoolValue())
	assert.Equal(t, "node n2 is not ready", m["reason"].StringValue())
	d, err := p.Diff(t.Context(), &pulumirpc.DiffRequest{Id: id, Urn: urn, Olds: r.GetProperties(), OldInputs: props(t, inputs), News: props(t, inputs)})
	require.NoError(t, err)
	assert.Equal(t, []string{"healthy"}, d.GetReplaces())

	s.Cluster = nil
	assert.Empty(t, read().GetId(), "gone")
}

// What an `up` that failed leaves behind is no cluster, and must not be forgotten.
func TestAPlaceWithoutAClusterIsNotGoneWhileSomethingOfItStands(t *testing.T) {
	for _, left := range []string{"sealed engine", "cluster"} {
		s := &fake.Stockade{Fail: map[string]error{"up --bare": &provider.ExitError{Code: 5, Said: "no space left"}}, Left: []string{left}}
		p, _ := with(t, s, nil)
		inputs := props(t, map[string]any{"home": "/h"})
		_, err := p.Create(t.Context(), &pulumirpc.CreateRequest{Urn: urn, Properties: inputs})
		f := initFailed(t, err)
		require.NotNil(t, f)

		r, err := p.Read(t.Context(), &pulumirpc.ReadRequest{Id: f.GetId(), Urn: urn, Inputs: inputs, Properties: f.GetProperties()})
		require.NoError(t, err)
		assert.Equal(t, f.GetId(), r.GetId(), "%s stands: the resource is still there", left)
		m := values(t, r.GetProperties())
		assert.False(t, m["healthy"].BoolValue())
		assert.Contains(t, m["reason"].StringValue(), left)
		d, err := p.Diff(t.Context(), &pulumirpc.DiffRequest{Id: r.GetId(), Urn: urn, Olds: r.GetProperties(), OldInputs: inputs, News: inputs})
		require.NoError(t, err)
		assert.NotEmpty(t, d.GetReplaces())

		_, err = p.Delete(t.Context(), &pulumirpc.DeleteRequest{Id: r.GetId(), Urn: urn, Properties: r.GetProperties()})
		require.NoError(t, err)
		assert.Empty(t, s.Left)
		r, err = p.Read(t.Context(), &pulumirpc.ReadRequest{Id: f.GetId(), Urn: urn, Inputs: inputs, Properties: f.GetProperties()})
		require.NoError(t, err)
		assert.Empty(t, r.GetId(), "gone")
	}
}

func TestWhatIsLeftIsNotGuessed(t *testing.T) {
	s := &fake.Stockade{}
	p, _ := with(t, s, nil)
	id, out := create(t, p, map[string]any{"home": "/h"})
	s.Cluster = nil
	s.Fail = map[string]error{"status --json": &provider.ExitError{Code: 5, Said: "looking for the seal"}}
	_, err := p.Read(t.Context(), &pulumirpc.ReadRequest{Id: id, Urn: urn, Inputs: out, Properties: out})
	assert.ErrorContains(t, err, "looking for the seal", "a cluster may stand")
}

func TestImportTakesOnlyTheClusterThatIsMeant(t *testing.T) {
	s := &fake.Stockade{}
	p, _ := with(t, s, map[string]string{"STOCKADE_HOME": "/h"})
	id, _ := create(t, p, map[string]any{"home": "/h"})
	r, err := p.Read(t.Context(), &pulumirpc.ReadRequest{Id: id, Urn: urn})
	require.NoError(t, err)
	assert.Equal(t, "/h", values(t, r.GetInputs())["home"].StringValue())
	_, err = p.Read(t.Context(), &pulumirpc.ReadRequest{Id: "other", Urn: urn})
	assert.ErrorContains(t, err, "UID uid-1")
}

func TestDeleteTakesEverythingDown(t *testing.T) {
	s := &fake.Stockade{}
	p, _ := with(t, s, nil)
	id, out := create(t, p, map[string]any{"home": "/h"})
	del := func() error {
		_, err := p.Delete(t.Context(), &pulumirpc.DeleteRequest{Id: id, Urn: urn, Properties: out})
		return err
	}
	require.NoError(t, del())
	assert.Nil(t, s.Cluster)
	assert.Equal(t, "/h: down", s.Calls()[2])
	require.NoError(t, del(), "what is gone may be deleted again")

	s.Fail = map[string]error{"down": &provider.ExitError{Code: 4, Said: "cluster: device or resource busy"}}
	err := del()
	assert.ErrorContains(t, err, "device or resource busy")
	assert.Equal(t, codes.FailedPrecondition, status.Code(err), "an Unknown error would leave the operation pending")
}

// initFailed is the part of an error by which the engine records the resource.
func initFailed(t *testing.T, err error) *pulumirpc.ErrorResourceInitFailed {
	t.Helper()
	require.Error(t, err)
	for _, d := range rpcerror.Convert(err).Details() {
		if f, ok := d.(*pulumirpc.ErrorResourceInitFailed); ok {
			return f
		}
	}
	return nil
}

func TestAClusterThatDidNotComeUpIsRecordedAndReplacedNextTime(t *testing.T) {
	for half, wantID := range map[bool]string{false: "incomplete", true: "uid-1"} {
		s := &fake.Stockade{Fail: map[string]error{"up --bare": &provider.ExitError{Code: 5, Said: "no space left"}}, Half: half}
		p, _ := with(t, s, nil)
		_, err := p.Create(t.Context(), &pulumirpc.CreateRequest{Urn: urn, Properties: props(t, map[string]any{"home": "/h"})})
		assert.ErrorContains(t, err, "no space left")
		f := initFailed(t, err)
		require.NotNil(t, f)
		assert.Equal(t, wantID, f.GetId())
		assert.Contains(t, f.GetReasons()[0], "no space left")
		m := values(t, f.GetProperties())
		assert.False(t, m["healthy"].BoolValue())
		assert.Equal(t, "/h", m["home"].StringValue(), "Delete must know where")

		d, err := p.Diff(t.Context(), &pulumirpc.DiffRequest{
			Id: f.GetId(), Urn: urn, Olds: f.GetProperties(),
			OldInputs: props(t, map[string]any{"home": "/h"}), News: props(t, map[string]any{"home": "/h"}),
		})
		require.NoError(t, err)
		assert.NotEmpty(t, d.GetReplaces())
		assert.True(t, d.GetDeleteBeforeReplace())
	}
}

func TestACommandThatRefusedToBeginLeavesNothingInTheState(t *testing.T) {
	for _, cause := range []error{
		&provider.ExitError{Code: 3, Said: "this machine lacks what is needed"},
		&provider.ExitError{Code: 2, Said: "unknown flag: --bare"},
		errors.New("finding the stockade command: run `make build`"),
	} {
		s := &fake.Stockade{Fail: map[string]error{"up --bare": cause}}
		p, _ := with(t, s, nil)
		_, err := p.Create(t.Context(), &pulumirpc.CreateRequest{Urn: urn, Properties: props(t, nil)})
		assert.Nil(t, initFailed(t, err))
		assert.ErrorContains(t, err, cause.Error())
		assert.Len(t, s.Calls(), 1)
	}
}

func TestACancelledCreateWaitsForTheCleanUpAndIsRecorded(t *testing.T) {
	s := &fake.Stockade{Block: true, Started: make(chan struct{})}
	p, _ := with(t, s, nil)
	done := make(chan error, 1)
	home := props(t, map[string]any{"home": "/h"})
	go func() {
		_, err := p.Create(context.Background(), &pulumirpc.CreateRequest{Urn: urn, Properties: home})
		done <- err
	}()
	<-s.Started
	_, err := p.Cancel(t.Context(), nil)
	require.NoError(t, err)
	select {
	case err = <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("Create goes on")
	}
	assert.ErrorContains(t, err, "interrupted")
	require.NotNil(t, initFailed(t, err))
	assert.Equal(t, "incomplete", initFailed(t, err).GetId())
	assert.Equal(t, []string{"/h: up --bare", "/h: place"}, s.Calls(), "what is left was looked at, although all is cancelled")
}

func TestATimeoutOfTheProgramInterrupts(t *testing.T) {
	s := &fake.Stockade{Block: true, Started: make(chan struct{})}
	p, _ := with(t, s, nil)
	_, err := p.Create(t.Context(), &pulumirpc.CreateRequest{Urn: urn, Properties: props(t, nil), Timeout: 0.01})
	assert.ErrorContains(t, err, "interrupted")
}

func TestAClusterThatIsUpAndNotHealthyIsNoSuccess(t *testing.T) {
	s := &fake.Stockade{Raw: `{"uid":"u","healthy":false,"reason":"the gate is closed"}`}
	p, _ := with(t, s, nil)
	_, err := p.Create(t.Context(), &pulumirpc.CreateRequest{Urn: urn, Properties: props(t, nil)})
	assert.ErrorContains(t, err, "the gate is closed")
	assert.Equal(t, "u", initFailed(t, err).GetId())
}

func TestHostileDescriptionsAreRefused(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)
	for want, raw := range map[string]string{
		"no UID":                     `{"name":"x"}`,
		"is no name":                 `{"uid":"u","nodes":["n\u001b[2J"]}`,
		`"nnnn`:                      `{"uid":"u","nodes":["` + strings.Repeat("n", 300) + `"]}`,
		"reserved by Pulumi":         `{"uid":"u","descriptor":{"a":[{"` + resource.SigKey + `":"` + resource.SecretSig + `","value":"x"}]}}`,
		"nested more than":           `{"uid":"u","descriptor":` + deep + `}`,
		"more than one document":     `{"uid":"u"}{"uid":"v"}`,
		"reading what":               `not JSON`,
		"cannot unmarshal":           `{"uid":["u"]}`,
		"cannot unmarshal number":    `{"uid":"u","nodes":[1]}`,
		"unexpected EOF":             `{"uid":"u"`,
		"cannot unmarshal array":     `[]`,
		"cannot unmarshal string":    `{"uid":"u","descriptor":"d"}`,
		"cannot unmarshal string in": `{"uid":"u","healthy":"yes"}`,
	} {
		p, _ := with(t, &fake.Stockade{Raw: raw}, nil)
		_, err := p.Read(t.Context(), &pulumirpc.ReadRequest{Id: "u", Urn: urn, Inputs: props(t, map[string]any{"home": "/h"})})
		assert.ErrorContains(t, err, want, raw)
	}
}

func TestTheProjectsOwnConfigurationIsNoneOfTheProviders(t *testing.T) {
	var configured string
	p := provider.New(t.Context(), provider.Options{CLI: func(path string) provider.CLI {
		configured = path
		return &fake.Stockade{}
	}})
	news := props(t, map[string]any{"cli": "/bin/stockade", "region": "europe-west4"})
	c, err := p.CheckConfig(t.Context(), &pulumirpc.CheckRequest{News: news})
	require.NoError(t, err)
	assert.Empty(t, c.GetFailures())
	d, err := p.DiffConfig(t.Context(), &pulumirpc.DiffRequest{Olds: props(t, nil), News: news})
	require.NoError(t, err)
	assert.Equal(t, pulumirpc.DiffResponse_DIFF_NONE, d.GetChanges())
	a, err := p.Configure(t.Context(), &pulumirpc.ConfigureRequest{Variables: map[string]string{ //nolint:staticcheck // it is what is read
		"stockade:config:cli": "/bin/stockade", "stockade:config:region": "europe-west4",
	}})
	require.NoError(t, err)
	assert.True(t, a.GetAcceptSecrets())
	assert.True(t, a.GetSupportsPreview())
	assert.Equal(t, "/bin/stockade", configured)
}
