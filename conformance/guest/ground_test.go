// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/infra/kube"
)

// opened is the ground behind a guest's: it only tells that it was opened.
type opened struct {
	runner.Ground
	times int
}

func (o *opened) Open(context.Context, string, *runner.Ledger, runner.Timeouts, []suite.Role) (*runner.Field, error) {
	o.times++
	return &runner.Field{}, nil
}

// served lets the pretended cluster take applied objects, and gives every pool
// that many ready sandboxes.
func served(dyn *dynamicfake.FakeDynamicClient, ready int64) {
	dyn.PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		o := &unstructured.Unstructured{}
		patch, ok := a.(clienttesting.PatchAction)
		if !ok {
			return false, nil, nil
		}
		if err := o.UnmarshalJSON(patch.GetPatch()); err != nil {
			return true, nil, err
		}
		if o.GetKind() == poolKind.Kind {
			o.Object["status"] = map[string]any{"readyReplicas": ready}
		}
		return true, o, dyn.Tracker().Create(a.GetResource(), o, a.GetNamespace())
	})
}

// enter opens a guest's ground on a pretended cluster and returns its ledger.
func enter(t *testing.T, k *kube.Client) (*opened, *runner.Ledger, error) {
	t.Helper()
	led, err := runner.OpenLedger(t.TempDir(), "r", "uid")
	require.NoError(t, err)
	inner := &opened{}
	g := &Ground{Ground: inner, Kube: k, Template: parsed(t, whole), Namespace: "guest-1", Ready: 50 * time.Millisecond}
	_, err = g.Open(t.Context(), "r", led, runner.Timeouts{}, nil)
	return inner, led, err
}

var space = runner.Ref{APIVersion: "v1", Kind: "Namespace", Name: "guest-1"}

func TestAGuestHasANamespaceOfItsOwnThatIsInTheLedger(t *testing.T) {
	k, dyn := cluster()
	served(dyn, 1)
	inner, led, err := enter(t, k)
	require.NoError(t, err)
	assert.Equal(t, 1, inner.times)
	assert.Equal(t, []runner.Ref{space}, led.Open())
	live, err := k.Clientset.CoreV1().Namespaces().Get(t.Context(), "guest-1", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{runner.RunLabel: "r"}, live.Labels)
	p, err := k.Get(t.Context(), pool("guest-1"))
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"replicas": int64(1), "sandboxTemplateRef": map[string]any{"name": "budget-sandbox"}}, p.Object["spec"])
}

func TestTheLedgerKnowsTheNamespaceBeforeTheCluster(t *testing.T) {
	k, _ := cluster(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "guest-1"}})
	inner, led, err := enter(t, k)
	require.ErrorContains(t, err, "already exists")
	assert.Equal(t, []runner.Ref{space}, led.Open())
	assert.Zero(t, inner.times)
}

func TestATemplateThatIsNotAdmittedIsNotWaitedFor(t *testing.T) {
	k, dyn := cluster()
	served(dyn, 0)
	dyn.PrependReactor("create", "sandboxes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &unstructured.Unstructured{}, apierrors.NewForbidden(schema.GroupResource{Resource: "sandboxes"}, "dry-run", errors.New("must use gvisor"))
	})
	inner, _, err := enter(t, k)
	require.ErrorContains(t, err, "the cluster admits no sandbox of it")
	require.ErrorContains(t, err, "must use gvisor")
	assert.Zero(t, inner.times)
}

func TestATemplateWithoutAReadyPodIsNotAttacked(t *testing.T) {
	k, dyn := cluster()
	served(dyn, 0)
	inner, _, err := enter(t, k)
	require.ErrorContains(t, err, "deploying template mine: no sandbox was ready within 50ms")
	assert.Zero(t, inner.times)

	k, dyn = cluster(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "guest-1", Name: "box"},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "main",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "exit code 1"}}}}},
	})
	served(dyn, 0)
	_, _, err = enter(t, k)
	require.ErrorContains(t, err, `container "main" of Pod box does not start (CrashLoopBackOff): exit code 1`)
}

func TestNamespacesOfGuestsDiffer(t *testing.T) {
	a := Namespace()
	assert.NotEqual(t, a, Namespace())
	assert.Regexp(t, `^guest-[0-9a-f]{8}$`, a)
}
