// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stockade-dev/stockade/conformance/descriptor"
	"github.com/stockade-dev/stockade/conformance/guest"
	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/prove"
	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/infra/kind"
	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/infra/progress"
	"github.com/stockade-dev/stockade/overlays"
	"github.com/stockade-dev/stockade/scenarios/all"
	"github.com/stockade-dev/stockade/workloads/range/rangeclient"
)

// enforcement is the scenario that shows that network policies are enforced at all.
const enforcement = "sandbox.policy-enforced"

// enforcementOf returns the scenario that must be Held before any network verdict
// of the target may be; nil where it cannot be asked. That is so for a target that
// is not the profile's own (the seed's template), and for a profile that
// does not have the scenario: the default policy lets everything public out, and a
// run of the playground has no network that a policy could close. There each
// verdict that rests on a policy still needs a drop by that policy in the flow log.
func enforcementOf(p suite.Profile, target string) *suite.Scenario {
	s, ok := all.Registry.Get(enforcement)
	if !ok || target != p.Target || !p.Has(s) {
		return nil
	}
	return s
}

// openTarget is a target descriptor that was opened.
type openTarget struct {
	*descriptor.Descriptor
	m     machine
	kube  *kube.Client
	rng   *rangeclient.Client
	probe []byte
	rep   *progress.Reporter
}

// open opens the place of d, or that of this home where d is nil.
func (m machine) open(ctx context.Context, d *descriptor.Descriptor, rep *progress.Reporter) (*openTarget, error) {
	if d == nil {
		var err error
		d, err = descriptor.Read(m.descriptorFile())
		if errors.Is(err, fs.ErrNotExist) {
			// An `up` that was killed before its last layer has written none.
			return nil, incomplete("%w", err)
		}
		if err != nil {
			return nil, err
		}
	}
	c, err := kube.New(d.Kubeconfig)
	if err != nil {
		return nil, err
	}
	answer, cancel := context.WithTimeout(ctx, waitAnswer)
	defer cancel()
	if err := kind.Confirm(answer, c, m.home); err != nil {
		if errors.Is(err, kind.ErrOtherCluster) {
			return nil, err
		}
		return nil, fmt.Errorf("%w; `stockade status` tells what is wrong, and `stockade up` mends it", err)
	}
	probe, err := os.ReadFile(d.Probe)
	if err != nil {
		return nil, fmt.Errorf("reading the probe (`stockade up` puts it there): %w", err)
	}
	return &openTarget{Descriptor: d, m: m, kube: c, rng: rangeclient.New(d.RangeSocket), probe: probe, rep: rep}, nil
}

func (f *openTarget) ground(t descriptor.Target, most probe.Limits) (*runner.Kube, error) {
	callers, err := callersOf(t)
	if err != nil {
		return nil, err
	}
	var signIn *suite.SignIn
	if t.SignIn != "" {
		if signIn, err = descriptor.ReadSignIn(t.SignIn); err != nil {
			return nil, fmt.Errorf("%w; `stockade up` makes another signer", err)
		}
	}
	return runner.NewKube(runner.KubeOptions{
		Client: f.kube, Carrier: target.NewKube(f.kube.Config, f.kube.Clientset), System: f.Controls,
		Namespace: t.Namespace, Pool: t.Pool, PodTemplate: t.PodTemplate, Service: t.Service,
		Router: routerOf(t), Gateway: t.Gateway, Callers: callers, SignIn: signIn, Most: most,
	})
}

// callersOf are the tokens of those who may call a target's server.
func callersOf(t descriptor.Target) (map[string]string, error) {
	if t.Callers == "" {
		return nil, nil
	}
	return descriptor.ReadCallers(t.Callers)
}

// declared are the features that a target claims to have: those of the cluster,
// what our own namespaces have, and that of a server for several users, whose
// programs have an identity.
func (f *openTarget) declared(name string, t descriptor.Target) []suite.Feature {
	out := slices.Clone(f.Features)
	if hardened(name) {
		out = append(out, suite.PodSecurity)
	}
	if t.Callers != "" {
		out = append(out, suite.RunIdentity)
	}
	return out
}

// hardened tells whether a target is one of ours, of which more is asked than its
// text says; the seed's is as the text prints it.
func hardened(name string) bool { return name != seedTarget }

// mostOf is the most that a sandbox of a target may declare.
func mostOf(p suite.Profile, name string) probe.Limits {
	if !hardened(name) {
		return probe.Limits{}
	}
	return p.Most
}

