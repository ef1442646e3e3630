// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Program is what a [Kubelet] starts on this machine in the place of a container.
type Program struct {
	// Path is the program's, and Args come after those of the container, so that
	// they have the last word: whatever listens must be told to do that on the
	// loopback address, or not at all.
	Path string
	Args []string
}

// Kubelet is a fake of the agents of all nodes.
type Kubelet struct {
	cluster *Cluster
	// programs says what is started for an image; nil: nothing is.
	programs func(image string) *Program

	// Both belong to the goroutine that looks.
	running map[types.UID]context.CancelFunc
	made    int

	mu   sync.Mutex
	errs []error
}

// StartKubelet begins to call Pods ready, until the cluster ends. programs chooses
// the images that are started as processes; it may be nil.
func (c *Cluster) StartKubelet(programs func(image string) *Program) *Kubelet {
	k := &Kubelet{cluster: c, programs: programs, running: map[types.UID]context.CancelFunc{}}
	c.running.Go(func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for c.ctx.Err() == nil {
			k.look()
			select {
			case <-c.ctx.Done():
			case <-tick.C:
			}
		}
	})
	return k
}

// lookEvery is how often the Kubelet looks at all Pods. Nobody is to wait for it,
// and the API server answers out of its memory.
const lookEvery = 200 * time.Millisecond

func (k *Kubelet) look() {
	// Version 0 is whatever the server has at hand.
	pods, err := k.cluster.Client.Clientset.CoreV1().Pods(metav1.NamespaceAll).List(k.cluster.ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		if k.cluster.ctx.Err() == nil {
			k.fail(fmt.Errorf("looking for Pods: %w", err))
		}
		return
	}
	there := map[types.UID]bool{}
	for i := range pods.Items {
		there[pods.Items[i].UID] = true
		k.see(&pods.Items[i])
	}
	for uid := range k.running {
		if !there[uid] {
			k.end(uid)
		}
	}
}

// AddNode makes a node that is ready, with labels and taints. It has room for
// everything.
func (c *Cluster) AddNode(ctx context.Context, name string, labels map[string]string, taints ...corev1.Taint) error {
	nodes := c.Client.Clientset.CoreV1().Nodes()
	node, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making the node %s: %w", name, err)
	}
	// The API server taints a new node until somebody has looked at it.
	node.Spec.Taints = taints
	if node, err = nodes.Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("making the node %s: %w", name, err)
	}
	node.Status.Capacity = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"), corev1.ResourcePods: resource.MustParse("110"),
	}
	node.Status.Allocatable = node.Status.Capacity
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Fake"}}
	if _, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("making the node %s: %w", name, err)
	}
	return nil
}

// Err returns what went wrong so far.
func (k *Kubelet) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return errors.Join(k.errs...)
}

// see does for a Pod what its node would.
func (k *Kubelet) see(pod *corev1.Pod) {
	var err error
	switch pods := k.cluster.Client.Clientset.CoreV1().Pods(pod.Namespace); {
	case pod.Spec.NodeName == "":
		// The scheduler has still to find a node.
	case pod.DeletionTimestamp != nil:
		k.end(pod.UID)
		now := int64(0)
		err = pods.Delete(k.cluster.ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	case pod.Status.Phase == corev1.PodRunning:
	default:
		if err = k.begin(pod); err != nil {
			break
		}
		k.report(pod)
		_, err = pods.UpdateStatus(k.cluster.ctx, pod, metav1.UpdateOptions{})
	}
	// A conflict means that there is a newer Pod, which will be seen next.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && k.cluster.ctx.Err() == nil {
		k.fail(fmt.Errorf("playing the node of %s/%s: %w", pod.Namespace, pod.Name, err))
	}
}

func (k *Kubelet) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.errs = append(k.errs, err)
}

// report is what a node says of a Pod all of whose containers are ready.
func (k *Kubelet) report(pod *corev1.Pod) {
	k.made++
	ip := fmt.Sprintf("10.244.%d.%d", k.made/250, 1+k.made%250)
	now := metav1.Now()
	yes := true
	s := &pod.Status
	s.Phase, s.StartTime, s.HostIP = corev1.PodRunning, &now, "127.0.0.1"
	s.PodIP, s.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	for _, t := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	for _, c := range pod.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: &yes,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
}

// begin starts the program that stands for the first of the Pod's images that has
// one, unless it runs.
func (k *Kubelet) begin(pod *corev1.Pod) error {
	_, runs := k.running[pod.UID]
	if k.programs == nil || runs {
		return nil
	}
	for _, c := range pod.Spec.Containers {
		if p := k.programs(c.Image); p != nil {
			return k.start(pod, append(slices.Clone(c.Args), p.Args...), p.Path)
		}
	}
	return nil
}

// start starts a program as the Pod's service account: it may do what its manifests
// let it, and nothing else.
func (k *Kubelet) start(pod *corev1.Pod, args []string, path string) error {
	kubeconfig, err := k.cluster.accountKubeconfig(k.cluster.ctx, pod.Namespace, pod.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(k.cluster.ctx)
	k.running[pod.UID] = end
	return k.cluster.process(ctx, pod.Name, path, args, []string{"KUBECONFIG=" + kubeconfig}, func(err error) {
		if ctx.Err() == nil {
			k.fail(err)
		}
	})
}

// end ends the Pod's program.
func (k *Kubelet) end(pod types.UID) {
	if end := k.running[pod]; end != nil {
		end()
		delete(k.running, pod)
	}
}
