// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"encoding/json"
	"regexp"
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

// digests are made up, of the images that are built out of a checkout.
func digests(t *testing.T) map[string]any {
	t.Helper()
	source, err := node.FindSource()
	require.NoError(t, err)
	module, err := overlays.ModuleFS(t.Context(), source)
	require.NoError(t, err)
	parts, err := overlays.Parts(overlays.AllProfiles)
	require.NoError(t, err)
	out := map[string]any{}
	for _, p := range parts {
		objects, err := overlays.Render(module, p.Overlay)
		require.NoError(t, err)
		text, err := json.Marshal(objects)
		require.NoError(t, err)
		for _, image := range localImage.FindAllString(string(text), -1) {
			name, _, _ := strings.Cut(image, ":")
			out[image] = name + "@sha256:" + strings.Repeat("0", 64)
		}
	}
	return out
}

var localImage = regexp.MustCompile(`stockade\.local/[a-z0-9-]+:dev`)

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

func TestDevDeploysKodeGopherAsUpDoes(t *testing.T) {
	t.Setenv(node.GoProxyEnv, "https://modules.example.com/path,direct")
	for _, preview := range []bool{true, false} {
		all := record(t, "dev", everything, preview)
		for overlay, namespace := range map[string]string{"kode-gopher-local": overlays.KodeGopherNamespace, "kode-gopher-shared": overlays.KodeGopherSharedNamespace} {
			settings := inside(t, all, overlay+"/ConfigMap/"+namespace+"/"+overlays.KodeGopherName)
			assert.Equal(t, map[string]any{"GOPROXY": "https://modules.example.com/path", "GOSUMDB": "off"}, settings["data"])
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

func TestDevRefusesAProxyThatSandboxesCannotUse(t *testing.T) {
	t.Setenv(node.GoProxyEnv, "file:///modules")
	_, err := gketest.Record(Run, gketest.Options{Stack: "dev", Config: everything})
	require.ErrorContains(t, err, node.GoProxyEnv)
}