// routerOf is the namespace of the router's stand-in: the target's own where the
// target has a server, beside which the stand-in is; else empty, for the runner's
// default.
func routerOf(t descriptor.Target) string {
	if t.Gateway != "" {
		return t.Namespace
	}
	return ""
}

// attack runs scenarios of a profile against a target.
func (f *openTarget) attack(ctx context.Context, name string, t descriptor.Target, enforcement *suite.Scenario, o RunOptions) (*runner.Run, error) {
	ground, err := f.ground(t, mostOf(o.Profile, name))
	if err != nil {
		return nil, err
	}
	return f.execute(ctx, runner.Options{
		Ground: ground, Carrier: ground.Carrier(), Profile: o.Profile.ID, TargetName: name, Enforcement: enforcement,
		Scenarios: o.Scenarios, Progress: o.Progress, Declared: f.declared(name, t),
	})
}

// attackGuest deploys a user's own template for the time of the run.
func (f *openTarget) attackGuest(ctx context.Context, o RunOptions) (*runner.Run, error) {
	t := o.Template
	done := o.Progress.Step("checking template " + t.Name)
	err := t.Check(ctx, f.kube, f.Controls)
	done("", err)
	if err != nil {
		return nil, err
	}
	namespace := guest.Namespace()
	ground, err := f.ground(pooled(namespace), probe.Limits{}) // a user's template has limits of its own
	if err != nil {
		return nil, err
	}
	return f.execute(ctx, runner.Options{
		Ground:  &guest.Ground{Ground: ground, Kube: f.kube, Template: t, Namespace: namespace},
		Carrier: ground.Carrier(), Profile: o.Profile.ID, TargetName: t.Target(),
		Scenarios: o.Scenarios, Progress: o.Progress, Declared: f.Features,
		// A whole namespace has to go at the end.
		Timeouts: runner.Timeouts{Clean: waitGuestGone},
	})
}

// harmless refuses attacks that load the cluster or kill in it, unless the
// descriptor says that nobody misses it.
func (f *openTarget) harmless(scenarios []*suite.Scenario) error {
	if f.Disruptive {
		return nil
	}
	var loud []string
	for _, s := range scenarios {
		if s.Exclusive || s.MayKill {
			loud = append(loud, s.ID)
		}
	}
	if loud != nil {
		return usage("the target's descriptor does not allow attacks that load or kill (disruptive): name scenarios without %s", strings.Join(loud, ", "))
	}
	return nil
}

// execute adds to the options what is the same for every target.
func (f *openTarget) execute(ctx context.Context, o runner.Options) (*runner.Run, error) {
	if err := f.harmless(o.Scenarios); err != nil {
		return nil, err
	}
	engine, err := f.m.engine(nil)
	if err != nil {
		return nil, err
	}
	o.Probe, o.Range, o.Seal, o.LedgerDir = f.probe, f.rng, engine.Prove, f.m.ledgerDir()
	o.Cluster, o.Substrate, o.Differs = f.ClusterUID, f.Substrate, f.DiffersFromGKE
	return runner.Execute(ctx, o)
}

func (m machine) ledgerDir() string { return m.file("ledger") }

// Run implements [Runner].
func (m machine) Run(ctx context.Context, o RunOptions) (*runner.Run, error) {
	if o.Cloud != nil {
		return m.ask(ctx, o)
	}
	f, err := m.open(ctx, o.Descriptor, o.Progress)
	if err != nil {
		return nil, err
	}
	defer f.rng.Close()
	if err := f.restore(ctx); err != nil {
		return nil, err
	}
	if o.Template != nil {
		return f.attackGuest(ctx, o)
	}
	t, err := named(f.Descriptor, o)
	if err != nil {
		return nil, err
	}
	// The descriptor has all that can be deployed.
	there, err := hasNamespace(ctx, f.kube, t.Namespace)
	if err != nil {
		return nil, fmt.Errorf("looking for the target %s: %w", o.Target, err)
	}
	if !there {
		return nil, incomplete("%s is not deployed here: `stockade up --profile %s` deploys it, or in a Pulumi stack the key stockade:profiles", o.Target, o.Profile.ID)
	}
	return f.attack(ctx, o.Target, t, enforcementOf(o.Profile, o.Target), o)
}

