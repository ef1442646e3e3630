// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/overlays"
)

// poll is how often the cluster is asked while something is waited for.
const poll = 200 * time.Millisecond

// ClusterStage is the Stage on a real cluster, with the overlays' mutants.
type ClusterStage struct {
	Kube *kube.Client
	// Module is the agent-sandbox module's files (overlays.ModuleFS).
	Module  fs.FS
	Mutants []overlays.Mutant
	// Run attacks a mutant that is deployed.
	Run func(ctx context.Context, m overlays.Mutant, scenarios []*suite.Scenario) (*runner.Run, error)
	// Digests are the images' references by digest, for mutants whose images
	// have to be digests.
	Digests map[string]string
	// Ready and EffectTimeout bound the waits for a mutant's sandbox and for its
	// effect to be readable.
	Ready, EffectTimeout time.Duration
}

// List returns the overlays' mutants as Prove takes them, and, with the feature
// that each lacks, those that cannot be felt on a target with only these
// features: their scenarios are not applicable there, which would look as if
// they had survived.
func List(all []overlays.Mutant, features []suite.Feature) (picked []Mutant, unfelt map[string]suite.Feature) {
	unfelt = map[string]suite.Feature{}
	for _, m := range all {
		i := slices.IndexFunc(m.Needs, func(f string) bool { return !slices.Contains(features, suite.Feature(f)) })
		if i >= 0 {
			unfelt[m.ID] = suite.Feature(m.Needs[i])
			continue
		}
		picked = append(picked, Mutant{ID: m.ID, Title: m.Title, Kills: m.Kills, Holds: m.Holds, Alone: m.Alone()})
	}
	return picked, unfelt
}

func (s *ClusterStage) find(id string) (overlays.Mutant, error) {
	i := slices.IndexFunc(s.Mutants, func(m overlays.Mutant) bool { return m.ID == id })
	if i < 0 {
		return overlays.Mutant{}, fmt.Errorf("finding mutant %s: no such overlay", id)
	}
	return s.Mutants[i], nil
}

// Scaffold exempts the mutants' namespaces from the reference's admission policy.
// The API server acts on that a moment later; what it still refuses until then, the
// controller asks for again, and a mutant with a policy of its own is waited for
// ([ClusterStage.awaitPolicies]).
func (s *ClusterStage) Scaffold(ctx context.Context) (func(context.Context) error, error) {
	during, after, err := overlays.ScaffoldBinding(s.Module)
	if err != nil {
		return nil, err
	}
	if err := s.Kube.Apply(ctx, []*unstructured.Unstructured{&during}); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		return s.Kube.Apply(ctx, []*unstructured.Unstructured{&after})
	}, nil
}

// Deploy applies a mutant and waits for its servers and its pool.
func (s *ClusterStage) Deploy(ctx context.Context, m Mutant, scenarios []*suite.Scenario) (func(context.Context) error, error) {
	nothing := func(context.Context) error { return nil }
	o, err := s.find(m.ID)
	if err != nil {
		return nothing, err
	}
	objects, err := s.objects(ctx, o, scenarios)
	if err != nil {
		return nothing, err
	}
	var taints map[string][]corev1.Taint
	down := func(ctx context.Context) error {
		return errors.Join(s.retaint(ctx, taints), Remove(ctx, s.Kube, objects))
	}
	for _, namespace := range o.Namespaces() {
		if err := s.vacant(ctx, namespace); err != nil {
			return nothing, err
		}
	}
	if err := s.Kube.Apply(ctx, kube.Refs(objects)); err != nil {
		return down, err
	}
	if err := s.awaitPolicies(ctx, o.Namespace(), objects); err != nil {
		return down, fmt.Errorf("waiting for the admission policy of mutant %s: %w", m.ID, err)
	}
	if o.Node != nil {
		taints, err = s.untaint(ctx, *o.Node)
		if err != nil {
			return down, err
		}
	}
	// Those that play a part in it are ready when the attacks begin; one without
	// a pool makes its Pods when they are wanted.
	servers := slices.DeleteFunc(kube.Refs(objects), func(o *unstructured.Unstructured) bool { return o.GetKind() != "Deployment" })
	wctx, cancel := context.WithTimeout(ctx, s.Ready)
	defer cancel()
	if err := s.Kube.WaitReady(wctx, servers); err != nil {
		return down, fmt.Errorf("waiting for the servers of mutant %s: %w", m.ID, err)
	}
	if o.Pool() == "" {
		return down, nil
	}
	return down, target.AwaitPool(ctx, s.Kube, o.Namespace(), o.Pool(), s.Ready)
}

