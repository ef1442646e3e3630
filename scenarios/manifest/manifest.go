// SPDX-License-Identifier: Apache-2.0

// Package manifest reads and changes Kubernetes objects in the shape that JSON
// gives them, and asks the API server for them. The families that attack through
// the API share it.
package manifest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stockade-dev/stockade/conformance/suite"
)

// Object is short for the shape of all objects, and of what is nested in them.
type Object = suite.Object

// At returns what is at the end of a path of fields, and nil where the path is not
// there.
func At(o any, path ...string) any {
	for _, field := range path {
		m, ok := o.(Object)
		if !ok {
			return nil
		}
		o = m[field]
	}
	return o
}

// Map is [At] for an object. The nil that it returns where there is none can be
// read, and not written.
func Map(o any, path ...string) Object {
	m, _ := At(o, path...).(Object)
	return m
}

// Name is the object's name.
func Name(o Object) string {
	name, _ := At(o, "metadata", "name").(string)
	return name
}

// Ended tells whether nothing of a Pod runs or will run.
func Ended(pod Object) bool {
	phase := At(pod, "status", "phase")
	return phase == "Succeeded" || phase == "Failed"
}

// Condition returns a condition of the object's status by its type, and nil where
// the status has none of it.
func Condition(o Object, conditionType string) Object {
	list, _ := At(o, "status", "conditions").([]any)
	for _, c := range list {
		if At(c, "type") == conditionType {
			return Map(c)
		}
	}
	return nil
}

// Child returns the object in a field, and makes it where it is not there.
func Child(o Object, field string) Object {
	if c, ok := o[field].(Object); ok {
		return c
	}
	c := Object{}
	o[field] = c
	return c
}

// Clone copies an object as deep as JSON goes.
func Clone(o Object) Object {
	c := make(Object, len(o))
	for k, v := range o {
		c[k] = cloneValue(v)
	}
	return c
}

func cloneValue(v any) any {
	switch v := v.(type) {
	case Object:
		return Clone(v)
	case []any:
		c := make([]any, len(v))
		for i := range v {
			c[i] = cloneValue(v[i])
		}
		return c
	default:
		return v
	}
}

// Containers are the ordinary containers of a Pod's spec.
func Containers(spec Object) []Object {
	list, _ := spec["containers"].([]any)
	var all []Object
	for _, c := range list {
		if c, ok := c.(Object); ok {
			all = append(all, c)
		}
	}
	return all
}

// A Change is made in an object: in a Pod's spec, or in one of its containers.
type Change = func(Object)

// Set puts a value into a field.
func Set(field string, value any) Change { return func(o Object) { o[field] = value } }

// Without leaves a field out.
func Without(field string) Change { return func(o Object) { delete(o, field) } }

// Security sets a field of the security context, a Pod's or a container's.
func Security(field string, value any) Change {
	return func(o Object) { Child(o, "securityContext")[field] = value }
}

// Volume adds a volume to a Pod's spec.
func Volume(source Object) Change {
	return func(spec Object) {
		v := Object{"name": "attack"}
		maps.Copy(v, Clone(source))
		list, _ := spec["volumes"].([]any)
		spec["volumes"] = append(list, v)
	}
}

// InContainers makes a change of a container in all ordinary ones of a Pod's spec.
func InContainers(change Change) Change {
	return func(spec Object) {
		for _, c := range Containers(spec) {
			change(c)
		}
	}
}

// ofTheKubelet are the kinds of volume that the kubelet makes, and fills itself.
var ofTheKubelet = []string{"configMap", "downwardAPI", "emptyDir", "image", "projected", "secret"}

// MayBeTheNodes tells whether a kind of volume, by its name in the API, can be a
// folder of the node: a persistent volume's claim may be for one, and a driver may
// mount what it likes.
func MayBeTheNodes(kind string) bool { return !slices.Contains(ofTheKubelet, kind) }

// suffixes are those of a quantity, as the API server writes it.
var suffixes = map[string]float64{"": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60}

// Quantity reads an amount of a resource: "500m" is 0.5, "64Mi" is 67108864.
func Quantity(v any) (n float64, ok bool) {
	text := fmt.Sprint(v)
	number := strings.TrimRight(text, "numkMGTPEi")
	factor, known := suffixes[text[len(number):]]
	n, err := strconv.ParseFloat(number, 64)
	return n * factor, known && err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}