// named is the target that is to be attacked.
func named(d *descriptor.Descriptor, o RunOptions) (descriptor.Target, error) {
	t, ok := d.Targets[o.Target]
	if !ok {
		return t, incomplete("the target's descriptor has no %s: `stockade up --profile %s` writes a new one, and for a Pulumi stack `pulumi up` does", o.Target, o.Profile.ID)
	}
	return t, nil
}

// ask asks questions of an environment on Google Cloud. Nothing of the suite's own
// stands there, and nothing of this machine is used but its folders.
func (m machine) ask(ctx context.Context, o RunOptions) (*runner.Run, error) {
	t, ok := o.Cloud.Targets[o.Target]
	if !ok {
		return nil, incomplete("the stack has no target %s: it has %s", o.Target, strings.Join(slices.Sorted(maps.Keys(o.Cloud.Targets)), ", "))
	}
	config, err := o.Cloud.Client(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	c, err := kube.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	ground, err := runner.NewKube(runner.KubeOptions{
		Client: c, Carrier: target.NewKube(c.Config, c.Clientset), Bare: true,
		Namespace: t.Namespace, Pool: t.Pool, PodTemplate: t.PodTemplate, Service: t.Service, Most: mostOf(o.Profile, o.Target),
	})
	if err != nil {
		return nil, err
	}
	// Which cluster it is was settled by its endpoint.
	cluster, err := ground.Cluster(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking the cluster %s (the kubeconfig of a stack needs gke-gcloud-auth-plugin, and somebody who may use the cluster): %w", o.Cloud.Cluster.Name, err)
	}
	at := o.Cloud.Cluster
	return runner.Execute(ctx, runner.Options{
		Ground: ground, Carrier: ground.Carrier(), Profile: o.Profile.ID, TargetName: at.Name + "/" + o.Target,
		Scenarios: o.Scenarios, Progress: o.Progress, Cluster: cluster, LedgerDir: m.file("ledger-cloud"), // the other one ends with this machine's cluster
		Declared:  append(slices.Clone(o.Cloud.Features), suite.PodSecurity),
		Substrate: map[string]string{"cluster": strings.Join([]string{at.Project, at.Location, at.Name}, "/")},
	})
}

// Prove implements [Runner].
func (m machine) Prove(ctx context.Context, o ProveOptions) ([]runner.Kill, *runner.Run, error) {
	mutants, err := overlays.LoadMutants()
	if err != nil {
		return nil, nil, err
	}
	f, err := m.open(ctx, nil, o.Progress)
	if err != nil {
		return nil, nil, err
	}
	defer f.rng.Close()
	if !f.Disruptive {
		return nil, nil, usage("proving weakens what protects the cluster, and the target's descriptor does not allow that (disruptive)")
	}
	picked, scenarios, err := f.choose(o, mutants)
	if err != nil {
		return nil, nil, err
	}
	var scaffolds []overlays.Mutant
	if o.Scaffolds {
		var on map[string]string
		if scaffolds, on, err = overlays.Scaffolds(mutants); err != nil {
			return nil, nil, err
		}
		for i := range picked {
			picked[i].Scaffold = on[picked[i].ID]
		}
	}
	stage, err := f.stage(ctx, o.Profile, slices.Concat(mutants, scaffolds))
	if err != nil {
		return nil, nil, err
	}
	done := o.Progress.Step("attacking " + o.Profile.Target + ", on which nothing may be breached")
	run, err := m.Run(ctx, RunOptions{Profile: o.Profile, Target: o.Profile.Target, Scenarios: scenarios, Progress: o.Progress})
	done("", err)
	if err != nil {
		return nil, run, err
	}
	kills, residue, err := prove.Prove(ctx, prove.Options{
		Stage: stage, Mutants: picked, Scaffolds: scaffoldsToProve(picked, scaffolds),
		Scenarios: all.Registry, Canary: o.Profile.Canary, Progress: o.Progress,
	})
	prove.VoidBreached(kills, run)
	run.Residue = append(run.Residue, residue...)
	if errors.Is(err, prove.ErrSurvivors) {
		err = nil // the matrix says it, and the exit code
	}
	return kills, run, err
}

// stage is where the mutants of a profile are put up and attacked.
func (f *openTarget) stage(ctx context.Context, p suite.Profile, mutants []overlays.Mutant) (*prove.ClusterStage, error) {
	module, err := agentSandbox(ctx)
	if err != nil {
		return nil, err
	}
	id, err := kind.ReadIdentity(f.m.home)
	if err != nil {
		return nil, err
	}
	return &prove.ClusterStage{
		Kube: f.kube, Module: module, Mutants: mutants, Ready: waitSandboxes, EffectTimeout: waitEffect, Digests: id.Digests,
		Run: func(ctx context.Context, m overlays.Mutant, scenarios []*suite.Scenario) (*runner.Run, error) {
			t := f.Targets[p.Target] // it was attacked before any mutant
			t.Namespace = m.Namespace()
			if m.OwnService {
				t.Service = m.Account()
			}
			// A mutant's policy is weak on purpose: nothing shows that it is enforced.
			return f.attack(ctx, m.Namespace(), t, nil, RunOptions{Profile: p, Scenarios: scenarios})
		},
	}, nil
}

// scaffoldsToProve are the scaffolds that mutants stand on, with no more scenarios than
// these mutants are to be caught by.
func scaffoldsToProve(mutants []prove.Mutant, scaffolds []overlays.Mutant) (out []prove.Mutant) {
	for _, s := range scaffolds {
		var kills []string
		for _, m := range mutants {
			if m.Scaffold == s.ID {
				kills = append(kills, m.Kills...)
			}
		}
		if len(kills) > 0 {
			out = append(out, prove.Mutant{ID: s.ID, Title: s.Title, Kills: slices.Compact(slices.Sorted(slices.Values(kills)))})
		}
	}
	return out
}

// choose returns the mutants to prove, and the scenarios that must hold without
// them: those of the profile, or where mutants were named and not all of it is asked
// for, what these are about.
func (f *openTarget) choose(o ProveOptions, mutants []overlays.Mutant) ([]prove.Mutant, []*suite.Scenario, error) {
	own := slices.DeleteFunc(slices.Clone(mutants), func(m overlays.Mutant) bool { return m.Base != o.Profile.ID })
	picked, unfelt := prove.List(own, f.Features)
	for _, id := range slices.Sorted(maps.Keys(unfelt)) {
		if len(o.Mutants) == 0 || slices.Contains(o.Mutants, id) {
			o.Progress.Note("mutant %s is left out: the target has no %s, without which it cannot be felt", id, unfelt[id])
		}
	}
	scenarios := o.Profile.Of(all.Registry.All())
	if len(o.Mutants) > 0 {
		picked = slices.DeleteFunc(picked, func(m prove.Mutant) bool { return !slices.Contains(o.Mutants, m.ID) })
		if len(picked) == 0 {
			return nil, nil, fmt.Errorf("choosing mutants: none of %s can be felt here, because the target lacks what they need", strings.Join(o.Mutants, ", "))
		}
	}
	if len(o.Mutants) > 0 && !o.Whole {
		scenarios = slices.DeleteFunc(scenarios, func(s *suite.Scenario) bool {
			return s.ID != o.Profile.Canary && !slices.ContainsFunc(picked, func(m prove.Mutant) bool {
				return slices.Contains(m.Kills, s.ID) || slices.Contains(m.Holds, s.ID)
			})
		})
	}
	// The canary may be of another profile than this, and must hold all the same.
	if honest, ok := all.Registry.Get(o.Profile.Canary); ok && !slices.Contains(scenarios, honest) {
		scenarios = append(scenarios, honest)
	}
	return picked, scenarios, nil
}

// Cleanup implements [Runner].
func (m machine) Cleanup(ctx context.Context, rep *progress.Reporter) (removed, left []string, err error) {
	f, err := m.open(ctx, nil, rep)
	if err != nil {
		return nil, nil, err
	}
	defer f.rng.Close()
	var grounds []*runner.Kube
	for _, name := range slices.Sorted(maps.Keys(f.Targets)) {
		t := f.Targets[name]
		// What a dead run's sessions had is the server's to end, so that nobody has
		// to call it here.
		t.Gateway, t.Callers, t.SignIn = "", "", ""
		g, err := f.ground(t, probe.Limits{})
		if err != nil {
			return nil, nil, err
		}
		grounds = append(grounds, g)
	}
	// A ledger may speak of any target. What was there before and is not there
	// after is what was removed.
	before, err := labelled(ctx, grounds)
	if err != nil {
		return nil, nil, err
	}
	for _, g := range grounds {
		l, err := runner.Cleanup(ctx, f.m.ledgerDir(), g, f.rep)
		if err != nil {
			return nil, left, err
		}
		left = append(left, l...)
	}
	after, err := labelled(ctx, grounds)
	if err != nil {
		return nil, left, err
	}
	for _, o := range before {
		if !slices.ContainsFunc(after, func(x runner.Owned) bool { return x.Ref == o.Ref }) {
			removed = append(removed, o.String())
		}
	}
	r, l, err := f.removeMutants(ctx)
	removed, left = append(removed, r...), append(left, l...)
	slices.Sort(left)
	return removed, slices.Compact(left), err
}

// labelled lists the objects of runs, dead or alive, in the targets' namespaces.
func labelled(ctx context.Context, grounds []*runner.Kube) (all []runner.Owned, err error) {
	for _, g := range grounds {
		owned, err := g.Labelled(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, owned...)
	}
	return all, nil
}

// restore undoes what a killed `prove` has left. On a cluster on which something is
// still weakened for a mutant, a run would find breaches that are nobody's.
func (f *openTarget) restore(ctx context.Context) error {
	mutants, err := deployable()
	if err != nil {
		return err
	}
	namespaces, err := f.kube.Clientset.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("looking for mutants: %w", err)
	}
	if !standing(mutants, namespaces.Items) {
		return nil
	}
	f.rep.Note("a `stockade prove` was killed: what it weakened is restored first")
	_, left, err := f.removeMutants(ctx)
	if err == nil && left != nil {
		err = errors.New(strings.Join(left, "\n"))
	}
	if err != nil {
		return incomplete("restoring what a killed `stockade prove` has weakened (`stockade cleanup` tries again, `stockade down` removes the cluster): %w", err)
	}
	return nil
}

