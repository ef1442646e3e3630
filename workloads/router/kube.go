// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

var sandboxes = schema.GroupVersionResource{Group: "agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxes"}

// Kube resolves by asking the API server for the Sandbox object each time: an
// address that was remembered may be another session's. All it needs is to get
// Sandboxes.
type Kube struct{ Client dynamic.Interface }

// Resolve implements [Resolver].
func (k Kube) Resolve(ctx context.Context, t Target) (netip.Addr, error) {
	s, err := k.Client.Resource(sandboxes).Namespace(t.Namespace).Get(ctx, t.ID, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return netip.Addr{}, ErrNotFound
	}
	if err != nil {
		return netip.Addr{}, fmt.Errorf("finding a sandbox: %w", err)
	}
	// One that waits in the pool belongs to its next user.
	owner := metav1.GetControllerOf(s)
	if owner == nil || owner.Kind != "SandboxClaim" || s.GetDeletionTimestamp() != nil || t.UID != "" && string(s.GetUID()) != t.UID {
		return netip.Addr{}, ErrNotFound
	}
	// The Pod of one that has ended (evicted, say, which its program can bring about)
	// keeps its address in the API, while the network may have given it to another
	// session's.
	if finished(s) {
		return netip.Addr{}, ErrNotFound
	}
	ips, _, _ := unstructured.NestedStringSlice(s.Object, "status", "podIPs")
	for _, ip := range ips {
		if addr, err := netip.ParseAddr(ip); err == nil {
			return addr, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("finding a sandbox: %s has no address yet", t.ID)
}

// finished tells whether a Sandbox's Pod has come to its end.
func finished(s *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(s.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		m, ok := c.(map[string]any)
		return ok && m["type"] == "Finished" && m["status"] == "True"
	})
}
