// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/kind/pkg/cluster"

	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/infra/progress"
)

// install installs Cilium and the runtime class, once the administrator may do so.
func (o Options) install(ctx context.Context, provider *cluster.Provider, system []*unstructured.Unstructured,
	rep *progress.Reporter,
) (bare *bareCluster, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeouts.Network)
	defer cancel()
	var last error
	// Each attempt runs several docker processes, hence no shorter interval.
	if wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		bare, last = o.administrate(ctx, provider)
		return last == nil, nil
	}) != nil {
		return nil, fmt.Errorf("waiting for the API server: %w (%w)", context.Cause(ctx), last)
	}
	done := rep.Step("installing Cilium and the gVisor runtime class")
	defer func() { done("", err) }()
	// kubeadm is still at work, and an API server that is seconds old may refuse
	// once what it takes a moment later.
	tries := wait.Backoff{Steps: 4, Duration: 2 * time.Second}
	if err := wait.ExponentialBackoffWithContext(ctx, tries, func(ctx context.Context) (bool, error) {
		last = bare.client.Apply(ctx, withAPIHost(system, bare.apiHost))
		return last == nil, nil
	}); err != nil {
		return nil, fmt.Errorf("installing the network: %w", cmp.Or(last, err))
	}
	return bare, nil
}

// waitNetwork waits until Pods can run on the nodes and resolve names. The nodes
// have to be ready first: Cilium's DaemonSet counts as ready when it is so on the
// nodes that it knows, and a node that is still joining is not among them. Cilium
// is what makes a node ready.
func waitNetwork(ctx context.Context, client *kube.Client, names []string, rep *progress.Reporter) (err error) {
	done := rep.Step("waiting for Cilium and DNS")
	defer func() { done("", err) }()
	if err := waitNodes(ctx, client, names); err != nil {
		return err
	}
	if err := client.WaitReady(ctx, []*unstructured.Unstructured{
		object("apps/v1", "DaemonSet", "kube-system", "cilium"),
		object("apps/v1", "Deployment", "kube-system", "coredns"),
	}); err != nil {
		return fmt.Errorf("waiting for the network: %w", err)
	}
	return nil
}

// waitNodes waits until the nodes have joined and are ready.
func waitNodes(ctx context.Context, client *kube.Client, names []string) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var why string
	for {
		list, err := client.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			why = err.Error()
		} else if why = unready(list.Items, names); why == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the nodes (%s): %w", why, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}
