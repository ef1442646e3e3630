// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

const urn = "urn:pulumi:gke::stockade::stockade:gke:Cluster$gcp:container/cluster:Cluster::cluster"

func TestAPreviewIsRead(t *testing.T) {
	g, err := Decode(strings.NewReader(`{
		"config": {"stockade:project": "p"},
		"steps": [
			{"op": "create", "urn": "` + urn + `", "newState": {"urn": "` + urn + `", "type": "gcp:container/cluster:Cluster", "custom": true, "inputs": {
				"__defaults": [], "name": "box", "endpoint": "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
				"token": "[secret]", "password": {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "plaintext": "\"secret\""}, "list": [1, {"__defaults": [], "a": true}]}}},
			{"op": "delete", "urn": "urn:pulumi:gke::stockade::a:b/c:D::old", "oldState": {}}
		],
		"duration": 1, "changeSummary": {"create": 1, "delete": 1}}`))
	require.NoError(t, err)
	assert.Equal(t, Graph{Resources: []Resource{{Type: typeCluster, Name: "cluster", Inputs: obj{
		"name": "box", "endpoint": Unknown{}, "token": Unknown{}, "password": Unknown{}, "list": []any{1.0, obj{"a": true}},
	}}}}, g)
}

// Who keeps a direction, a name or a namespace secret gets no verdict by that.
func TestASecretOfAPreviewIsNotTakenForItsValue(t *testing.T) {
	for where, c := range map[string]struct{ rule, typ, inputs string }{
		"an egress rule":   {"plan.egress-firewall", typeFirewall, `{"direction": "[secret]", "allows": [{"protocol": "all"}]}`},
		"a zone":           {"plan.restricted-dns", typeZone, `{"dnsName": "[secret]", "forwardingConfig": {}}`},
		"a network policy": {"plan.allow-list", "kubernetes:networking.k8s.io/v1:NetworkPolicy", `{"metadata": {"namespace": "[secret]"}, "spec": {"egress": [{}]}}`},
	} {
		at := "urn:pulumi:s::p::" + c.typ + "::secret"
		g, err := Decode(strings.NewReader(fmt.Sprintf(`{"steps": [{"op": "create", "newState": {"urn": %q, "inputs": %s}}], "changeSummary": {"create": 1}}`, at, c.inputs)))
		require.NoError(t, err)
		all := standard()
		all.Resources = append(all.Resources, g.Resources...)
		assert.Equal(t, verdict.Inconclusive, verdicts(all, full)[c.rule], where)
	}
}

func TestAReplacementIsOneResource(t *testing.T) {
	step := func(op string) string {
		return fmt.Sprintf(`{"op": %q, "newState": {"urn": %q, "inputs": {}}}`, op, urn)
	}
	g, err := Decode(strings.NewReader(`{"steps": [` + step("create-replacement") + `,` + step("replace") + `,` + step("delete-replaced") + `], "changeSummary": {"replace": 1}}`))
	require.NoError(t, err)
	assert.Len(t, g.Resources, 1)
	assert.Empty(t, g.Partial)
}

// A preview with a refresh tells of each resource what the cloud has, and then what
// the program makes of it.
func TestThePlanCountsAndNotWhatTheCloudHas(t *testing.T) {
	step := func(op, name, inputs string) string {
		at := "urn:pulumi:s::p::a:b/c:D::" + name
		if op == "delete" {
			return fmt.Sprintf(`{"op": %q, "urn": %q, "oldState": {"urn": %q}}`, op, at, at)
		}
		return fmt.Sprintf(`{"op": %q, "urn": %q, "newState": {"urn": %q, "inputs": {"is": %q}}}`, op, at, at, inputs)
	}
	g, err := Decode(strings.NewReader(`{"steps": [` + strings.Join([]string{
		step("refresh", "changed", "found"), step("update", "drifted", "found"), step("refresh", "dropped", "found"), step("delete", "lost", ""),
		step("refresh", "kept", "found"),
		step("update", "changed", "wanted"), step("update", "drifted", "wanted"), step("create", "lost", "wanted"), step("same", "kept", "wanted"),
		step("delete", "dropped", ""),
	}, ",") + `], "changeSummary": {"same": 1, "update": 2, "create": 1, "delete": 1}}`))
	require.NoError(t, err)
	assert.Empty(t, g.Partial)
	var names []string
	for _, r := range g.Resources {
		names = append(names, r.Name)
		assert.Equal(t, "wanted", r.Inputs["is"], r.Name)
	}
	assert.Equal(t, []string{"changed", "drifted", "kept", "lost"}, names)
}

