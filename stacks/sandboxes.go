// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"context"
	"fmt"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stockade-dev/stockade/infra/node"
	"github.com/stockade-dev/stockade/infra/sandbox"
	"github.com/stockade-dev/stockade/overlays"
)

// workload is an overlay that a stack deploys.
type workload struct {
	// name is the resource's, overlay the path of package overlays.
	name, overlay string
	images        map[string]string
	// change is applied to the rendered objects; nil changes nothing.
	change func([]unstructured.Unstructured) error
}

// deploy declares the workloads in their order: the controller comes before what
// it has to look after, and goes after it.
//
// cluster takes them with it when it goes; nil means that they are deleted one
// by one.
func deploy(ctx *pulumi.Context, workloads []workload, cluster pulumi.Resource, opts ...pulumi.ResourceOption) ([]pulumi.Resource, error) {
	source, err := node.FindSource()
	if err != nil {
		return nil, err
	}
	module, err := overlays.ModuleFS(context.Background(), source)
	if err != nil {
		return nil, err
	}
	var done []pulumi.Resource
	for i, w := range workloads {
		objects, err := overlays.Render(module, w.overlay)
		if err == nil && w.change != nil {
			err = w.change(objects)
		}
		if err != nil {
			return nil, fmt.Errorf("preparing %s: %w", w.name, err)
		}
		after := opts
		if i > 0 {
			// The first is the controller; the others do not need each other.
			after = append([]pulumi.ResourceOption{pulumi.DependsOn(done[:1])}, opts...)
		}
		o, err := sandbox.NewOverlay(ctx, w.name, &sandbox.OverlayArgs{Objects: objects, Images: w.images, Cluster: cluster}, after...)
		if err != nil {
			return nil, err
		}
		done = append(done, o)
	}
	return done, nil
}

// warm sets how many sandboxes every pool keeps unclaimed.
func warm(replicas int) func([]unstructured.Unstructured) error {
	return func(objects []unstructured.Unstructured) error {
		for _, o := range objects {
			if o.GetKind() != "SandboxWarmPool" {
				continue
			}
			if err := unstructured.SetNestedField(o.Object, int64(replicas), "spec", "replicas"); err != nil {
				return err
			}
		}
		return nil
	}
}
