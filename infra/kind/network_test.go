// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/stockade-dev/stockade/infra/kube"
)

// The worker comes late, and Cilium on it later: until its node is known, all of
// Cilium is ready.
func TestTheNetworkIsWaitedForOnANodeThatJoinsLate(t *testing.T) {
	workload := func(kind, name string, status map[string]any) *unstructured.Unstructured {
		u := object("apps/v1", kind, "kube-system", name)
		u.Object["status"] = status
		return u
	}
	cilium := func(nodes, ready int64) *unstructured.Unstructured {
		return workload("DaemonSet", "cilium", map[string]any{"desiredNumberScheduled": nodes, "updatedNumberScheduled": nodes, "numberReady": ready})
	}
	dyn := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), cilium(1, 1),
		workload("Deployment", "coredns", map[string]any{"replicas": int64(1), "updatedReplicas": int64(1), "readyReplicas": int64(1)}))
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"DaemonSet", "Deployment"} {
		mapper.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: kind}, meta.RESTScopeNamespace)
	}
	sets := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}
	is := func(d *unstructured.Unstructured) {
		_, err := dyn.Resource(sets).Namespace("kube-system").Update(t.Context(), d, metav1.UpdateOptions{})
		assert.NoError(t, err)
	}
	clientset, asked := fake.NewClientset(), 0
	clientset.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		list := &corev1.NodeList{Items: []corev1.Node{aNode("control-plane", corev1.ConditionTrue)}}
		if asked++; asked > 1 {
			list.Items = append(list.Items, aNode("worker", corev1.ConditionTrue))
			is(cilium(2, 1))
		}
		return true, list, nil
	})
	client := &kube.Client{Clientset: clientset, Dynamic: dyn, Mapper: mapper}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := waitNetwork(ctx, client, []string{"control-plane", "worker"}, nil)
	require.ErrorContains(t, err, "1 of 2 nodes ready")
	is(cilium(2, 2))
	clientset.ReactionChain = nil
	clientset.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.NodeList{Items: []corev1.Node{aNode("control-plane", corev1.ConditionTrue), aNode("worker", corev1.ConditionTrue)}}, nil
	})
	require.NoError(t, waitNetwork(t.Context(), client, []string{"control-plane", "worker"}, nil))
}
