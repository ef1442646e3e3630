// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"context"
	"fmt"

	"github.com/pulumi/pulumi-kubernetes/sdk/v4/go/kubernetes"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stockade-dev/stockade/infra/component"
	"github.com/stockade-dev/stockade/infra/kind/cluster"
	"github.com/stockade-dev/stockade/infra/node"
	"github.com/stockade-dev/stockade/infra/sandbox"
	"github.com/stockade-dev/stockade/overlays"
)

// workload is an overlay that a stack deploys.
type workload struct {
	// name is the resource's, overlay the path of package overlays.
	name, overlay string
	// free needs no other workload; all others need the first, the controller.
	free   bool
	images map[string]string
	// fill are fields that other resources know: see sandbox.OverlayArgs.
	fill map[string]pulumi.Map
	// change makes of the rendered objects those to deploy; nil changes nothing.
	change func([]unstructured.Unstructured) ([]unstructured.Unstructured, error)
}

// deploy declares the workloads in their order: the controller comes before what
// it has to look after, and goes after it.
//
// place takes them with it when it goes, and is ours alone, so that fields set by
// `stockade up` are taken over, and so are the digests of its images; nil means
// that they are deleted one by one, and that a conflict with another manager is
// an error.
func deploy(ctx *pulumi.Context, workloads []workload, place *cluster.Cluster, opts ...pulumi.ResourceOption) ([]pulumi.Resource, error) {
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
			objects, err = w.change(objects)
		}
		if err != nil {
			return nil, fmt.Errorf("preparing %s: %w", w.name, err)
		}
		after := opts
		if i > 0 && !w.free {
			after = append([]pulumi.ResourceOption{component.After(done[:1])}, opts...)
		}
		args := &sandbox.OverlayArgs{Objects: objects, Images: w.images, Fill: w.fill}
		if place != nil {
			args.Cluster, args.TakeOver, args.Pin, args.Digests = place, true, pin(objects), place.Images
		}
		o, err := sandbox.NewOverlay(ctx, w.name, args, after...)
		if err != nil {
			return nil, err
		}
		done = append(done, o)
	}
	return done, nil
}

// pin returns what pins one of the objects. A Deployment is told of the
// ConfigMaps among them, too.
func pin(objects []unstructured.Unstructured) func(*unstructured.Unstructured, map[string]string) error {
	return func(o *unstructured.Unstructured, digests map[string]string) error {
		all := []unstructured.Unstructured{*o} // which share their content
		for _, x := range objects {
			if x.GetKind() == "ConfigMap" {
				all = append(all, *x.DeepCopy())
			}
		}
		return overlays.Pin(all, digests)
	}
}

// warm sets how many sandboxes every pool keeps unclaimed.
func warm(replicas int) func([]unstructured.Unstructured) ([]unstructured.Unstructured, error) {
	return func(objects []unstructured.Unstructured) ([]unstructured.Unstructured, error) {
		for _, o := range objects {
			if o.GetKind() != "SandboxWarmPool" {
				continue
			}
			if err := unstructured.SetNestedField(o.Object, int64(replicas), "spec", "replicas"); err != nil {
				return nil, err
			}
		}
		return objects, nil
	}
}

// workloads declares what runs in a cluster on Google Cloud, once the registry
// holds the images of the settings. Before that there is nothing that the nodes
// could pull, and nothing is declared.
func (e *environment) workloads(ctx *pulumi.Context) error {
	if e.ControllerImage == "" {
		return nil
	}
	e.profile.Workloads = true
	config := e.cluster.Endpoint.ApplyT(func(endpoint string) (string, error) {
		return kubeconfig(e.Name, endpoint)
	}).(pulumi.StringOutput)
	k8s, err := kubernetes.NewProvider(ctx, e.Name, &kubernetes.ProviderArgs{
		Kubeconfig: config,
		// A cluster that replaces another has its name, and nothing of what was in it:
		// the host name is made for one cluster and stays with it.
		ClusterIdentifier: e.cluster.Endpoint,
	}, component.After(e.all))
	if err != nil {
		return fmt.Errorf("declaring the Kubernetes provider: %w", err)
	}
	deployed, err := deploy(ctx, []workload{
		{name: "agent-sandbox-system", overlay: overlays.System, images: map[string]string{overlays.ControllerImage: e.ControllerImage}},
		{name: "reference", overlay: overlays.Reference, images: map[string]string{overlays.SandboxImage: e.SandboxImage}, change: e.allow},
	}, nil, pulumi.Providers(k8s))
	e.all = append(e.all, deployed...)
	return err
}

// allow adds the allow-list, where the environment has one. It is among the
// objects of the sandboxes' namespace so that it is there before they are.
func (e *environment) allow(objects []unstructured.Unstructured) ([]unstructured.Unstructured, error) {
	if !e.profile.AllowList {
		return objects, nil
	}
	list, err := overlays.AllowList(overlays.GKE, overlays.AllowListArgs{
		Namespace: overlays.ReferenceNamespace, Name: "egress-allow",
		Labels: map[string]string{overlays.SandboxLabel: overlays.TemplateName}, Hosts: e.allowList(),
	})
	return append(objects, list...), err
}
