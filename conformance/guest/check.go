// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/stockade-dev/stockade/infra/kube"
)

// ErrUnfit means that a template, as it is written, cannot work on the cluster.
var ErrUnfit = errors.New("the template cannot be used here")

// maxImages is how many images a kubelet tells of at most (nodeStatusMaxImages
// is left at its default). Of a node that tells as many, none is known to be
// missing.
const maxImages = 50

// Check asks the cluster whether the template can work, and creates nothing. The
// namespace is any that exists: the API server's dry run needs one. What is the
// template's own fault is an [ErrUnfit].
func (t *Template) Check(ctx context.Context, k *kube.Client, namespace string) error {
	nodes, err := k.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("asking the nodes for their images: %w", err)
	}
	if err := fits(t.pod, nodes.Items); err != nil {
		return fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	return t.valid(ctx, k, namespace)
}

// valid has the API server itself look: only it knows every field of the
// installed version.
func (t *Template) valid(ctx context.Context, k *kube.Client, namespace string) error {
	err := k.Try(ctx, t.in(namespace), true)
	switch {
	case err == nil:
		return nil
	case apierrors.IsBadRequest(err), apierrors.IsInvalid(err):
		return fmt.Errorf("%w: the API server refuses it: %w", ErrUnfit, err)
	}
	return fmt.Errorf("having the API server check the template: %w", err)
}

// fits tells whether one of the nodes can start the Pod with what it has.
func fits(pod corev1.PodSpec, nodes []corev1.Node) error {
	selector := labels.SelectorFromSet(pod.NodeSelector)
	candidates := slices.DeleteFunc(slices.Clone(nodes), func(n corev1.Node) bool { return !selector.Matches(labels.Set(n.Labels)) })
	if len(candidates) == 0 {
		return fmt.Errorf("no node has the labels of its nodeSelector (%s): the nodes for sandboxes have sandbox.gke.io/runtime=gvisor", selector)
	}
	all := false
	there := map[string]string{} // the image's full name to the one that people use
	for _, n := range candidates {
		all = all || len(n.Status.Images) >= maxImages
		for _, image := range n.Status.Images {
			for _, text := range image.Names {
				if ref, err := name.ParseReference(text); err == nil {
					there[ref.Name()] = text
				}
			}
		}
	}
	for _, i := range images(pod) {
		ref, err := name.ParseReference(i.text)
		if err != nil {
			return fmt.Errorf("%q is no name of an image: %w", i.text, err)
		}
		if pulled(i.policy, ref) {
			return fmt.Errorf("image %q would be pulled each time, and no registry can be reached from the seal: set imagePullPolicy: IfNotPresent", i.text)
		}
		if _, ok := there[ref.Name()]; !ok && !all {
			return fmt.Errorf("image %q is not on the nodes, and no registry can be reached from the seal: name one that is there: %s", i.text, tagged(there))
		}
	}
	return nil
}

// wanted is an image that a Pod needs.
type wanted struct {
	text   string
	policy corev1.PullPolicy
}

func images(pod corev1.PodSpec) (out []wanted) {
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		out = append(out, wanted{c.Image, c.ImagePullPolicy})
	}
	for _, v := range pod.Volumes {
		if v.Image != nil && v.Image.Reference != "" {
			out = append(out, wanted{v.Image.Reference, v.Image.PullPolicy})
		}
	}
	return out
}

// pulled tells whether a kubelet asks a registry although it has the image; by
// default it does so for the tag latest.
func pulled(policy corev1.PullPolicy, ref name.Reference) bool {
	tag, isTag := ref.(name.Tag)
	return policy == corev1.PullAlways || policy == "" && isTag && tag.TagStr() == name.DefaultTag
}

// tagged lists the images that have a name worth typing.
func tagged(there map[string]string) string {
	names := slices.DeleteFunc(slices.Sorted(maps.Values(there)), func(n string) bool { return strings.Contains(n, "@") })
	if len(names) == 0 {
		return "(the nodes tell of none)"
	}
	return strings.Join(slices.Compact(names), ", ")
}
