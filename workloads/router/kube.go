// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"net/netip"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/stockade-dev/stockade/workloads/gateway/sandboxes"
)

// Kube resolves by asking the API server for the Sandbox object each time: an
// address that was remembered may be another session's. All it needs is to get
// Sandboxes.
type Kube struct{ Client dynamic.Interface }

// Resolve implements [Resolver].
func (k Kube) Resolve(ctx context.Context, t Target) (netip.Addr, error) {
	s, err := k.Client.Resource(sandboxes.Boxes).Namespace(t.Namespace).Get(ctx, t.ID, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return netip.Addr{}, ErrNotFound
	}
	if err != nil {
		return netip.Addr{}, fmt.Errorf("finding a sandbox: %w", err)
	}
	// One that waits in the pool belongs to its next user.
	owner := metav1.GetControllerOf(s)
	if owner == nil || owner.Kind != "SandboxClaim" || s.GetDeletionTimestamp() != nil || t.UID != "" && string(s.GetUID()) != t.UID || sandboxes.Ended(s) {
		return netip.Addr{}, ErrNotFound
	}
	if addrs := sandboxes.Addresses(s); len(addrs) > 0 {
		return addrs[0], nil
	}
	return netip.Addr{}, fmt.Errorf("finding a sandbox: %s has no address yet", t.ID)
}
