// SPDX-License-Identifier: Apache-2.0

//go:build pulumi

package kubetest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/infra/kube/kubetest"
	"github.com/stockade-dev/stockade/infra/node"
)

// start returns a cluster with one node.
func start(t *testing.T) (*kubetest.Cluster, *kubetest.Kubelet) {
	t.Helper()
	tools, err := node.Tools(t.Context(), node.Options{})
	require.NoError(t, err)
	c, err := kubetest.Start(t.Context(), t.TempDir(), tools)
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	require.NoError(t, c.AddNode(t.Context(), "n1", map[string]string{"pool": "a"}))
	return c, c.StartKubelet(nil)
}

func deployment(selector map[string]string) *appsv1.Deployment {
	labels := map[string]string{"app": "x"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "n"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				NodeSelector: selector, Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/none"}},
			}},
		},
	}
}

func TestWhatIsMadeBecomesReadyAndGoesAwayWithItsNamespace(t *testing.T) {
	c, kubelet := start(t)
	ctx, api := t.Context(), c.Client.Clientset
	before, err := c.Objects(ctx)
	require.NoError(t, err)
	_, err = api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = api.AppsV1().Deployments("n").Create(ctx, deployment(map[string]string{"pool": "a"}), metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		d, err := api.AppsV1().Deployments("n").Get(ctx, "x", metav1.GetOptions{})
		return err == nil && d.Status.AvailableReplicas == 1
	}, time.Minute, 100*time.Millisecond)

	require.NoError(t, api.CoreV1().Namespaces().Delete(ctx, "n", metav1.DeleteOptions{}))
	var left []string
	assert.Eventually(t, func() bool {
		after, err := c.Objects(ctx)
		left = slices.DeleteFunc(after, func(o string) bool { return slices.Contains(before, o) })
		return err == nil && len(left) == 0
	}, time.Minute, time.Second)
	assert.Empty(t, left)
	require.NoError(t, kubelet.Err())
}

// The scheduler is the real one: a fake node is not ready for everybody.
func TestAPodWithoutANodeIsNotReady(t *testing.T) {
	c, _ := start(t)
	ctx, api := t.Context(), c.Client.Clientset
	_, err := api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = api.AppsV1().Deployments("n").Create(ctx, deployment(map[string]string{"pool": "b"}), metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		pods, err := api.CoreV1().Pods("n").List(ctx, metav1.ListOptions{})
		if err != nil || len(pods.Items) != 1 {
			return false
		}
		for _, cond := range pods.Items[0].Status.Conditions {
			if cond.Type == corev1.PodScheduled {
				return cond.Reason == corev1.PodReasonUnschedulable
			}
		}
		return false
	}, time.Minute, 100*time.Millisecond)
	d, err := api.AppsV1().Deployments("n").Get(ctx, "x", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Zero(t, d.Status.ReadyReplicas)
}

func TestOnlyWhatTheOperatorAsksForIsNoted(t *testing.T) {
	c, _ := start(t)
	path, err := c.Kubeconfig(kubetest.Operator)
	require.NoError(t, err)
	operator, err := kube.New(path)
	require.NoError(t, err)
	noted, err := c.Requests()
	require.NoError(t, err)
	assert.Empty(t, noted)
	_, err = operator.Clientset.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	noted, err = c.Requests()
	require.NoError(t, err)
	assert.Equal(t, []string{"list /api/v1/namespaces"}, noted)
}

func TestAMissingProgramIsNamed(t *testing.T) {
	_, err := kubetest.Start(t.Context(), t.TempDir(), nil)
	assert.ErrorContains(t, err, "etcd is not built")
}

func TestAProgramThatEndsIsAnErrorWithItsLog(t *testing.T) {
	tools, err := node.Tools(t.Context(), node.Options{})
	require.NoError(t, err)
	tools["kube-apiserver"] = tools["etcd"]
	_, err = kubetest.Start(t.Context(), t.TempDir(), tools)
	assert.ErrorContains(t, err, "kube-apiserver has ended")
	assert.ErrorContains(t, err, "etcd gateway", "what it said")
}
