// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"context"
	"io/fs"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// pinned is the module that the checkout pins; the go command is asked once.
var pinned = sync.OnceValues(func() (fs.FS, error) { return ModuleFS(context.Background(), "..") })

func module(t *testing.T) fs.FS {
	t.Helper()
	m, err := pinned()
	require.NoError(t, err)
	return m
}

func rendered(t *testing.T, overlay string) []unstructured.Unstructured {
	t.Helper()
	objects, err := Render(module(t), overlay)
	require.NoError(t, err)
	return objects
}

func only(t *testing.T, objects []unstructured.Unstructured, kind string) unstructured.Unstructured {
	t.Helper()
	var found []unstructured.Unstructured
	for _, o := range objects {
		if o.GetKind() == kind {
			found = append(found, o)
		}
	}
	require.Len(t, found, 1, "objects of kind %s", kind)
	return found[0]
}

func kinds(objects []unstructured.Unstructured) map[string]int {
	n := map[string]int{}
	for _, o := range objects {
		n[o.GetKind()]++
	}
	return n
}

func TestTheSystemIsTheModulesOwnWithOurImage(t *testing.T) {
	objects := rendered(t, System)
	assert.Equal(t, 4, kinds(objects)["CustomResourceDefinition"])
	only(t, objects, "ValidatingAdmissionPolicy")
	only(t, objects, "ValidatingAdmissionPolicyBinding")

	deployment := only(t, objects, "Deployment")
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	require.NoError(t, err)
	c, ok := containers[0].(map[string]any)
	require.True(t, ok)
	assert.Equal(t, "stockade.local/agent-sandbox-controller:v0.5.6", c["image"])
	assert.Contains(t, c["args"], "--extensions")
}

// What kustomize does not see of a definition it would not have changed either.
func TestDefinitionsAreRenderedWhole(t *testing.T) {
	disk, err := layout(module(t))
	require.NoError(t, err)
	fast, err := build(disk, path.Join(root, System))
	require.NoError(t, err)
	slow := filesys.MakeFsInMemory()
	require.NoError(t, copyTree(files, ".", root, slow.WriteFile))
	for _, folder := range moduleFolders {
		require.NoError(t, copyTree(module(t), folder, "/module", slow.WriteFile))
	}
	want, err := build(slow, path.Join(root, System))
	require.NoError(t, err)
	assert.Equal(t, want, fast)
	for _, o := range fast {
		if o.GetKind() == "CustomResourceDefinition" {
			assert.NotEmpty(t, o.Object["spec"], o.GetName())
		}
	}
}

func TestAnOverlayMayNotChangeADefinition(t *testing.T) {
	disk, err := layout(module(t))
	require.NoError(t, err)
	require.NoError(t, disk.WriteFile("/overlays/odd/kustomization.yaml", []byte(`resources: [../base/agent-sandbox-system]
patches:
- target: {kind: CustomResourceDefinition, name: sandboxes.agents.x-k8s.io}
  patch: |-
    - {op: add, path: /spec, value: {preserveUnknownFields: true}}
`)))
	_, err = build(disk, "/overlays/odd")
	assert.ErrorContains(t, err, "changes its spec")
}

func TestNoOverlayPullsFromARegistry(t *testing.T) {
	for _, overlay := range []string{System, Reference, Seed, Default, Playground, Controls, Router, KodeGopherDev, KodeGopherSharedDev} {
		n := 0
		for _, o := range rendered(t, overlay) {
			eachImage(o.Object, func(image string) {
				n++
				assert.True(t, strings.HasPrefix(image, "stockade.local/"), "%s of %s uses the image %s", o.GetKind(), overlay, image)
			})
		}
		assert.Positive(t, n, "%s has images", overlay)
	}
}

// eachImage calls f for the image of every container, wherever it is. CRDs are
// left alone by looking at strings only: their "image" is a schema.
func eachImage(v any, f func(string)) {
	switch v := v.(type) {
	case map[string]any:
		if image, ok := v["image"].(string); ok {
			f(image)
		}
		for _, w := range v {
			eachImage(w, f)
		}
	case []any:
		for _, w := range v {
			eachImage(w, f)
		}
	}
}

func TestNamespacesComeBeforeWhatLivesInThem(t *testing.T) {
	for _, overlay := range []string{System, Reference, Seed, Default, Playground, Controls, KodeGopher, KodeGopherShared} {
		assert.Equal(t, "Namespace", rendered(t, overlay)[0].GetKind(), overlay)
	}
}

func TestTheEmptyEgressListSurvivesRendering(t *testing.T) {
	// Lost, it would mean the controller's default policy: all of the Internet.
	template := only(t, rendered(t, Reference), "SandboxTemplate")
	egress, found, err := unstructured.NestedSlice(template.Object, "spec", "networkPolicy", "egress")
	require.NoError(t, err)
	assert.True(t, found)
	assert.Empty(t, egress)
}

func TestTheSeedIsUnchangedButForImageAndReplicas(t *testing.T) {
	objects := rendered(t, Seed)
	template := only(t, objects, "SandboxTemplate")
	assert.Equal(t, SeedNamespace, template.GetNamespace())
	spec, _, err := unstructured.NestedMap(template.Object, "spec", "podTemplate", "spec")
	require.NoError(t, err)
	assert.NotContains(t, spec, "enableServiceLinks")
	assert.Equal(t, []any{map[string]any{"name": "scratch", "emptyDir": map[string]any{"sizeLimit": "64Mi"}}}, spec["volumes"])
	_, found, err := unstructured.NestedMap(template.Object, "spec", "networkPolicy")
	require.NoError(t, err)
	assert.False(t, found, "the text's own template leaves the network to the default policy")
}

func TestTheRouterIsWhoTheDefaultPolicyLetsIn(t *testing.T) {
	router := named(t, rendered(t, Router), "Deployment", "router")
	assert.Equal(t, "agent-sandbox-system", router.GetNamespace())
	labels, _, err := unstructured.NestedStringMap(router.Object, "spec", "template", "metadata", "labels")
	require.NoError(t, err)
	assert.Equal(t, "sandbox-router", labels["app"])
}

func TestAnUnknownOverlayIsAnError(t *testing.T) {
	_, err := Render(module(t), "base/nowhere")
	require.ErrorContains(t, err, "rendering base/nowhere")
}

// A sandbox that waited since before an update would have what the old template had.
func TestNoPoolOfOursKeepsSandboxesOfAnOldTemplate(t *testing.T) {
	for _, overlay := range []string{Reference, KodeGopher, KodeGopherShared} {
		objects, err := Render(module(t), overlay)
		require.NoError(t, err)
		strategy, _, err := unstructured.NestedString(only(t, objects, "SandboxWarmPool").Object, "spec", "updateStrategy", "type")
		require.NoError(t, err)
		assert.Equal(t, "Recreate", strategy, overlay)
	}
}