func TestAnExportIsRead(t *testing.T) {
	g, err := Decode(strings.NewReader(`{"version": 3, "deployment": {"manifest": {}, "resources": [
		{"urn": "` + urn + `", "type": "gcp:container/cluster:Cluster", "inputs": {"name": "new"}},
		{"urn": "` + urn + `", "type": "gcp:container/cluster:Cluster", "delete": true, "inputs": {"name": "old"}}]}}`))
	require.NoError(t, err)
	require.Len(t, g.Resources, 1)
	assert.Equal(t, "new", g.Resources[0].Inputs["name"])
	assert.Empty(t, g.Partial)
}

func TestADocumentThatLeavesSomethingOutIsPartial(t *testing.T) {
	for name, doc := range map[string]string{
		"unchanged resources left out": `{"steps": [], "changeSummary": {"same": 3}}`,
		"nothing but a summary":        `{"changeSummary": {"same": 3}}`,
		"no summary":                   `{"steps": []}`,
		"an error":                     `{"steps": [], "changeSummary": {}, "diagnostics": [{"severity": "error", "message": "x"}]}`,
		"corrupt":                      `{"steps": [], "changeSummary": {}, "maybeCorrupt": true}`,
		"interrupted":                  `{"deployment": {"resources": [], "pending_operations": [{}]}}`,
		"deleted and not made again":   `{"deployment": {"resources": [{"urn": "` + urn + `", "pendingReplacement": true}]}}`,
		"made in part":                 `{"deployment": {"resources": [{"urn": "` + urn + `", "initErrors": ["quota"]}]}}`,
	} {
		g, err := Decode(strings.NewReader(doc))
		require.NoError(t, err, name)
		assert.NotEmpty(t, g.Partial, name)
	}
}

func TestWhatIsNoPlanIsRefused(t *testing.T) {
	deep := strings.Repeat("[", maxDepth+2) + strings.Repeat("]", maxDepth+2)
	for name, c := range map[string]struct{ doc, want string }{
		"nothing":         {"", "unexpected end"},
		"a list":          {"[]", "pulumi preview --json"},
		"something else":  {"{}", "no steps and no deployment"},
		"both":            {`{"steps": [], "deployment": {}}`, "at once"},
		"no URN":          {`{"deployment": {"resources": [{"urn": "x"}]}}`, "not the URN"},
		"another type":    {`{"deployment": {"resources": [{"urn": "urn:pulumi:s::p::a:b/c:D::n", "type": "e:f/g:H"}]}}`, "does not fit"},
		"a deep document": {`{"deployment": {"resources": [{"urn": "urn:pulumi:s::p::a:b/c:D::n", "inputs": {"x": ` + deep + `}}]}}`, "deeper"},
		"too many":        {`{"deployment": {"resources": [` + strings.Repeat("{},", MaxResources) + `{}]}}`, "more than 20000"},
	} {
		_, err := Decode(strings.NewReader(c.doc))
		assert.ErrorContains(t, err, c.want, name)
	}
}

func TestADocumentIsReadToItsLimitOnly(t *testing.T) {
	_, err := Decode(&endless{})
	assert.ErrorContains(t, err, "larger than")
}

type endless struct{}

func (*endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// export writes a graph as `pulumi stack export` would.
func export(t interface{ Fatal(...any) }, g Graph) []byte {
	var states []obj
	for _, r := range g.Resources {
		states = append(states, obj{"urn": "urn:pulumi:s::p::" + r.Type + "::" + r.Name, "type": r.Type, "inputs": coded(r.Inputs)})
	}
	raw, err := json.Marshal(obj{"version": 3, "deployment": obj{"resources": states}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func coded(v any) any {
	switch v := v.(type) {
	case Unknown:
		return "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
	case []any:
		out := []any{}
		for _, x := range v {
			out = append(out, coded(x))
		}
		return out
	case map[string]any:
		out := obj{}
		for k, x := range v {
			out[k] = coded(x)
		}
		return out
	}
	return v
}

func TestAGraphIsTheSameAfterItsExport(t *testing.T) {
	want := standard()
	got, err := Decode(strings.NewReader(string(export(t, want))))
	require.NoError(t, err)
	assert.Equal(t, want, got)
	for id, v := range verdicts(got, full) {
		assert.Equal(t, verdict.Held, v, id)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(export(f, standard()))
	f.Add(export(f, autopilotGraph()))
	f.Add([]byte(`{"steps": [{"op": "create", "newState": {"urn": "` + urn + `", "inputs": {"a": [null]}}}], "changeSummary": {"create": 1}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		g, err := Decode(strings.NewReader(string(doc)))
		if err != nil {
			return
		}
		for _, finding := range Check(g, full, at) {
			if v := finding.Result.Verdict(); v == verdict.NotRun {
				t.Errorf("%s said nothing of a graph that could be read", finding.Rule.ID)
			}
		}
	})
}
