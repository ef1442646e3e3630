// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// Decode reads a stream of YAML or JSON documents. Empty documents are passed
// over, lists are flattened.
func Decode(r io.Reader) ([]*unstructured.Unstructured, error) {
	dec := yaml.NewYAMLOrJSONDecoder(r, 4096)
	var objs []*unstructured.Unstructured
	for n := 1; ; n++ {
		raw := map[string]any{}
		err := dec.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return objs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading document %d: %w", n, err)
		}
		if len(raw) == 0 {
			continue
		}
		obj := &unstructured.Unstructured{Object: raw}
		if obj.GetKind() == "" || obj.GetAPIVersion() == "" {
			return nil, fmt.Errorf("reading document %d: it has no apiVersion or no kind", n)
		}
		if !obj.IsList() {
			objs = append(objs, obj)
			continue
		}
		list, err := obj.ToList()
		if err != nil {
			return nil, fmt.Errorf("reading document %d: %w", n, err)
		}
		for i := range list.Items {
			objs = append(objs, &list.Items[i])
		}
	}
}

// rank orders kinds so that what others refer to comes first.
func rank(obj *unstructured.Unstructured) int {
	switch obj.GetKind() {
	case "CustomResourceDefinition":
		return 0
	case "Namespace":
		return 1
	case "PriorityClass", "RuntimeClass", "StorageClass":
		return 2
	case "ServiceAccount", "ConfigMap", "Secret", "ClusterRole", "Role":
		return 3
	case "ClusterRoleBinding", "RoleBinding":
		return 4
	// Policies come before what they are to restrict: there must be no moment
	// in which a workload runs without them.
	case "NetworkPolicy", "CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy", "FQDNNetworkPolicy",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ResourceQuota", "LimitRange":
		return 5
	}
	return 6
}

// inOrder returns the objects in the order in which they can be applied.
func inOrder(objs []*unstructured.Unstructured) []*unstructured.Unstructured {
	sorted := slices.Clone(objs)
	slices.SortStableFunc(sorted, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	return sorted
}

// Ranks returns the objects in groups: whatever an object refers to is in a group
// before its own, and within a group the order does not matter.
func Ranks(objs []*unstructured.Unstructured) [][]*unstructured.Unstructured {
	var groups [][]*unstructured.Unstructured
	for i, obj := range inOrder(objs) {
		if i == 0 || rank(obj) != rank(groups[len(groups)-1][0]) {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], obj)
	}
	return groups
}

// Apply applies the objects server-side and takes over fields that others own.
// CustomResourceDefinitions go first, and Apply waits until they serve. The
// objects are not changed.
//
// Errors: the first object that is refused, by kind and name.
func (c *Client) Apply(ctx context.Context, objs []*unstructured.Unstructured) error {
	var crds []*unstructured.Unstructured
	for _, obj := range inOrder(objs) {
		if rank(obj) > 0 && crds != nil {
			if err := c.waitEstablished(ctx, crds); err != nil {
				return err
			}
			crds = nil
		}
		if err := c.apply(ctx, obj); err != nil {
			return fmt.Errorf("applying %s: %w", nameOf(obj), err)
		}
		if rank(obj) == 0 {
			crds = append(crds, obj)
		}
	}
	return c.waitEstablished(ctx, crds)
}

func (c *Client) apply(ctx context.Context, obj *unstructured.Unstructured) error {
	res, err := c.resource(obj)
	if err != nil {
		return err
	}
	obj = obj.DeepCopy()
	// Both are the server's; an object that was read earlier has them.
	obj.SetManagedFields(nil)
	obj.SetResourceVersion("")
	_, err = res.Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	return err
}

// Delete deletes the objects, the last applied first, with everything that
// depends on them. What is not there, or is of a kind that the cluster does not
// know, counts as deleted. It does not wait. All objects are tried; the error
// joins what went wrong.
func (c *Client) Delete(ctx context.Context, objs []*unstructured.Unstructured) error {
	background := metav1.DeletePropagationBackground
	var errs []error
	for _, obj := range slices.Backward(inOrder(objs)) {
		res, err := c.resource(obj)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err == nil {
			err = res.Delete(ctx, obj.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("deleting %s: %w", nameOf(obj), err))
		}
	}
	return errors.Join(errs...)
}

// Get reads the live state of an object.
func (c *Client) Get(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	res, err := c.resource(obj)
	if err != nil {
		return nil, err
	}
	live, err := res.Get(ctx, obj.GetName(), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", nameOf(obj), err)
	}
	return live, nil
}

// Try asks the API server whether it would create an object, which it does not
// store. Strictly is whether a field that it does not know is an error.
func (c *Client) Try(ctx context.Context, obj *unstructured.Unstructured, strictly bool) error {
	res, err := c.resource(obj)
	if err != nil {
		return err
	}
	opts := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	if strictly {
		opts.FieldValidation = metav1.FieldValidationStrict
	}
	_, err = res.Create(ctx, obj, opts)
	return err
}

// resource returns the client for an object's kind and namespace. An object of
// a namespaced kind without a namespace goes into "default".
func (c *Client) resource(obj *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	m, err := c.mapping(obj.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	res := c.Dynamic.Resource(m.Resource)
	if m.Scope.Name() != meta.RESTScopeNameNamespace {
		return res, nil
	}
	ns := obj.GetNamespace()
	if ns == "" {
		ns = metav1.NamespaceDefault
	}
	return res.Namespace(ns), nil
}

func nameOf(obj *unstructured.Unstructured) string {
	if ns := obj.GetNamespace(); ns != "" {
		return obj.GetKind() + " " + ns + "/" + obj.GetName()
	}
	return obj.GetKind() + " " + obj.GetName()
}

// waitEstablished waits until the API server serves the given definitions, and
// refreshes the mapper.
func (c *Client) waitEstablished(ctx context.Context, crds []*unstructured.Unstructured) error {
	if len(crds) == 0 {
		return nil
	}
	for _, crd := range crds {
		if err := c.wait(ctx, crd, established); err != nil {
			return err
		}
	}
	c.Refresh()
	return nil
}

// pollEvery is how often a wait looks again.
const pollEvery = 200 * time.Millisecond
