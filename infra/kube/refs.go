// SPDX-License-Identifier: Apache-2.0

package kube

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Refs returns pointers to the objects of a slice, as Apply and Delete take
// them. They point into the slice: nothing is copied.
func Refs(objs []unstructured.Unstructured) []*unstructured.Unstructured {
	refs := make([]*unstructured.Unstructured, len(objs))
	for i := range objs {
		refs[i] = &objs[i]
	}
	return refs
}
