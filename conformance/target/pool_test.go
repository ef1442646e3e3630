// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/stockade-dev/stockade/infra/kube"
)

func pool(want, ready int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxWarmPool",
		"metadata": map[string]any{"name": "p", "namespace": "n"},
		"spec":     map[string]any{"replicas": want}, "status": map[string]any{"readyReplicas": ready},
	}}
}

// await waits for pool p of namespace n, for as long as it takes to look once.
func await(t *testing.T, p *unstructured.Unstructured, core []runtime.Object, boxes ...*unstructured.Unstructured) error {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{pools: "SandboxWarmPoolList", sandboxes: "SandboxList"}
	dyn := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, p)
	for _, b := range boxes {
		// The pretended cluster's own guess of the plural is "sandboxs".
		require.NoError(t, dyn.Tracker().Create(sandboxes, b, b.GetNamespace()))
	}
	k := &kube.Client{Clientset: kubefake.NewClientset(core...), Dynamic: dyn}
	return AwaitPool(t.Context(), k, "n", "p", 50*time.Millisecond)
}

func waiting(reason string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "box"},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", Image: "there/is:none",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "no such file"}},
		}}},
	}
}

func TestAPoolIsReadyWhenItHasASandboxOrWantsNone(t *testing.T) {
	require.NoError(t, await(t, pool(1, 1), nil))
	require.NoError(t, await(t, pool(0, 0), nil))
	require.ErrorIs(t, await(t, pool(1, 0), nil), context.DeadlineExceeded)
}

func TestAPodThatCannotStartIsNotWaitedFor(t *testing.T) {
	for reason, want := range map[string]string{
		"ErrImagePull":               `image "there/is:none" is not on the node`,
		"ImagePullBackOff":           `image "there/is:none" is not on the node`,
		"CrashLoopBackOff":           `container "main" of Pod box does not start (CrashLoopBackOff): no such file`,
		"CreateContainerConfigError": `container "main" of Pod box does not start`,
	} {
		err := await(t, pool(1, 0), []runtime.Object{waiting(reason)})
		require.ErrorContains(t, err, want)
		assert.NotErrorIs(t, err, context.DeadlineExceeded, reason)
	}
	require.ErrorIs(t, await(t, pool(1, 0), []runtime.Object{waiting("ContainerCreating")}), context.DeadlineExceeded)
}

func TestAWaitThatRanOutTellsWhatTheClusterSays(t *testing.T) {
	event := func(name, kind, reason, message string) *corev1.Event {
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}, Type: kind, Reason: reason, Message: message,
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "box"}}
	}
	box := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": map[string]any{"name": "box", "namespace": "n"},
		"status": map[string]any{"conditions": []any{
			"not even an object",
			map[string]any{"type": "Ready", "status": "False", "reason": "ReconcilerError", "message": "Pod is invalid: volumeMounts"},
		}},
	}}
	err := await(t, pool(1, 0), []runtime.Object{
		event("a", corev1.EventTypeWarning, "FailedScheduling", "no node matches"),
		event("b", corev1.EventTypeWarning, "FailedScheduling", "no node matches, again"),
		event("c", corev1.EventTypeNormal, "Scheduled", "all is well"),
	}, box)
	require.ErrorContains(t, err, "Sandbox box: ReconcilerError: Pod is invalid: volumeMounts")
	require.ErrorContains(t, err, "Pod box: FailedScheduling: no node matches")
	assert.NotContains(t, err.Error(), "again")
	assert.NotContains(t, err.Error(), "all is well")
}
