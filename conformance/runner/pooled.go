// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/conformance/witness"
	"github.com/stockade-dev/stockade/infra/kube"
)

// A warmPool has the sandboxes of Agent Sandbox, which SandboxClaims get out of a warm
// pool.
type warmPool struct {
	k        *Kube
	template *unstructured.Unstructured

	mu       sync.Mutex
	accounts map[string]*kubernetes.Clientset // by name, each asking as itself
}

func (c *warmPool) open(ctx context.Context) error {
	pool, err := c.k.get(ctx, poolKind, c.k.o.Pool)
	if err != nil {
		return fmt.Errorf("reading the target's warm pool (`stockade up` deploys it): %w", err)
	}
	name, _, _ := unstructured.NestedString(pool.Object, "spec", "sandboxTemplateRef", "name")
	if c.template, err = c.k.get(ctx, templateKind, name); err != nil {
		return fmt.Errorf("reading the target's template: %w", err)
	}
	c.refilled(ctx)
	return nil
}

// refilled waits a while until the pool is whole again after an earlier run. A
// claim that finds it empty gets a Pod of its own, which then competes with the
// pool's new ones for the node; where the template asks for a quarter of it, as
// the seed's does, the claim's Pod may never fit. A pool that stays short is no
// error: what the claims then get is what counts.
func (c *warmPool) refilled(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.k.t.Refill)
	defer cancel()
	_ = until(ctx, poll, func() bool {
		pool, err := c.k.get(ctx, poolKind, c.k.o.Pool)
		if err != nil {
			return false
		}
		ready, _, _ := unstructured.NestedInt64(pool.Object, "status", "readyReplicas")
		want, _, _ := unstructured.NestedInt64(pool.Object, "spec", "replicas")
		return ready >= want
	})
}

func (c *warmPool) furnish(f *Field) { f.Sandbox, f.Pod, f.Do = c.sandbox, c.pod, c.do }

// locate finds nothing: what makes these sandboxes is called through the API server.
func (c *warmPool) locate(context.Context, *Field) error { return nil }

// do sends one request as the administrator, or as a service account of the
// target's namespace: its server's, for one. Whatever is not a GET is a dry run.
func (c *warmPool) do(ctx context.Context, as suite.Identity, q suite.Request) (suite.Answer, error) {
	if as == suite.Administrator {
		return ask(ctx, c.k.o.Client.Clientset.CoreV1().RESTClient(), q)
	}
	name, ok := as.Account()
	if !ok || name == "" {
		return suite.Answer{}, fmt.Errorf("asking the API server: the target has no identity %s", as)
	}
	client, err := c.account(name)
	if err != nil {
		return suite.Answer{}, fmt.Errorf("asking the API server as %s: %w", name, err)
	}
	return ask(ctx, client.CoreV1().RESTClient(), q)
}

func (c *warmPool) account(name string) (*kubernetes.Clientset, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if client := c.accounts[name]; client != nil {
		return client, nil
	}
	client, err := impersonating(c.k.o.Client.Config, c.k.o.Namespace, name)
	if err != nil {
		return nil, err
	}
	if c.accounts == nil {
		c.accounts = map[string]*kubernetes.Clientset{}
	}
	c.accounts[name] = client
	return client, nil
}

func (c *warmPool) command(argv []string) []string { return argv }

func (c *warmPool) ref(name string) Ref { return refOf(object(claimKind, c.k.o.Namespace, name)) }

func (c *warmPool) create(ctx context.Context, name string) error {
	u := object(claimKind, c.k.o.Namespace, name)
	u.SetLabels(map[string]string{RunLabel: c.k.run})
	if err := unstructured.SetNestedField(u.Object, c.k.o.Pool, "spec", "warmPoolRef", "name"); err != nil {
		return fmt.Errorf("writing a claim: %w", err)
	}
	return c.k.create(ctx, u, false)
}