// objects are all that a mutant consists of, as these scenarios need it.
func (s *ClusterStage) objects(ctx context.Context, m overlays.Mutant, scenarios []*suite.Scenario) ([]unstructured.Unstructured, error) {
	objects, err := m.Render(s.Module)
	if err != nil {
		return nil, err
	}
	if err := overlays.Pin(objects, s.Digests); err != nil {
		return nil, err
	}
	if !warm(m, scenarios) {
		if err := emptyPools(objects); err != nil {
			return nil, err
		}
	}
	settings, err := s.settings(ctx, m)
	return append(objects, settings...), err
}

// awaitPolicies waits until the API server acts on the mutant's own admission policies,
// which takes it a second or some after it took them: an attack before that would
// find no policy at all instead of a weaker one. Each that denies anything is shown
// an object that breaks many of its rules, of which a mutant lacks one; where none
// denies anything, that object has to be taken. Those that were changed before, the
// reference's exemption among them, are then in force too.
func (s *ClusterStage) awaitPolicies(ctx context.Context, namespace string, objects []unstructured.Unstructured) error {
	violating, err := violatingObject(namespace, objects)
	if err != nil {
		return err
	}
	denying, auditing := policies(objects)
	if len(auditing) > 0 && violating != nil {
		// What is in force is seen by what no other policy refuses any more.
		err := s.awaitAnswer(ctx, violating, func(refusal string) bool { return refusal == "" })
		if err != nil {
			return fmt.Errorf("%s only writes down what it refuses, and another refuses it: %w", auditing[0], err)
		}
	}
	for _, policy := range denying {
		if violating == nil {
			return fmt.Errorf("the mutant has no template that could be shown to %s", policy)
		}
		err := s.awaitAnswer(ctx, violating, func(refusal string) bool { return strings.Contains(refusal, "'"+policy+"'") })
		if err != nil {
			return fmt.Errorf("%s refuses no %s that breaks many of its rules: %w", policy, violating.GetKind(), err)
		}
	}
	return nil
}

// awaitAnswer shows an object to the API server until it answers as wanted: with a
// refusal, or with none where it takes the object. The error has the last answer.
func (s *ClusterStage) awaitAnswer(ctx context.Context, violating *unstructured.Unstructured, wanted func(refusal string) bool) error {
	said := "nothing yet"
	err := wait.PollUntilContextTimeout(ctx, poll, s.EffectTimeout, true, func(ctx context.Context) (bool, error) {
		err := s.Kube.Try(ctx, violating, false)
		if err == nil {
			said = "the API server takes it"
			return wanted(""), nil
		}
		said = err.Error()
		return wanted(said), nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", said, err)
	}
	return nil
}

// policies are the admission policies among objects: those that a binding makes deny
// what they refuse, and those of which it is only written down.
func policies(objects []unstructured.Unstructured) (denying, auditing []string) {
	for _, o := range objects {
		if o.GetKind() != "ValidatingAdmissionPolicyBinding" {
			continue
		}
		actions, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "validationActions")
		policy, _, _ := unstructured.NestedString(o.Object, "spec", "policyName")
		if slices.Contains(actions, "Deny") {
			denying = append(denying, policy)
		} else {
			auditing = append(auditing, policy)
		}
	}
	return denying, auditing
}

