// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/overlays"
)

func thing(kind, namespace, name string, more map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind}}
	maps.Copy(u.Object, more)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func TestAMutantGetsTheSettingsOfItsDeploymentAndNoMore(t *testing.T) {
	const from = overlays.KodeGopherSharedNamespace
	settings := thing("ConfigMap", from, "kode-gopher", map[string]any{"data": map[string]any{"GOPROXY": "off"}})
	settings.SetLabels(map[string]string{"a": "b"})
	settings.SetOwnerReferences(nil)
	settings.SetResourceVersion("7")
	objects := []runtime.Object{
		settings, thing("ConfigMap", from, "kube-root-ca.crt", nil), thing("ConfigMap", "elsewhere", "other", nil),
		thing("Secret", from, "kode-gopher", map[string]any{"type": "Opaque", "data": map[string]any{"tokens": "eA=="}}),
		thing("Secret", from, "token", map[string]any{"type": "kubernetes.io/service-account-token"}),
	}
	lists := map[schema.GroupVersionResource]string{
		corev1.SchemeGroupVersion.WithResource("configmaps"): "ConfigMapList", corev1.SchemeGroupVersion.WithResource("secrets"): "SecretList",
	}
	s := &ClusterStage{Kube: &kube.Client{Dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...)}}
	m := overlays.Mutant{ID: "x", Base: overlays.BaseKodeGopherShared}
	got, err := s.settings(t.Context(), m)
	require.NoError(t, err)
	require.Len(t, got, 2)
	for _, o := range got {
		assert.Equal(t, "mutant-x", o.GetNamespace())
		assert.Equal(t, "kode-gopher", o.GetName())
		assert.Empty(t, o.GetResourceVersion(), "it is another object")
		assert.Empty(t, o.GetLabels())
	}
	assert.Equal(t, map[string]any{"tokens": "eA=="}, got[1].Object["data"])
	assert.Equal(t, "Opaque", got[1].Object["type"])

	got, err = s.settings(t.Context(), overlays.Mutant{ID: "x", Base: overlays.BaseReference})
	require.NoError(t, err)
	assert.Empty(t, got)
}
