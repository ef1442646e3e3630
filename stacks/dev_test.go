// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/infra/gke/gketest"
	"github.com/stockade-dev/stockade/infra/node"
	"github.com/stockade-dev/stockade/overlays"
)

// inside returns the inputs of one object of the stack dev.
func inside(t *testing.T, all []gketest.Resource, name string) map[string]any {
	t.Helper()
	for _, r := range all {
		if r.Name == name {
			return r.Inputs
		}
	}
	require.Fail(t, "not declared", name)
	return nil
}

var everything = map[string]string{"stockade:profiles": `["all"]`}

func TestDevDeploysTheProfilesThatAreAskedFor(t *testing.T) {
	namespaces := func(config map[string]string) (out []string) {
		for _, r := range record(t, "dev", config, true) {
			if r.Type == "kubernetes:core/v1:Namespace" {
				meta, _ := r.Inputs["metadata"].(map[string]any)
				out = append(out, meta["name"].(string))
			}
		}
		slices.Sort(out)
		return out
	}
	assert.NotContains(t, namespaces(nil), overlays.PlaygroundNamespace)
	assert.Contains(t, namespaces(nil), overlays.ReferenceNamespace)
	one := namespaces(map[string]string{"stockade:profiles": `["playground"]`})
	assert.Contains(t, one, overlays.PlaygroundNamespace)
	assert.NotContains(t, one, overlays.ReferenceNamespace)
	assert.Contains(t, namespaces(everything), overlays.KodeGopherSharedNamespace)
	for _, wrong := range []string{`["nobody"]`, `playground`} {
		_, err := gketest.Record(Run, gketest.Options{Stack: "dev", Config: map[string]string{"stockade:profiles": wrong}})
		require.ErrorContains(t, err, "stockade:profiles")
	}
}

// recordDev runs the program of dev on a cluster that has all images.
func recordDev(t *testing.T, config map[string]string, preview bool) []gketest.Resource {
	t.Helper()
	images := map[string]any{}
	for _, p := range node.DefaultPrograms() {
		name, _, _ := strings.Cut(p.Image, ":")
		images[node.Repository+"/"+p.Image] = node.Repository + "/" + name + "@sha256:" + strings.Repeat("0123456789abcdef", 4)
	}
	all, err := gketest.Record(Run, gketest.Options{
		Stack: "dev", Config: config, Preview: preview, Outputs: map[string]map[string]any{"stockade:kind:Cluster": {"images": images}},
	})
	require.NoError(t, err)
	return all
}

func TestDevDeploysKodeGopherAsUpDoes(t *testing.T) {
	t.Setenv(node.GoProxyEnv, "https://modules.example.com/path,direct")
	for _, preview := range []bool{true, false} {
		all := recordDev(t, everything, preview)
		for overlay, namespace := range map[string]string{"kode-gopher-local": overlays.KodeGopherNamespace, "kode-gopher-shared": overlays.KodeGopherSharedNamespace} {
			want := map[string]any{"GOPROXY": "https://modules.example.com/path", "GOSUMDB": "off"}
			if namespace == overlays.KodeGopherSharedNamespace {
				maps.Copy(want, map[string]any{
					"GOOGLE_CLIENT_ID": "kode-gopher.stockade.test", "GOOGLE_KEYS_FILE": "/etc/kode-gopher/keys.json",
					"ALLOW_DOMAINS": "team.stockade.test", "ALLOW_EMAILS": "guest@partner.stockade.test",
				})
			}
			settings := inside(t, all, overlay+"/ConfigMap/"+namespace+"/"+overlays.KodeGopherName)
			assert.Equal(t, want, settings["data"])
			pool := inside(t, all, overlay+"/SandboxWarmPool/"+namespace+"/"+overlays.KodeGopherPool)
			assert.EqualValues(t, 1, pool["spec"].(map[string]any)["replicas"], "as it is in the overlay")
			inside(t, all, overlay+"/ConfigMap/"+namespace+"/"+overlays.KodeGopherTrust)
		}
		list, err := json.Marshal(inside(t, all, "kode-gopher-shared/CiliumNetworkPolicy/"+overlays.KodeGopherSharedNamespace+"/"+overlays.KodeGopherAllowList))
		require.NoError(t, err)
		assert.Contains(t, string(list), `"toFQDNs":[{"matchPattern":"*.googleapis.com"},{"matchName":"modules.example.com"}]`)
	}
}

// That they are a secret from then on is for the engine to keep: stacks/devtest
// looks for them in its state.
func TestTheTokensOfDevAreTheClustersOwn(t *testing.T) {
	t.Setenv(node.GoProxyEnv, "off")
	all := record(t, "dev", everything, true)
	for _, object := range []string{"Secret/" + overlays.KodeGopherSharedNamespace + "/" + overlays.KodeGopherName, "ConfigMap/" + overlays.KodeGopherSharedNamespace + "/" + overlays.KodeGopherTrust} {
		assert.Equal(t, gketest.Unknown{}, inside(t, all, "kode-gopher-shared/"+object)["data"], "nobody knows them before there is one")
	}
}

// The Kubernetes provider replaces them otherwise, and it takes its settings as text.
func TestNewDataOfDevReplaceNoObject(t *testing.T) {
	provider := one(t, record(t, "dev", nil, true), "pulumi:providers:kubernetes")
	for _, key := range []string{"enableConfigMapMutable", "enableSecretMutable"} {
		assert.Contains(t, []any{true, "true"}, provider.Inputs[key], key)
	}
}

func TestDevRefusesAProxyThatSandboxesCannotUse(t *testing.T) {
	t.Setenv(node.GoProxyEnv, "file:///modules")
	_, err := gketest.Record(Run, gketest.Options{Stack: "dev", Config: everything})
	require.ErrorContains(t, err, node.GoProxyEnv)
}
