// SPDX-License-Identifier: Apache-2.0

// Package component declares Pulumi components that others can wait for.
//
// To depend on a component is to depend on its children. Pulumi's SDK for Go asks
// for these in a goroutine of its own while the waiting resource is being
// registered, and children are added in goroutines too (v3.276.0: addDependency,
// addChild). A child that has not been added by then is not waited for. A component
// of this package knows its children from the moment they are declared.
package component

import (
	"slices"
	"sync"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// Children are what a component has declared so far. To embed them is what makes
// a component a [Component]. They are safe for concurrent use.
type Children struct {
	mu  sync.Mutex
	all []pulumi.Resource
}

func (c *Children) add(r pulumi.Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, r)
}

func (c *Children) declared() []pulumi.Resource {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// Component is a component that embeds Children.
type Component interface {
	pulumi.ComponentResource

	add(r pulumi.Resource)
	declared() []pulumi.Resource
}

// Register declares a component, as pulumi.Context.RegisterComponentResource does.
func Register(ctx *pulumi.Context, typ, name string, c Component, opts ...pulumi.ResourceOption) error {
	// A component's transformations see each of its descendants as it is declared,
	// and in the caller's own goroutine. This one changes nothing.
	note := func(args *pulumi.ResourceTransformationArgs) *pulumi.ResourceTransformationResult {
		if _, custom := args.Resource.(pulumi.CustomResource); custom {
			c.add(args.Resource)
		}
		return nil
	}
	opts = append(slices.Clone(opts), pulumi.Transformations([]pulumi.ResourceTransformation{note}))
	return ctx.RegisterComponentResource(typ, name, c, opts...)
}

// After is pulumi.DependsOn, where a component among the resources stands for all
// that it has declared so far.
func After(resources []pulumi.Resource) pulumi.ResourceOption {
	var all []pulumi.Resource
	for _, r := range resources {
		if c, ok := r.(Component); ok {
			all = append(all, c.declared()...)
		} else {
			all = append(all, r)
		}
	}
	return pulumi.DependsOn(all)
}