// violatingObject makes of a mutant's template what its admission policy has to refuse: an
// object without a runtime class, with a token and an image that is in no registry.
// To Pod Security, which is asked first, it is as good as the template is. It is nil
// where there is no template.
func violatingObject(namespace string, objects []unstructured.Unstructured) (*unstructured.Unstructured, error) {
	const name = "stockade-bait"
	for _, o := range objects {
		var violating *unstructured.Unstructured
		var at []string
		switch o.GetKind() {
		case "SandboxTemplate":
			violating, at = runner.SandboxOf(&o, namespace, name), []string{"spec", "podTemplate", "spec"}
		case "PodTemplate":
			template, _, _ := unstructured.NestedMap(o.Object, "template") // a deep copy
			violating, at = &unstructured.Unstructured{Object: template}, []string{"spec"}
			violating.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(podKind))
			violating.SetNamespace(namespace)
			violating.SetName(name)
		default:
			continue
		}
		spec, _, err := unstructured.NestedMap(violating.Object, at...)
		if err != nil {
			return nil, fmt.Errorf("reading the template %s: %w", o.GetName(), err)
		}
		delete(spec, "runtimeClassName")
		spec["automountServiceAccountToken"] = true
		containers, _, _ := unstructured.NestedSlice(spec, "containers")
		for _, c := range containers {
			if c, ok := c.(map[string]any); ok {
				c["image"] = "nowhere.test/bait"
			}
		}
		spec["containers"] = containers
		return violating, unstructured.SetNestedMap(violating.Object, spec, at...)
	}
	return nil, nil //nolint:nilnil // see above
}

// warm tells whether a mutant's pool has to keep sandboxes: where a scenario is
// about the pool, where a server takes sandboxes out of it for its sessions, and
// where an effect is read from a Pod, which has to be there before any attack. Else
// a pool would fill up again beside the attacks, for nobody.
func warm(m overlays.Mutant, scenarios []*suite.Scenario) bool {
	return m.Scope == overlays.ScopePool ||
		slices.ContainsFunc(scenarios, func(s *suite.Scenario) bool {
			return s.Warm || len(s.As) > 0
		}) ||
		slices.ContainsFunc(m.Effect, func(e overlays.Effect) bool { return e.Kind == podKind })
}

// podKind is the kind of what a pool keeps.
const podKind = "Pod"

// emptyPools lets pools keep nothing; who claims a sandbox gets a new one.
func emptyPools(objects []unstructured.Unstructured) error {
	for _, o := range objects {
		if o.GetKind() != "SandboxWarmPool" {
			continue
		}
		if err := unstructured.SetNestedField(o.Object, int64(0), "spec", "replicas"); err != nil {
			return fmt.Errorf("emptying the pool %s: %w", o.GetName(), err)
		}
	}
	return nil
}

// settings copies the ConfigMaps and Secrets of the deployment that a mutant is a
// twin of: whoever deployed it made them, and no overlay has them. What
// Kubernetes itself puts into every namespace is left out.
func (s *ClusterStage) settings(ctx context.Context, m overlays.Mutant) ([]unstructured.Unstructured, error) {
	from := m.SettingsFrom()
	if from == "" {
		return nil, nil
	}
	var out []unstructured.Unstructured
	for _, resource := range []string{"configmaps", "secrets"} {
		list, err := s.Kube.Dynamic.Resource(corev1.SchemeGroupVersion.WithResource(resource)).Namespace(from).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading the settings of namespace %s: %w", from, err)
		}
		for _, o := range list.Items {
			if o.GetName() == rootCA || o.Object["type"] == string(corev1.SecretTypeServiceAccountToken) {
				continue
			}
			twin := unstructured.Unstructured{Object: map[string]any{}}
			for _, field := range []string{"apiVersion", "kind", "type", "data", "binaryData"} {
				if v, ok := o.Object[field]; ok {
					twin.Object[field] = v
				}
			}
			twin.SetName(o.GetName())
			twin.SetNamespace(m.Namespace())
			out = append(out, twin)
		}
	}
	return out, nil
}

// rootCA is the ConfigMap that Kubernetes makes in every namespace.
const rootCA = "kube-root-ca.crt"

