// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/infra/node/engine"
	"github.com/stockade-dev/stockade/infra/progress"
)

func system(uid string) *kube.Client {
	return &kube.Client{Clientset: fake.NewClientset(&corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID(uid)},
	})}
}

func recorded(t *testing.T, uid string) (home string) {
	t.Helper()
	home = t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(home, "run"), 0o755))
	require.NoError(t, Identity{Name: "stockade", UID: uid}.write(Options{Home: home}.identityPath()))
	return home
}

func TestOurClusterIsConfirmed(t *testing.T) {
	require.NoError(t, Confirm(t.Context(), system("1-2-3"), recorded(t, "1-2-3")))
}

func TestAnyOtherClusterIsRefused(t *testing.T) {
	require.ErrorIs(t, Confirm(t.Context(), system("9-9-9"), recorded(t, "1-2-3")), ErrOtherCluster)
}

func TestWithoutARecordNothingIsConfirmed(t *testing.T) {
	require.ErrorIs(t, Confirm(t.Context(), system("1-2-3"), t.TempDir()), os.ErrNotExist)
}

func aNode(name string, ready corev1.ConditionStatus) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	}
}

func TestOneNodeThatIsNotReadyIsEnough(t *testing.T) {
	a, b := aNode("a", corev1.ConditionTrue), aNode("b", corev1.ConditionUnknown)
	assert.Empty(t, unready([]corev1.Node{a}, nil))
	assert.Equal(t, "node b is not ready", unready([]corev1.Node{a, b}, nil))
	assert.Equal(t, "node b is not in the cluster", unready([]corev1.Node{a}, []string{"a", "b"}))
	assert.Equal(t, "there is no node", unready(nil, nil))
}

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

func TestWhatEndsTheControlPlaneIsTheCauseOfAllElse(t *testing.T) {
	unplugged, refused := errors.New("the control plane is gone"), errors.New("connection refused")
	noticed := make(chan struct{})
	err := beside(t.Context(), func() error { <-noticed; return unplugged }, func(context.Context) error { close(noticed); return refused })
	require.ErrorIs(t, err, unplugged)
	nothing := func() error { return nil }
	require.ErrorIs(t, beside(t.Context(), nothing, func(context.Context) error { return refused }), refused)
	require.NoError(t, beside(t.Context(), nothing, func(context.Context) error { return nil }))
	// Nobody waits for a control plane that will not come.
	require.ErrorIs(t, beside(t.Context(), func() error { return unplugged }, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }), unplugged)
}

func TestAPodWithoutConditionsIsNotReady(t *testing.T) {
	assert.False(t, podReady(corev1.Pod{}))
	assert.True(t, podReady(corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}))
}

func TestAnArchiveTakesTheTagOverFromTheOneBefore(t *testing.T) {
	had := []string{"probe-1.tar", "probe-host-1.tar", "router-1.tar"}
	assert.Equal(t, []string{"probe-host-1.tar", "router-1.tar", "probe-2.tar", "runner-1.tar"}, imported(had, []string{"probe-2.tar", "runner-1.tar"}))
}

func TestAnInterruptRemovesNoCluster(t *testing.T) {
	home := recorded(t, "1-2-3")
	e, err := engine.New(engine.Options{Home: home})
	require.NoError(t, err)
	o, err := Options{Home: home, Engine: e}.orDefaults()
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("ctrl-c"))
	require.ErrorContains(t, o.remove(ctx), "ctrl-c", "what stays must not count as removed")
	_, err = ReadIdentity(home)
	require.NoError(t, err, "the next `up` finds its cluster")

	var said bytes.Buffer
	require.NoError(t, o.giveUp(ctx, progress.New(&said, func(s string) string { return s })), "half a cluster goes all the same")
	_, err = ReadIdentity(home)
	require.ErrorIs(t, err, fs.ErrNotExist)
	assert.Contains(t, said.String(), "removing the half-made cluster")
}

func TestAClusterThatIsLateIsNotReplaced(t *testing.T) {
	late := errors.New("the Pod coredns is not ready")
	asked := 0
	id, err := settle(t.Context(), 10*time.Second, nil, func(context.Context) (Identity, error) {
		if asked++; asked == 1 {
			return Identity{UID: "1-2-3"}, late
		}
		return Identity{UID: "1-2-3"}, nil
	})
	require.NoError(t, err)
	assert.Equal(t, "1-2-3", id.UID)

	_, err = settle(t.Context(), 10*time.Millisecond, nil, func(context.Context) (Identity, error) { return Identity{UID: "1-2-3"}, late })
	assert.ErrorIs(t, err, late, "patience has an end")
}

func TestWhatIsBrokenForGoodIsNotWaitedFor(t *testing.T) {
	for name, broken := range map[string]error{
		"other inputs": errInputs, "stopped": fmt.Errorf("%w: none", errStopped), "another": ErrOtherCluster, "gone": fs.ErrNotExist,
	} {
		asked := 0
		_, err := settle(t.Context(), time.Minute, nil, func(context.Context) (Identity, error) { asked++; return Identity{UID: "1-2-3"}, broken })
		assert.ErrorIs(t, err, broken, name)
		assert.Equal(t, 1, asked, name)
	}
	asked := 0
	_, err := settle(t.Context(), time.Minute, nil, func(context.Context) (Identity, error) { asked++; return Identity{}, errors.New("torn") })
	assert.Error(t, err)
	assert.Equal(t, 1, asked, "a record that nobody can read")
}
