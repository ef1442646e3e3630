// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/infra/kube/agentsandbox"
)

var (
	pools     = agentsandbox.WarmPools
	sandboxes = agentsandbox.Sandboxes
)

// poll is how often the cluster is asked while something is waited for.
const poll = 200 * time.Millisecond

// AwaitPool waits until a warm pool has a sandbox to give; one that is meant to
// hold none is not waited for. Its error says what keeps the Pods from
// starting.
func AwaitPool(ctx context.Context, k *kube.Client, namespace, pool string, timeout time.Duration) error {
	err := wait.PollUntilContextTimeout(ctx, poll, timeout, true, func(ctx context.Context) (bool, error) {
		if ready, err := PoolReady(ctx, k, namespace, pool); ready || err != nil {
			return ready, err
		}
		pods, err := k.Clientset.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		return false, cannotStart(pods.Items)
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("waiting for the pool of namespace %s: %w", namespace, explain(ctx, k, namespace, err))
}

// PoolReady tells whether a warm pool has a sandbox to give, or is meant to have
// none.
func PoolReady(ctx context.Context, k *kube.Client, namespace, pool string) (bool, error) {
	p, err := k.Dynamic.Resource(pools).Namespace(namespace).Get(ctx, pool, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	ready, _, err := unstructured.NestedInt64(p.Object, "status", "readyReplicas")
	if err != nil {
		return false, err
	}
	// A mutant's pool may be empty by intent; the API server fills in the 1 of a
	// pool that does not say.
	want, found, err := unstructured.NestedInt64(p.Object, "spec", "replicas")
	return ready > 0 || found && want == 0, err
}

// cannotStart returns an error for a Pod that no waiting will help.
func cannotStart(pods []corev1.Pod) error {
	for _, p := range pods {
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			w := c.State.Waiting
			if w == nil {
				continue
			}
			switch w.Reason {
			case "ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff", "InvalidImageName":
				return fmt.Errorf("image %q is not on the node (%s), and no registry can be reached from there: name one of `stockade exec -- kubectl get nodes -o yaml`, under status.images", c.Image, w.Reason)
			case "CreateContainerConfigError", "CreateContainerError", "CrashLoopBackOff", "RunContainerError":
				return fmt.Errorf("container %q of Pod %s does not start (%s): %s", c.Name, p.Name, w.Reason, w.Message)
			}
		}
	}
	return nil
}

// explain adds what the cluster says about why nothing is ready: what the
// controller could not do, and the namespace's warnings, each reason once.
func explain(ctx context.Context, k *kube.Client, namespace string, err error) error {
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	seen := map[string]bool{}
	tell := func(what, reason, message string) {
		if !seen[reason] {
			seen[reason] = true
			err = errors.Join(err, fmt.Errorf("%s: %s: %s", what, reason, message))
		}
	}
	boxes, listErr := k.Dynamic.Resource(sandboxes).Namespace(namespace).List(short, metav1.ListOptions{})
	if listErr != nil {
		return errors.Join(err, listErr)
	}
	for i := range boxes.Items {
		// Only this reason says more than the Pod's own warnings: the controller
		// got no Pod from the API server.
		b := &boxes.Items[i]
		if c := kube.ConditionOf(b, "Ready"); c.Status == "False" && c.Reason == "ReconcilerError" {
			tell("Sandbox "+b.GetName(), c.Reason, c.Message)
		}
	}
	events, listErr := k.Clientset.CoreV1().Events(namespace).List(short, metav1.ListOptions{})
	if listErr != nil {
		return errors.Join(err, listErr)
	}
	for _, e := range events.Items {
		if e.Type == corev1.EventTypeWarning {
			tell(e.InvolvedObject.Kind+" "+e.InvolvedObject.Name, e.Reason, e.Message)
		}
	}
	return err
}
