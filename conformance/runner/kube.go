// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/infra/kube/agentsandbox"
)

// The kinds that a run touches.
var (
	claimKind    = agentsandbox.Claim
	poolKind     = agentsandbox.WarmPool
	templateKind = agentsandbox.Template
	sandboxKind  = agentsandbox.Sandbox
	podKind      = corev1.SchemeGroupVersion.WithKind("Pod")
	spaceKind    = corev1.SchemeGroupVersion.WithKind("Namespace")
)

const (
	// podNameAnnotation of a Sandbox names the Pod that it took over from a
	// warm pool; without it the Pod has the Sandbox's name.
	podNameAnnotation = "agents.x-k8s.io/pod-name"
	// RoleLabel tells the suite's own Pods apart.
	RoleLabel = "stockade.dev/role"
	// clients is the namespace of the Pod that may call the server. It carries
	// RoleLabel client.
	clients = "stockade-clients"
	// hubbleFile is the export's place in the Cilium agent.
	hubbleFile = "/var/run/cilium/hubble/events.log"
	// listenPort is the listeners' port, one that nothing else uses.
	listenPort = 47321
	poll       = 100 * time.Millisecond
)

// KubeOptions describe a target on a cluster.
type KubeOptions struct {
	Client *kube.Client
	// Carrier execs into Pods, for Hubble's export.
	Carrier target.Carrier
	// Namespace is where the target's sandboxes live.
	Namespace string
	// Pool is the warm pool that they are claimed from.
	Pool string
	// PodTemplate is what they are made of instead, by the execution service
	// whose service account is Service ("namespace/name"). That namespace is
	// also where the service itself runs, behind a Service of that name.
	PodTemplate, Service string
	// Gateway is the Service, in Namespace, of a server that keeps sessions;
	// empty where the target has none. Callers are the tokens of those who may
	// authenticate there, by name; empty where nobody has to.
	Gateway string
	Callers map[string]string
	// SignIn is how ID tokens are made that it takes; nil where there are none.
	SignIn *suite.SignIn
	// System is the namespace of the control Pods and of the impostor; default
	// stockade-system. Router is that of the router's stand-in, which the
	// sandboxes' policies take for the router; default agent-sandbox-system. The
	// Pods are found by [RoleLabel]: control, impostor and router.
	System, Router string
	// Most is what a sandbox of the target may declare; zero is any.
	Most probe.Limits
	// Bare says that nothing of the suite's own stands on the cluster, no control Pod
	// and no range, so that questions alone can be asked of it.
	Bare bool
}

// Kube is the Ground of a real cluster.
type Kube struct {
	o KubeOptions

	mu  sync.Mutex
	run string
	led *Ledger
	t   Timeouts
	// names of the sandboxes by role, so that one that is lost can be made anew.
	names  map[suite.Role]string
	made   int
	source sandboxSource
	// server is nil where the target has none.
	server *server
}

// sandboxSource makes a target's sandboxes in the target's own way: out of a warm pool
// ([warmPool]), or by an execution service ([executionPods]).
type sandboxSource interface {
	// open reads what the target says of its sandboxes.
	open(ctx context.Context) error
	// ref is the object whose deletion removes a sandbox.
	ref(name string) Ref
	// create asks for a sandbox, and find returns its Pod once it is ready.
	create(ctx context.Context, name string) error
	find(ctx context.Context, name string) (target.Pod, error)
	// command is what has to be executed in a sandbox for a program.
	command(argv []string) []string
	// furnish adds to the field what scenarios of the API may use, and locate where
	// the service is called that makes the sandboxes.
	furnish(f *Field)
	locate(ctx context.Context, f *Field) error
}

// NewKube returns the ground of a target.
func NewKube(o KubeOptions) (*Kube, error) {
	switch {
	case o.Client == nil || o.Carrier == nil || o.Namespace == "":
		return nil, errors.New("describing the target: a client, a carrier and a namespace are needed")
	case (o.Pool == "") == (o.PodTemplate == ""):
		return nil, errors.New("describing the target: it needs a warm pool or a Pod template, one of them")
	case (o.PodTemplate == "") != (o.Service == ""):
		return nil, errors.New("describing the target: a Pod template needs the service that makes Pods of it")
	case len(o.Callers) > 0 && o.Gateway == "":
		return nil, errors.New("describing the target: there are callers, and no server that they could call")
	}
	if o.System == "" {
		o.System = "stockade-system"
	}
	if o.Router == "" {
		o.Router = "agent-sandbox-system"
	}
	k := &Kube{o: o, names: map[suite.Role]string{}, t: Timeouts{}.filled()}
	if o.Gateway != "" {
		k.server = newServer(k)
	}
	if o.Pool != "" {
		k.source = &warmPool{k: k}
		return k, nil
	}
	r, err := newExecutionPods(k)
	k.source = r
	return k, err
}

// Carrier is the way into the target's Pods. Where programs are started through
// a helper there, attacks are too: that is how a stranger's program begins.
func (k *Kube) Carrier() target.Carrier { return carrier{k} }

type carrier struct{ k *Kube }

func (c carrier) Exec(ctx context.Context, pod target.Pod, argv []string, s target.Streams) (int, error) {
	if pod.Namespace == c.k.o.Namespace {
		argv = c.k.source.command(argv)
	}
	return c.k.o.Carrier.Exec(ctx, pod, argv, s)
}

// Cluster implements [Remover].
func (k *Kube) Cluster(ctx context.Context) (string, error) {
	ns, err := k.o.Client.Clientset.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return string(ns.UID), nil
}