// vacant waits until what an earlier try left of the namespace is gone: the API
// server takes an Apply onto a namespace that is being deleted, and then lets
// nothing into it.
func (s *ClusterStage) vacant(ctx context.Context, namespace string) error {
	err := wait.PollUntilContextTimeout(ctx, poll, s.Ready, true, func(ctx context.Context) (bool, error) {
		ns, err := s.Kube.Clientset.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return err == nil && ns.DeletionTimestamp == nil, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the end of the last namespace %s: %w", namespace, err)
	}
	return nil
}

// Attack runs the scenarios against the mutant's namespace.
func (s *ClusterStage) Attack(ctx context.Context, m Mutant, scenarios []*suite.Scenario) (*runner.Run, error) {
	o, err := s.find(m.ID)
	if err != nil {
		return nil, err
	}
	return s.Run(ctx, o, scenarios)
}

// Effect waits until every fact that shows the weakening is there, or tells
// what is there instead.
func (s *ClusterStage) Effect(ctx context.Context, m Mutant) (bool, string, error) {
	o, err := s.find(m.ID)
	if err != nil {
		return false, "", err
	}
	saw, ok := "", false
	err = wait.PollUntilContextTimeout(ctx, poll, s.EffectTimeout, true, func(ctx context.Context) (bool, error) {
		var err error
		ok, saw, err = s.facts(ctx, o)
		return ok, err
	})
	if err != nil && ctx.Err() == nil && wait.Interrupted(err) {
		err = nil
	}
	return ok, saw, err
}

func (s *ClusterStage) facts(ctx context.Context, m overlays.Mutant) (bool, string, error) {
	var all []string
	for _, e := range m.Effect {
		objects, err := s.fetch(ctx, m, e)
		if err != nil {
			return false, "", err
		}
		if len(objects) == 0 {
			return false, fmt.Sprintf("there is no %s %s", e.Kind, e.Name), nil
		}
		for _, o := range objects {
			ok, saw, err := e.Check(o.Object)
			if err != nil || !ok {
				return false, saw, err
			}
			all = append(all, saw)
		}
	}
	return true, strings.Join(all, "; "), nil
}

// fetch returns the objects that an effect speaks of; none is no error.
func (s *ClusterStage) fetch(ctx context.Context, m overlays.Mutant, e overlays.Effect) ([]unstructured.Unstructured, error) {
	gv, err := schema.ParseGroupVersion(e.APIVersion)
	if err != nil {
		return nil, fmt.Errorf("reading the effect of %s: %w", m.ID, err)
	}
	mapping, err := s.Kube.Mapper.RESTMapping(gv.WithKind(e.Kind).GroupKind(), gv.Version)
	if err != nil {
		return nil, fmt.Errorf("finding the resource of %s %s: %w", e.APIVersion, e.Kind, err)
	}
	r := s.Kube.Dynamic.Resource(mapping.Resource)
	namespace := m.Where(e)
	if mapping.Scope.Name() != "namespace" {
		namespace = ""
	}
	if e.Name != "" {
		o, err := r.Namespace(namespace).Get(ctx, e.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", e.Kind, e.Name, err)
		}
		return []unstructured.Unstructured{*o}, nil
	}
	opts := metav1.ListOptions{LabelSelector: e.Selector}
	if m.Node != nil && namespace == "" {
		opts.LabelSelector = labels.SelectorFromSet(m.Node.Selector).String()
	}
	list, err := r.Namespace(namespace).List(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", e.Kind, err)
	}
	return list.Items, nil
}

// untaint removes a taint from nodes and returns what they had.
func (s *ClusterStage) untaint(ctx context.Context, c overlays.NodeChange) (map[string][]corev1.Taint, error) {
	nodes, err := s.Kube.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(c.Selector).String()})
	if err != nil {
		return nil, fmt.Errorf("listing the nodes of %v: %w", c.Selector, err)
	}
	had := map[string][]corev1.Taint{}
	for _, n := range nodes.Items {
		had[n.Name] = n.Spec.Taints
		left := slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t.Key == c.RemoveTaint })
		if err := s.setTaints(ctx, n.Name, left); err != nil {
			return had, err
		}
	}
	return had, nil
}

func (s *ClusterStage) retaint(ctx context.Context, had map[string][]corev1.Taint) error {
	var errs []error
	for name, taints := range had {
		errs = append(errs, s.setTaints(ctx, name, taints))
	}
	return errors.Join(errs...)
}

func (s *ClusterStage) setTaints(ctx context.Context, node string, taints []corev1.Taint) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		n, err := s.Kube.Clientset.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Spec.Taints = taints
		_, err = s.Kube.Clientset.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("setting the taints of node %s: %w", node, err)
	}
	return nil
}

// Remove deletes objects that were applied, the namespaces among them first:
// what lives in them goes with them.
func Remove(ctx context.Context, k *kube.Client, objects []unstructured.Unstructured) error {
	var outside []unstructured.Unstructured
	for _, o := range objects {
		if o.GetKind() == "Namespace" || o.GetNamespace() == "" {
			outside = append(outside, o)
		}
	}
	return k.Delete(ctx, kube.Refs(outside))
}