// find goes from the claim to its Sandbox and from there to the Pod, and
// checks the ownership on the way: the first Pod with a fitting label may be
// another session's.
func (c *warmPool) find(ctx context.Context, name string) (target.Pod, error) {
	k := c.k
	claim, err := k.get(ctx, claimKind, name)
	if err != nil {
		return target.Pod{}, err
	}
	switch c := kube.ConditionOf(claim, "Ready"); c.Status {
	case "True":
	case "":
		return target.Pod{}, errors.New("the claim is not ready: it has no condition Ready yet")
	default:
		return target.Pod{}, fmt.Errorf("the claim is not ready: %s: %s", c.Reason, c.Message)
	}
	box, _, _ := unstructured.NestedString(claim.Object, "status", "sandbox", "name")
	if box == "" {
		return target.Pod{}, errors.New("the claim names no Sandbox yet")
	}
	sandbox, err := k.get(ctx, sandboxKind, box)
	if err != nil {
		return target.Pod{}, err
	}
	if !owns(claim.GetUID(), sandbox.GetOwnerReferences()) {
		return target.Pod{}, fmt.Errorf("Sandbox %s is not the claim's own", box)
	}
	podName := sandbox.GetAnnotations()[podNameAnnotation]
	if podName == "" {
		podName = box
	}
	pod, err := k.o.Client.Clientset.CoreV1().Pods(k.o.Namespace).Get(ctx, podName, metav1.GetOptions{})
	if err != nil {
		return target.Pod{}, err
	}
	if !owns(sandbox.GetUID(), pod.OwnerReferences) {
		return target.Pod{}, fmt.Errorf("Pod %s is not Sandbox %s's own", podName, box)
	}
	if !witness.Ready(pod) || pod.Status.PodIP == "" {
		return target.Pod{}, fmt.Errorf("Pod %s is not ready", podName)
	}
	return podRef(pod), nil
}

func owns(uid types.UID, refs []metav1.OwnerReference) bool {
	for _, r := range refs {
		if r.UID == uid && r.Controller != nil && *r.Controller {
			return true
		}
	}
	return false
}

// sandbox is a compliant Sandbox of the target's own template.
func (c *warmPool) sandbox() suite.Object { return c.k.wrap(sandboxKind, sandboxSpec(c.template)) }

// SandboxOf returns a Sandbox as a template says that they are.
func SandboxOf(template *unstructured.Unstructured, namespace, name string) *unstructured.Unstructured {
	box := object(sandboxKind, namespace, name)
	box.Object["spec"] = sandboxSpec(template)
	return box
}

// sandboxSpec returns, as a copy, what a template says of its Sandboxes.
func sandboxSpec(template *unstructured.Unstructured) map[string]any {
	spec, _, _ := unstructured.NestedMap(template.Object, "spec") // a deep copy
	out := map[string]any{}
	for _, field := range []string{"podTemplate", "volumeClaimTemplates", "service"} {
		if v, ok := spec[field]; ok {
			out[field] = v
		}
	}
	return out
}

// pod is a compliant Pod of the target's own template, as the controller would
// make it.
func (c *warmPool) pod() suite.Object {
	spec, _, _ := unstructured.NestedMap(c.template.Object, "spec", "podTemplate", "spec") // a deep copy
	if spec == nil {
		spec = map[string]any{}
	}
	// The controller's default, without which a bare Pod would get a token.
	if _, set := spec["automountServiceAccountToken"]; !set {
		spec["automountServiceAccountToken"] = false
	}
	obj := c.k.wrap(podKind, spec)
	meta, _, _ := unstructured.NestedMap(c.template.Object, "spec", "podTemplate", "metadata")
	for _, field := range []string{"labels", "annotations"} {
		if v, ok := meta[field]; ok {
			obj["metadata"].(map[string]any)[field] = v //nolint:forcetypeassert // wrap made it
		}
	}
	return obj
}
