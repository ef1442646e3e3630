// SPDX-License-Identifier: Apache-2.0

package gke

import (
	"fmt"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/stockade-dev/stockade/infra/component"
)

// GuardArgs say what is guarded.
type GuardArgs struct {
	// All are the resources of the environment.
	All []pulumi.Resource
	// Protected refuses their deletion.
	Protected bool
}

// Guard stands for nothing in the cloud. Whatever an environment has is made before
// it, and so may only be deleted after it: where it is protected, `pulumi destroy`
// stops at once. A protected cluster alone does not do that: without a preview,
// Pulumi deletes what depends on a resource before it finds out that the resource
// itself is to stay.
type Guard struct {
	pulumi.ResourceState
}

// NewGuard declares the guard. It must be the last of the environment, because it
// guards nothing that is declared after it.
func NewGuard(ctx *pulumi.Context, name string, args GuardArgs, opts ...pulumi.ResourceOption) (*Guard, error) {
	g := &Guard{}
	opts = append(opts, component.After(args.All), pulumi.Protect(args.Protected))
	if err := ctx.RegisterComponentResource("stockade:gke:Guard", name, g, opts...); err != nil {
		return nil, fmt.Errorf("declaring the guard: %w", err)
	}
	return g, ctx.RegisterResourceOutputs(g, pulumi.Map{})
}
