// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Labelled implements [Remover]. It has to name every kind that a run or a
// scenario stores: an object of another kind would be found by its ledger alone.
func (k *Kube) Labelled(ctx context.Context) ([]Owned, error) {
	var out []Owned
	if k.o.Bare {
		// Others may be at work there, of whose runs no ledger here tells.
		return nil, nil
	}
	for _, kind := range []schema.GroupVersionKind{spaceKind, claimKind, poolKind, sandboxKind, podKind} {
		m, err := k.o.Client.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			continue // nothing of a kind that is not there
		}
		if err != nil {
			return nil, fmt.Errorf("finding the resource of %s: %w", kind.Kind, err)
		}
		namespace := k.o.Namespace
		if kind == spaceKind {
			namespace = "" // whose target is gone is in none of the targets' own
		}
		list, err := k.o.Client.Dynamic.Resource(m.Resource).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: RunLabel})
		if err != nil {
			return nil, fmt.Errorf("listing what runs created: %w", err)
		}
		for i := range list.Items {
			u := &list.Items[i]
			// What belongs to something else goes with it.
			if len(u.GetOwnerReferences()) == 0 {
				out = append(out, Owned{Ref: refOf(u), Run: u.GetLabels()[RunLabel]})
			}
		}
	}
	return out, nil
}

// Remove implements [Remover]. A claim counts as gone when its Sandbox is gone
// too, a namespace when everything in it is.
func (k *Kube) Remove(ctx context.Context, run string, ref Ref) error {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return fmt.Errorf("removing %s: %w", ref, err)
	}
	m, err := k.o.Client.Mapper.RESTMapping(gv.WithKind(ref.Kind).GroupKind(), gv.Version)
	if meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing %s: %w", ref, err)
	}
	res := k.o.Client.Dynamic.Resource(m.Resource).Namespace(ref.Namespace)
	live, err := res.Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing %s: %w", ref, err)
	}
	if live.GetLabels()[RunLabel] != run {
		return nil // the name is the same, the object is somebody else's
	}
	uid := live.GetUID()
	background := metav1.DeletePropagationBackground
	err = res.Delete(ctx, ref.Name, metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing %s: %w", ref, err)
	}
	box, _, _ := unstructured.NestedString(live.Object, "status", "sandbox", "name")
	bound := k.t.Gone
	if ref.Kind == spaceKind.Kind {
		bound = k.t.Vacate
		if err := k.evict(ctx, ref.Name); err != nil {
			return fmt.Errorf("removing %s: %w", ref, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	err = until(ctx, poll, func() bool {
		now, err := res.Get(ctx, ref.Name, metav1.GetOptions{})
		if err == nil && now.GetUID() == uid || err != nil && !apierrors.IsNotFound(err) {
			return false
		}
		if ref.Kind != claimKind.Kind || box == "" {
			return true
		}
		_, err = k.o.Client.Get(ctx, object(sandboxKind, ref.Namespace, box))
		return apierrors.IsNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("waiting for %s to be gone: %w", ref, err)
	}
	return nil
}

// evict ends the Pods of a namespace that is being deleted, in which no new
// ones can be made. A user's template may ask for an hour's grace, and a
// program that ignores SIGTERM would take all of it.
func (k *Kube) evict(ctx context.Context, namespace string) error {
	pods := k.o.Client.Clientset.CoreV1().Pods(namespace)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing its Pods: %w", err)
	}
	grace := int64(1) // seconds; 0 would not wait for the kubelet
	var errs []error
	for _, p := range list.Items {
		err := pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("ending Pod %s: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}