func object(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// Open implements [Ground].
func (k *Kube) Open(ctx context.Context, run string, led *Ledger, t Timeouts, sandboxes []suite.Role) (*Field, error) {
	k.run, k.led, k.t = run, led, t
	if err := k.source.open(ctx); err != nil {
		return nil, err
	}
	f := &Field{Pods: map[suite.Role]target.Pod{},
		Preloaded: map[suite.Role]bool{suite.Control: true, suite.Router: true, suite.Impostor: true, suite.ClientPod: true}}
	f.API, f.Namespace, f.Controls = &tenant{k: k}, k.o.Namespace, k.o.System
	k.source.furnish(f)
	if k.server != nil {
		if err := k.server.furnish(ctx, f); err != nil {
			return nil, err
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	pods := make([]target.Pod, len(sandboxes))
	for i, role := range sandboxes {
		g.Go(func() (err error) { pods[i], err = k.claim(gctx, role); return err })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, role := range sandboxes {
		f.Pods[role] = pods[i]
	}
	return k.survey(ctx, f)
}

func (k *Kube) get(ctx context.Context, kind schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
	return k.o.Client.Get(ctx, object(kind, k.o.Namespace, name))
}

// claim makes a sandbox, written down first, and returns its Pod.
func (k *Kube) claim(ctx context.Context, role suite.Role) (target.Pod, error) {
	k.mu.Lock()
	k.made++
	name := fmt.Sprintf("stockade-%s-%s%d", k.run, string(role)[:2], k.made)
	k.names[role] = name
	k.mu.Unlock()
	if err := k.led.Creating(k.source.ref(name)); err != nil {
		return target.Pod{}, err
	}
	if err := k.source.create(ctx, name); err != nil {
		return target.Pod{}, fmt.Errorf("claiming a sandbox: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, k.t.Claim)
	defer cancel()
	var pod target.Pod
	last := errors.New("not looked yet")
	err := until(ctx, poll, func() bool {
		pod, last = k.source.find(ctx, name)
		return last == nil
	})
	if err != nil {
		return target.Pod{}, fmt.Errorf("waiting for the sandbox %s (%w): %w", name, last, err)
	}
	return pod, nil
}

func refOf(u *unstructured.Unstructured) Ref {
	return Ref{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
}

func podRef(p *corev1.Pod) target.Pod {
	ref := target.Pod{Namespace: p.Namespace, Name: p.Name, Container: p.Spec.Containers[0].Name,
		UID: string(p.UID), Node: p.Spec.NodeName, IP: p.Status.PodIP}
	for _, ip := range p.Status.PodIPs {
		ref.IPs = append(ref.IPs, ip.IP)
	}
	return ref
}

// Renew implements [Ground].
func (k *Kube) Renew(ctx context.Context, f *Field) (*Field, error) {
	out := *f
	out.Pods = maps.Clone(f.Pods)
	changed := false
	for _, role := range []suite.Role{suite.Sandbox, suite.Sibling} {
		k.mu.Lock()
		name, claimed := k.names[role]
		k.mu.Unlock()
		if !claimed {
			continue
		}
		rctx, cancel := context.WithTimeout(ctx, k.t.Restart)
		var pod target.Pod
		err := until(rctx, poll, func() bool {
			var err error
			pod, err = k.source.find(rctx, name)
			return err == nil
		})
		cancel()
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if pod, err = k.claim(ctx, role); err != nil {
				return nil, err
			}
			ref := k.source.ref(name)
			if err := k.Remove(ctx, k.run, ref); err == nil {
				_ = k.led.Gone(ref) // the cleanup at the end tries again
			}
		}
		changed = changed || pod.UID != out.Pods[role].UID
		out.Pods[role] = pod
	}
	if !changed {
		return &out, nil
	}
	return k.survey(ctx, &out)
}

// Detect implements [Ground].
func (k *Kube) Detect(ctx context.Context, f *Field, feature suite.Feature) (bool, error) {
	switch feature {
	case suite.GVisor:
		facts, err := k.factsNow(ctx, f.Pods[suite.Sandbox])
		return suite.IsGVisor(facts.Handler), err
	case suite.PodNetwork:
		facts, err := k.factsNow(ctx, f.Pods[suite.Sandbox])
		return facts.Handler != suite.NoNetworkHandler, err
	case suite.IPv6:
		p := f.Pods[suite.Sandbox]
		pod, err := k.o.Client.Clientset.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
		if err != nil {
			return false, fmt.Errorf("reading Pod %s: %w", p, err)
		}
		for _, ip := range pod.Status.PodIPs {
			if a := net.ParseIP(ip.IP); a != nil && a.To4() == nil {
				return true, nil
			}
		}
		return false, nil
	case suite.Admission:
		all, err := k.o.Client.Clientset.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return false, fmt.Errorf("listing admission policies: %w", err)
		}
		return len(all.Items) > 0, nil
	case suite.PodSecurity:
		ns, err := k.o.Client.Clientset.CoreV1().Namespaces().Get(ctx, k.o.Namespace, metav1.GetOptions{})
		if err != nil {
			return false, fmt.Errorf("reading the namespace %s: %w", k.o.Namespace, err)
		}
		return ns.Labels["pod-security.kubernetes.io/enforce"] != "", nil
	case suite.RunIdentity:
		facts, err := k.factsNow(ctx, f.Pods[suite.Sandbox])
		// This is how Google's libraries are told of another metadata server.
		return slices.Contains(facts.Env, "GCE_METADATA_HOST"), err
	case suite.WarmPool:
		if k.o.Pool == "" {
			return false, nil
		}
		_, err := k.get(ctx, poolKind, k.o.Pool)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	}
	return false, fmt.Errorf("nobody knows how to detect %q", feature)
}
