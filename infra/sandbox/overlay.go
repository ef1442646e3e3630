// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stockade-dev/stockade/infra/component"
	"github.com/stockade-dev/stockade/infra/kube"
)

// Overlay is a set of Kubernetes objects that belong together.
type Overlay struct {
	pulumi.ResourceState
	component.Children
}

// OverlayArgs say which objects.
type OverlayArgs struct {
	// Objects as overlays.Render returns them. They are not changed.
	Objects []unstructured.Unstructured
	// Images replaces container images, by the name that the objects use. GKE
	// needs it: a digest in a registry instead of a name that is on our own
	// nodes only.
	Images map[string]string
	// Pin makes digests of the names of images in an object, where they are known
	// only once the cluster is: Digests has them by name. Nil pins nothing.
	Pin     func(object *unstructured.Unstructured, digests map[string]string) error
	Digests pulumi.StringMapOutput
	// Fill are fields that are known only once something else is there, by the
	// object ("Secret/kode-gopher") and the field's name at its top. They replace
	// what the object has.
	Fill map[string]pulumi.Map
	// Cluster is the resource that takes all objects with it when it goes, so
	// that they need not be deleted before. Nil means that they are deleted one
	// by one. A component's children do not inherit that option.
	Cluster pulumi.Resource
	// TakeOver makes the stack the owner of fields that another manager has
	// set, `stockade up` for one. Without it such a conflict is an error.
	TakeOver bool
}

// readyTimeout is how long a warm pool may take, in seconds: a cold start of a
// sandbox on two busy cores takes up to a minute, and a pool has a few.
const readyTimeout = 300

// NewOverlay declares the objects, those first that others refer to: an object
// waits for all of the ranks before its own (see [kube.Ranks]), so that no
// workload runs before its policy, and none is left when its policy goes.
//
// Options must name the Kubernetes provider. An image that Images does not
// replace stays as it is; one that Images names and no object uses is an error,
// because it would be a digest that nobody runs, and so is what Fill has for an
// object that is not there.
func NewOverlay(ctx *pulumi.Context, name string, args *OverlayArgs, opts ...pulumi.ResourceOption) (*Overlay, error) {
	o := &Overlay{}
	if err := component.Register(ctx, "stockade:sandbox:Overlay", name, o, opts...); err != nil {
		return nil, fmt.Errorf("declaring overlay %s: %w", name, err)
	}
	unused, unfilled := maps.Clone(args.Images), maps.Clone(args.Fill)
	var before []pulumi.Resource
	for _, rank := range kube.Ranks(kube.Refs(args.Objects)) {
		var these []pulumi.Resource
		for _, object := range rank {
			object = object.DeepCopy()
			replaceImages(object.Object, args.Images, unused)
			if err := await(object); err != nil {
				return nil, fmt.Errorf("declaring overlay %s: %w", name, err)
			}
			if args.TakeOver {
				annotate(object, "pulumi.com/patchForce", "true")
			}
			fields, key := args.inputs(object, ctx.DryRun()), object.GetKind()+"/"+object.GetName()
			maps.Copy(fields, args.Fill[key])
			delete(unfilled, key)
			options := []pulumi.ResourceOption{pulumi.Parent(o), pulumi.DependsOn(before), pulumi.DeletedWith(args.Cluster)}
			if object.GetKind() == "Secret" {
				// The provider would mark what it was given as a secret, and not
				// what the API server makes of it.
				options = append(options, pulumi.AdditionalSecretOutputs([]string{"data", "stringData"}))
			}
			if object.GetKind() == "ServiceAccount" && object.GetName() == "default" {
				// Kubernetes makes a namespace's default account again the moment
				// it is deleted, and the provider would wait for its end in vain.
				// It goes with its namespace.
				options = append(options, pulumi.RetainOnDelete(true))
			}
			r := &apiObject{}
			if err := ctx.RegisterResource(token(object), resourceName(name, object), fields, r, options...); err != nil {
				return nil, fmt.Errorf("declaring %s: %w", resourceName(name, object), err)
			}
			these = append(these, r)
		}
		before = append(before, these...)
	}
	for image := range unused {
		return nil, fmt.Errorf("declaring overlay %s: no object uses the image %q, for which there is a replacement", name, image)
	}
	for key := range unfilled {
		return nil, fmt.Errorf("declaring overlay %s: there is no %s, for which there are fields", name, key)
	}
	return o, ctx.RegisterResourceOutputs(o, pulumi.Map{})
}

// apiObject is any object of the Kubernetes API; nobody here reads its outputs.
type apiObject struct {
	pulumi.CustomResourceState
}

// token is the type by which the Kubernetes provider knows the object's kind.
func token(o *unstructured.Unstructured) string {
	version := o.GetAPIVersion()
	if !strings.Contains(version, "/") {
		version = "core/" + version
	}
	return "kubernetes:" + version + ":" + o.GetKind()
}

// resourceName tells the object from every other of the overlay.
func resourceName(overlay string, o *unstructured.Unstructured) string {
	parts := []string{overlay, o.GetKind()}
	if o.GetNamespace() != "" {
		parts = append(parts, o.GetNamespace())
	}
	return strings.Join(append(parts, o.GetName()), "/")
}

// inputs are the object's fields. A preview may show an image by its tag: the
// digest is known when the image has come to the nodes, which is during the update.
func (a *OverlayArgs) inputs(o *unstructured.Unstructured, preview bool) pulumi.Map {
	m := pulumi.Map{}
	// An object in which nothing is pinned does not wait for the digests.
	pins := a.Pin != nil && a.Pin(o.DeepCopy(), nil) != nil
	for k, v := range o.Object {
		switch {
		case k == "status": // the server's, and an update of it is refused
		case !pins || k == "apiVersion" || k == "kind" || k == "metadata":
			m[k] = pulumi.Any(v)
		default:
			m[k] = a.Digests.ApplyT(func(digests map[string]string) (any, error) {
				pinned := o.DeepCopy()
				if err := a.Pin(pinned, digests); err != nil && !preview {
					return nil, err
				}
				return pinned.Object[k], nil
			}).(pulumi.AnyOutput)
		}
	}
	return m
}

// replaceImages walks the object: a container is wherever a field "image" is, in
// a Pod template as in a sandbox template.
func replaceImages(v any, images, unused map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		if image, ok := v["image"].(string); ok {
			if to, ok := images[image]; ok {
				v["image"] = to
				delete(unused, image)
			}
		}
		for _, x := range v {
			replaceImages(x, images, unused)
		}
	case []any:
		for _, x := range v {
			replaceImages(x, images, unused)
		}
	}
}

// await tells the provider what it waits for. It knows by itself when a
// Deployment is ready, but of a custom resource only what it is told. A Service
// it would watch for ten seconds, for Pods that might still come; the Deployment
// behind it is waited for anyway.
func await(o *unstructured.Unstructured) error {
	switch o.GetKind() {
	case "Service":
		annotate(o, "pulumi.com/skipAwait", "true")
	case "SandboxWarmPool":
		replicas, _, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
		if err != nil || replicas == 0 {
			return err
		}
		annotate(o, "pulumi.com/waitFor", fmt.Sprintf("jsonpath={.status.readyReplicas}=%d", replicas))
		annotate(o, "pulumi.com/timeoutSeconds", strconv.Itoa(readyTimeout))
	}
	return nil
}

// annotate tells the Kubernetes provider something about the object.
func annotate(o *unstructured.Unstructured, key, value string) {
	notes := maps.Clone(o.GetAnnotations())
	if notes == nil {
		notes = map[string]string{}
	}
	notes[key] = value
	o.SetAnnotations(notes)
}
