// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/infra/progress"
)

// Faults of a cluster that do not pass by waiting, unlike a late answer or a Pod
// that starts again.
var (
	errInputs  = errors.New("the cluster was made from other images or another configuration")
	errStopped = errors.New("the cluster's containers do not run")
)

// settle asks healthy until it says yes, until the fault is one that does not pass,
// or until patience is over. A single bad answer must not decide: a caller that is
// told that the cluster is broken replaces it, with all that is deployed there, and
// on a busy machine an answer may take seconds.
func settle(ctx context.Context, patience time.Duration, rep *progress.Reporter, healthy func(context.Context) (Identity, error)) (Identity, error) {
	id, err := healthy(ctx)
	if err == nil || id.UID == "" || lasting(err) || ctx.Err() != nil {
		return id, err
	}
	done := rep.Step(fmt.Sprintf("waiting for the cluster, which is not well (%v)", err))
	defer func() { done("", err) }()
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-wait.Done():
			return id, err
		case <-tick.C:
		}
		var again Identity
		if again, err = healthy(ctx); err == nil || lasting(err) {
			return again, err
		}
	}
}

func lasting(err error) bool {
	return errors.Is(err, errInputs) || errors.Is(err, errStopped) || errors.Is(err, ErrOtherCluster) || errors.Is(err, fs.ErrNotExist)
}

// healthy returns the identity of the cluster that is up, if it was made from
// the given inputs (empty: any) and everything of it is ready.
func (o Options) healthy(ctx context.Context, inputs string) (Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeouts.Probe)
	defer cancel()
	id, err := ReadIdentity(o.Home)
	if err != nil {
		return id, err
	}
	if inputs != "" && id.Inputs != inputs {
		return id, errInputs
	}
	running, err := o.running(ctx)
	if err != nil {
		return id, err
	}
	if len(running) == 0 {
		return id, fmt.Errorf("%w: none of its nodes does", errStopped)
	}
	client, err := kube.New(o.KubeconfigPath())
	if err != nil {
		return id, err
	}
	if err := Confirm(ctx, client, o.Home); err != nil {
		return id, err
	}
	list, err := client.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return id, fmt.Errorf("listing the nodes: %w", err)
	}
	if why := unready(list.Items, running); why != "" {
		return id, errors.New(why)
	}
	for _, n := range list.Items {
		if !slices.Contains(running, n.Name) {
			return id, fmt.Errorf("%w: the node %s does not", errStopped, n.Name)
		}
	}
	pods, err := client.Clientset.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
	if err != nil {
		return id, fmt.Errorf("listing the system's Pods: %w", err)
	}
	for _, p := range pods.Items {
		if !podReady(p) {
			return id, fmt.Errorf("the Pod %s is not ready", p.Name)
		}
	}
	return id, nil
}

// running lists the node containers that run. The API server is no witness of that:
// it calls a node ready for most of a minute after its container has gone.
func (o Options) running(ctx context.Context) ([]string, error) {
	names, err := o.Engine.Docker(ctx, "ps", "--filter", o.nodeFilter(), "--format", "{{.Names}}")
	if err != nil {
		return nil, fmt.Errorf("listing the nodes' containers: %w", err)
	}
	return strings.Fields(names), nil
}

// unready names the first node that is not ready, or that has one of the names and
// no Node object; it is empty when all nodes are well. A node whose object was
// deleted runs on, and does not register again by itself.
func unready(list []corev1.Node, names []string) string {
	if len(list) == 0 {
		return "there is no node"
	}
	for _, n := range list {
		if !nodeReady(n) {
			return "node " + n.Name + " is not ready"
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(list, func(n corev1.Node) bool { return n.Name == name }) {
			return "node " + name + " is not in the cluster"
		}
	}
	return ""
}

func nodeReady(n corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func podReady(p corev1.Pod) bool {
	if p.Status.Phase == corev1.PodSucceeded {
		return true
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// NodeStatus is a node as it is.
type NodeStatus struct {
	Name  string
	Ready bool
	// Kubelet is its version.
	Kubelet string
}

// Status is the state of the cluster.
type Status struct {
	// Exists says that a cluster has been made and not removed.
	Exists   bool
	Identity Identity
	// Healthy says that nodes and system Pods are ready; Reason says what is
	// not.
	Healthy bool
	Reason  string
	Nodes   []NodeStatus
}

// GetStatus looks and changes nothing. Outside the seal the API server cannot
// be reached, and the cluster counts as unhealthy for that reason.
func GetStatus(ctx context.Context, o Options) (Status, error) {
	o, err := o.orDefaults()
	if err != nil {
		return Status{}, err
	}
	return o.status(ctx, func(ctx context.Context) error { _, err := o.healthy(ctx, ""); return err })
}

// AwaitStatus is GetStatus for a caller that replaces a cluster which is not
// healthy: a fault that may pass by itself gets Timeouts.Settle to do so.
func AwaitStatus(ctx context.Context, o Options, rep *progress.Reporter) (Status, error) {
	o, err := o.orDefaults()
	if err != nil {
		return Status{}, err
	}
	return o.status(ctx, func(ctx context.Context) error {
		_, err := settle(ctx, o.Timeouts.Settle, rep, func(ctx context.Context) (Identity, error) { return o.healthy(ctx, "") })
		return err
	})
}

func (o Options) status(ctx context.Context, healthy func(context.Context) error) (Status, error) {
	id, err := ReadIdentity(o.Home)
	if errors.Is(err, fs.ErrNotExist) {
		return Status{}, nil
	}
	s := Status{Exists: true, Identity: id}
	if inside, insideErr := o.Engine.Inside(); err == nil && insideErr == nil && !inside {
		s.Reason = "this process is outside the seal"
		return s, nil
	}
	if err := healthy(ctx); err != nil {
		s.Reason = err.Error()
	} else {
		s.Healthy = true
	}
	client, err := kube.New(o.KubeconfigPath())
	if err != nil {
		return s, nil // the reason is known
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeouts.Probe)
	defer cancel()
	list, err := client.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return s, nil // the reason is known
	}
	running, err := o.running(ctx)
	if err != nil {
		return s, nil // the reason is known
	}
	for _, n := range list.Items {
		s.Nodes = append(s.Nodes, NodeStatus{
			Name:    n.Name,
			Ready:   nodeReady(n) && slices.Contains(running, n.Name),
			Kubelet: n.Status.NodeInfo.KubeletVersion,
		})
	}
	return s, nil
}
