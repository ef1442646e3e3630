// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// lateMapper learns its kinds only when it is reset, as a cluster's discovery
// does after a CustomResourceDefinition was applied.
type lateMapper struct {
	*meta.DefaultRESTMapper
	later  map[schema.GroupVersionKind]meta.RESTScope
	resets int
}

func (m *lateMapper) Reset() {
	m.resets++
	for gvk, scope := range m.later {
		m.Add(gvk, scope)
	}
}

var (
	crdKind  = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	toyKind  = schema.GroupVersionKind{Group: "toys.dev", Version: "v1", Kind: "Kite"}
	podKind  = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	nsKind   = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	roleKind = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
)

// cluster returns a client for an empty pretended cluster in which definitions
// are established at once.
func cluster(t *testing.T) (*Client, *fake.FakeDynamicClient, *lateMapper) {
	t.Helper()
	scheme := runtime.NewScheme()
	mapper := &lateMapper{
		DefaultRESTMapper: meta.NewDefaultRESTMapper(nil),
		later:             map[schema.GroupVersionKind]meta.RESTScope{toyKind: meta.RESTScopeNamespace},
	}
	for gvk, scope := range map[schema.GroupVersionKind]meta.RESTScope{
		crdKind: meta.RESTScopeRoot, podKind: meta.RESTScopeNamespace, nsKind: meta.RESTScopeRoot, roleKind: meta.RESTScopeRoot,
	} {
		mapper.Add(gvk, scope)
	}
	lists := map[schema.GroupVersionResource]string{}
	for gvk := range map[schema.GroupVersionKind]bool{crdKind: true, podKind: true, nsKind: true, roleKind: true, toyKind: true} {
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		lists[plural] = gvk.Kind + "List"
	}
	dyn := fake.NewSimpleDynamicClientWithCustomListKinds(scheme, lists)
	dyn.PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		patch := a.(clienttesting.PatchAction)
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(patch.GetPatch()); err != nil {
			return true, nil, err
		}
		if obj.GetKind() == "CustomResourceDefinition" {
			err := unstructured.SetNestedSlice(obj.Object, []any{map[string]any{"type": "Established", "status": "True"}}, "status", "conditions")
			if err != nil {
				return true, nil, err
			}
		}
		return true, obj, dyn.Tracker().Create(a.GetResource(), obj, a.GetNamespace())
	})
	return &Client{Dynamic: dyn, Mapper: mapper}, dyn, mapper
}

const manifests = `
apiVersion: toys.dev/v1
kind: Kite
metadata: {name: bear, namespace: play}
---
# only a comment
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: loose}
- apiVersion: v1
  kind: Namespace
  metadata: {name: play}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kites.toys.dev}
`

func decode(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objs, err := Decode(strings.NewReader(manifests))
	require.NoError(t, err)
	return objs
}

func TestDecodeFlattensListsAndSkipsEmptyDocuments(t *testing.T) {
	var names []string
	for _, o := range decode(t) {
		names = append(names, nameOf(o))
	}
	assert.Equal(t, []string{"Kite play/bear", "Pod loose", "Namespace play", "CustomResourceDefinition kites.toys.dev"}, names)
}

func TestDecodeSaysWhichDocumentIsBroken(t *testing.T) {
	_, err := Decode(strings.NewReader("kind: Pod\napiVersion: v1\n---\nname: what\n"))
	require.ErrorContains(t, err, "document 2")
}

func TestApplyPutsDefinitionsFirstAndLearnsTheirKinds(t *testing.T) {
	c, dyn, mapper := cluster(t)
	require.NoError(t, c.Apply(t.Context(), decode(t)))

	var order []string
	for _, a := range dyn.Actions() {
		if patch, ok := a.(clienttesting.PatchAction); ok {
			order = append(order, a.GetResource().Resource+" in "+a.GetNamespace())
			assert.Equal(t, "application/apply-patch+yaml", string(patch.GetPatchType()))
		}
	}
	assert.Equal(t, []string{"customresourcedefinitions in ", "namespaces in ", "kites in play", "pods in default"}, order)
	assert.Positive(t, mapper.resets)
}