// deployable are the mutants, and what they stand on.
func deployable() ([]overlays.Mutant, error) {
	mutants, err := overlays.LoadMutants()
	if err != nil {
		return nil, err
	}
	scaffolds, _, err := overlays.Scaffolds(mutants)
	return append(mutants, scaffolds...), err
}

// standing tells whether there is a namespace of a mutant that is not on its way out.
func standing(mutants []overlays.Mutant, namespaces []corev1.Namespace) bool {
	return slices.ContainsFunc(namespaces, func(ns corev1.Namespace) bool {
		return ns.DeletionTimestamp == nil && slices.ContainsFunc(mutants, func(m overlays.Mutant) bool { return slices.Contains(m.Namespaces(), ns.Name) })
	})
}

// removeMutants takes down what a killed `prove` left up, and gives the
// reference its admission policy and its taint back.
func (f *openTarget) removeMutants(ctx context.Context) (removed, left []string, err error) {
	module, err := agentSandbox(ctx)
	if err != nil {
		return nil, nil, err
	}
	mutants, err := deployable()
	if err != nil {
		return nil, nil, err
	}
	namespaces, err := f.kube.Clientset.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("looking for mutants: %w", err)
	}
	for _, m := range mutants {
		if !slices.ContainsFunc(namespaces.Items, func(ns corev1.Namespace) bool { return slices.Contains(m.Namespaces(), ns.Name) }) {
			continue
		}
		done := f.rep.Step("removing mutant " + m.ID)
		objects, err := m.Render(module)
		if err == nil {
			err = prove.Remove(ctx, f.kube, objects)
		}
		done("", err)
		if err != nil {
			left = append(left, fmt.Sprintf("mutant %s: %v", m.ID, err))
			continue
		}
		removed = append(removed, "mutant "+m.ID)
	}
	_, after, err := overlays.ScaffoldBinding(module)
	if err != nil {
		return removed, left, err
	}
	if err := f.kube.Apply(ctx, kube.Refs([]unstructured.Unstructured{after})); err != nil {
		return removed, left, fmt.Errorf("restoring the admission policy: %w", err)
	}
	return removed, left, f.taint(ctx)
}

// taint gives every node for sandboxes GKE's taint, where it is missing.
func (f *openTarget) taint(ctx context.Context) error {
	nodes := f.kube.Clientset.CoreV1().Nodes()
	want := corev1.Taint{Key: kind.SandboxKey, Value: kind.SandboxValue, Effect: corev1.TaintEffectNoSchedule}
	list, err := nodes.List(ctx, metav1.ListOptions{LabelSelector: kind.SandboxKey + "=" + kind.SandboxValue})
	if err != nil {
		return fmt.Errorf("restoring the nodes' taint: %w", err)
	}
	for i := range list.Items {
		n := &list.Items[i]
		if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&want) }) {
			continue
		}
		n.Spec.Taints = append(n.Spec.Taints, want)
		if _, err := nodes.Update(ctx, n, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("restoring the taint of %s: %w", n.Name, err)
		}
	}
	return nil
}