func TestApplyNamesTheObjectThatIsRefused(t *testing.T) {
	c, dyn, _ := cluster(t)
	dyn.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("quota exceeded")
	})
	require.ErrorContains(t, c.Apply(t.Context(), decode(t)), "applying Pod loose: quota exceeded")
}

func TestDeleteForgivesWhatIsNotThere(t *testing.T) {
	c, _, mapper := cluster(t)
	mapper.later = nil // the cluster has never heard of kites
	require.NoError(t, c.Delete(t.Context(), decode(t)))
}

func TestDeleteTriesEverythingAndReportsTheRest(t *testing.T) {
	c, dyn, _ := cluster(t)
	require.NoError(t, c.Apply(t.Context(), decode(t)))
	dyn.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("finalizer is stuck")
	})
	require.ErrorContains(t, c.Delete(t.Context(), decode(t)), "deleting Pod loose: finalizer is stuck")
	list, err := dyn.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, list.Items, "objects after the failing one are deleted as well")
}

func TestAWaitThatRunsOutSaysWhatIsMissing(t *testing.T) {
	c, _, _ := cluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err := c.WaitReady(ctx, decode(t)[1:2])
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "Pod loose (not found)")
}

func object(fields map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: fields}
}

func TestReadinessIsJudgedByStatus(t *testing.T) {
	ready := []any{map[string]any{"type": "Ready", "status": "True"}}
	for _, tc := range []struct {
		name  string
		judge func(*unstructured.Unstructured) state
		obj   map[string]any
		want  state
	}{
		{"a deployment with all replicas", replicasReady, map[string]any{
			"spec":   map[string]any{"replicas": int64(2)},
			"status": map[string]any{"replicas": int64(2), "readyReplicas": int64(2), "updatedReplicas": int64(2)},
		}, state{ready: true, detail: "2 of 2 replicas ready, 2 updated"}},
		{"a deployment whose old replicas are still there", replicasReady, map[string]any{
			"spec":   map[string]any{"replicas": int64(1)},
			"status": map[string]any{"replicas": int64(2), "readyReplicas": int64(2), "updatedReplicas": int64(1)},
		}, state{detail: "2 of 1 replicas ready, 1 updated"}},
		{"a deployment whose status is older than its spec", replicasReady, map[string]any{
			"metadata": map[string]any{"generation": int64(2)},
			"status":   map[string]any{"observedGeneration": int64(1), "replicas": int64(1), "readyReplicas": int64(1), "updatedReplicas": int64(1)},
		}, state{detail: "1 of 1 replicas ready, 1 updated"}},
		{"a daemon set nobody has looked at", daemonReady, map[string]any{}, state{detail: "0 of 0 nodes ready, 0 updated"}},
		{"a daemon set on all nodes", daemonReady, map[string]any{
			"status": map[string]any{"desiredNumberScheduled": int64(2), "updatedNumberScheduled": int64(2), "numberReady": int64(2)},
		}, state{ready: true, detail: "2 of 2 nodes ready, 2 updated"}},
		{"a Pod that is ready", podReady, map[string]any{
			"status": map[string]any{"phase": "Running", "conditions": ready},
		}, state{ready: true, detail: "phase Running "}},
		{"a Pod that is done", podReady, map[string]any{"status": map[string]any{"phase": "Succeeded"}}, state{ready: true}},
		{"a Pod that has failed", podReady, map[string]any{
			"status": map[string]any{"phase": "Failed", "reason": "Evicted"},
		}, state{failed: true, detail: "it has failed Evicted"}},
		{"a definition whose names are taken", established, map[string]any{
			"status": map[string]any{"conditions": []any{map[string]any{"type": "NamesAccepted", "status": "False", "message": "toys"}}},
		}, state{failed: true, detail: "its names are taken: toys"}},
		{"a status of the wrong shape", podReady, map[string]any{
			"status": map[string]any{"phase": int64(7), "conditions": "none"},
		}, state{detail: "phase  "}},
	} {
		t.Run(tc.name, func(t *testing.T) { assert.Equal(t, tc.want, tc.judge(object(tc.obj))) })
	}
}

func TestNoKubeconfigIsNotTheUsersCluster(t *testing.T) {
	_, err := New("")
	require.ErrorContains(t, err, "no kubeconfig")
}
