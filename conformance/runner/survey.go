// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/conformance/witness"
	"github.com/stockade-dev/stockade/workloads/range/world"
)

// survey fills in everything of a field that follows from its sandboxes, of which
// there may be none.
func (k *Kube) survey(ctx context.Context, f *Field) (*Field, error) {
	box, claimed := f.Pods[suite.Sandbox]
	f.Site, f.Aliases = probe.Site{}, map[string][]string{}
	if !k.o.Bare {
		if err := k.surveyCluster(ctx, f, box); err != nil {
			return nil, err
		}
	}
	if claimed {
		if err := k.surveySandbox(ctx, &f.Site, box); err != nil {
			return nil, err
		}
	}
	if err := k.source.locate(ctx, f); err != nil {
		return nil, err
	}
	if k.server != nil {
		if err := k.server.survey(ctx, f); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// surveyCluster finds the suite's own Pods, and all destinations of attacks.
func (k *Kube) surveyCluster(ctx context.Context, f *Field, box target.Pod) error {
	if err := k.findControlPods(ctx, f, box.Node); err != nil {
		return err
	}
	f.Site = probe.Site{
		PublicTCP: world.PublicTCP, PublicTLS: world.PublicTLS, PublicUDP: world.PublicUDP,
		PublicTCP6: world.PublicTCP6, PublicDNS: world.PublicDNS, PublicICMP: world.PublicICMP,
		Metadata: world.Metadata, MetadataAlso: world.MetadataAlso(), LinkLocalDNS: world.LinkLocalDNS(), Tunnel: world.TunnelZone, RFC1918: world.RFC1918(),
		Own: box.IP, OwnAll: addresses(box), ControlAll: addresses(f.Pods[suite.Control]), Sibling: f.Pods[suite.Sibling].IP, ControlPod: f.Pods[suite.Control].IP, ListenPort: listenPort,
	}
	f.Site.AllowedHost, f.Site.SharingHost, f.Site.FrontEnd = world.AllowedFrontEnd, world.SharingHost, https(world.AllowedFrontEnd)
	f.Site.RestrictedHost, f.Site.OwnBucket, f.Site.ForeignBucket = world.RestrictedHost, world.OwnBucket, world.ForeignBucket
	for _, name := range []string{world.AttackerHost, lookAlike} {
		f.Site.Unlisted = append(f.Site.Unlisted, probe.Host{Name: name, Address: https(name)})
	}
	var err error
	if f.Site.ClusterDNS, err = k.service(ctx, f, metav1.NamespaceSystem, "kube-dns", 53); err != nil {
		return err
	}
	if pods := f.Aliases[f.Site.ClusterDNS]; len(pods) > 0 {
		if f.Site.DNSPod, _, err = net.SplitHostPort(pods[0]); err != nil {
			return fmt.Errorf("reading the resolver's address: %w", err)
		}
	}
	if f.Site.APIServer, err = k.service(ctx, f, metav1.NamespaceDefault, "kubernetes", 443); err != nil {
		return err
	}
	if direct := f.Aliases[f.Site.APIServer]; len(direct) > 0 {
		f.Site.APIDirect = direct[0]
	}
	return nil
}

// surveySandbox adds what a sandbox's node and its declaration say.
func (k *Kube) surveySandbox(ctx context.Context, site *probe.Site, box target.Pod) error {
	node, err := k.o.Client.Clientset.CoreV1().Nodes().Get(ctx, box.Node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the sandbox's node: %w", err)
	}
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP && site.NodeIP == "" {
			site.NodeIP = a.Address
		}
	}
	site.Kubelet = net.JoinHostPort(site.NodeIP, strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)))
	pod, err := k.o.Client.Clientset.CoreV1().Pods(box.Namespace).Get(ctx, box.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the sandbox's Pod: %w", err)
	}
	limits(site, pod, k.o.Most)
	site.PidsLimit = k.pidsLimit(ctx, box.Node)
	return nil
}

// lookAlike begins like an allowed host, and is under .test, where a name is
// nobody's (RFC 6761).
const lookAlike = "storage.googleapis.com.stockade.test."

// https is where the range plays a host: the first of its addresses.
func https(host string) string {
	all, ok := world.Zone{}.Resolve(host)
	if !ok {
		return ""
	}
	return netip.AddrPortFrom(all[0], 443).String()
}

// findControlPods finds the Pods that are the suite's own, each on the sandbox's node if
// there is one: the control Pod, the router's stand-in, the impostor,
// and the server's client.
func (k *Kube) findControlPods(ctx context.Context, f *Field, node string) error {
	for role, namespace := range map[suite.Role]string{
		suite.Control: k.o.System, suite.Router: k.o.Router, suite.Impostor: k.o.System, suite.ClientPod: clients,
	} {
		pods, err := k.o.Client.Clientset.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: RoleLabel + "=" + string(role)})
		if err != nil {
			return fmt.Errorf("looking for the %s Pods: %w", role, err)
		}
		delete(f.Pods, role)
		for i := range pods.Items {
			p := &pods.Items[i]
			if !witness.Ready(p) || p.Status.PodIP == "" {
				continue
			}
			if old, has := f.Pods[role]; !has || old.Node != node {
				f.Pods[role] = podRef(p)
			}
		}
	}
	if _, ok := f.Pods[suite.Control]; !ok {
		return fmt.Errorf("no control Pod is ready in namespace %s; `stockade up` deploys them", k.o.System)
	}
	return nil
}

// service returns a Service's "ip:port", and adds its endpoints to the aliases.
func (k *Kube) service(ctx context.Context, f *Field, namespace, name string, port int32) (string, error) {
	svc, err := k.o.Client.Clientset.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading Service %s/%s: %w", namespace, name, err)
	}
	behind, err := k.endpoints(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	addr := net.JoinHostPort(svc.Spec.ClusterIP, strconv.Itoa(int(port)))
	seen := map[string]bool{}
	for _, s := range behind {
		for _, e := range s.Endpoints {
			for _, ip := range e.Addresses {
				for _, p := range s.Ports {
					if p.Port == nil || (p.Name != nil && *p.Name == "metrics") {
						continue
					}
					to := net.JoinHostPort(ip, strconv.Itoa(int(*p.Port)))
					if !seen[to] {
						seen[to] = true
						f.Aliases[addr] = append(f.Aliases[addr], to)
					}
				}
			}
		}
	}
	return addr, nil
}

// serverNodes adds the nodes of a Service's Pods, which are the target's servers.
func (k *Kube) serverNodes(ctx context.Context, f *Field, namespace, service string) error {
	behind, err := k.endpoints(ctx, namespace, service)
	if err != nil {
		return err
	}
	for _, s := range behind {
		for _, e := range s.Endpoints {
			if e.NodeName != nil && !slices.Contains(f.Servers, *e.NodeName) {
				f.Servers = append(f.Servers, *e.NodeName)
			}
		}
	}
	return nil
}

func (k *Kube) endpoints(ctx context.Context, namespace, service string) ([]discoveryv1.EndpointSlice, error) {
	all, err := k.o.Client.Clientset.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		return nil, fmt.Errorf("reading the endpoints of Service %s/%s: %w", namespace, service, err)
	}
	return all.Items, nil
}

// limits reads what the sandbox's declaration says, up to what it may say. Memory and
// CPU are the whole Pod's, as the node's cgroup has them that the witness reads: what
// the runtime class adds comes on top of either.
func limits(site *probe.Site, pod *corev1.Pod, most probe.Limits) {
	site.Most = most
	memory, cpu := pod.Spec.Overhead[corev1.ResourceMemory], pod.Spec.Overhead[corev1.ResourceCPU]
	site.MemoryLimit = atMost(podLimit(pod, corev1.ResourceMemory).Value(), most.Memory, memory.Value())
	site.CPULimit = atMost(podLimit(pod, corev1.ResourceCPU).AsApproximateFloat64(), most.CPU, cpu.AsApproximateFloat64())
}

// atMost is a declared limit, of which 0 is none, where no more may be declared than
// most, of which 0 is any.
func atMost[T int64 | float64](declared, most, overhead T) T {
	if most > 0 && (declared == 0 || declared > most+overhead) {
		return most + overhead
	}
	return declared
}

// podLimit is the limit that the kubelet sets on the Pod: the Pod's own where it
// has one, or else the sum over the containers that run together, sidecars
// included, and at least the largest of those that run before; the runtime's
// overhead comes on top. It is 0, for none, when one of them has no limit.
func podLimit(pod *corev1.Pod, what corev1.ResourceName) *resource.Quantity {
	none := &resource.Quantity{}
	total := resource.Quantity{}
	if own := pod.Spec.Resources; own != nil && !own.Limits.Name(what, resource.DecimalSI).IsZero() {
		total = own.Limits[what].DeepCopy()
	} else {
		first := resource.Quantity{}
		for _, c := range pod.Spec.Containers {
			limit, ok := c.Resources.Limits[what]
			if !ok {
				return none
			}
			total.Add(limit)
		}
		for _, c := range pod.Spec.InitContainers {
			limit, ok := c.Resources.Limits[what]
			switch {
			case !ok:
				return none
			case c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways:
				total.Add(limit)
			case limit.Cmp(first) > 0:
				first = limit
			}
		}
		if first.Cmp(total) > 0 {
			total = first
		}
	}
	total.Add(pod.Spec.Overhead[what])
	return &total
}

// pidsLimit asks the kubelet for its podPidsLimit; 0 when it does not say.
func (k *Kube) pidsLimit(ctx context.Context, node string) int64 {
	body, err := k.o.Client.Clientset.CoreV1().RESTClient().Get().
		Resource("nodes").Name(node).SubResource("proxy").Suffix("configz").Do(ctx).Raw()
	if err != nil {
		return 0
	}
	var cfg struct {
		Kubelet struct {
			PodPidsLimit int64 `json:"podPidsLimit"`
		} `json:"kubeletconfig"`
	}
	if json.Unmarshal(body, &cfg) != nil || cfg.Kubelet.PodPidsLimit < 0 {
		return 0
	}
	return cfg.Kubelet.PodPidsLimit
}

// anyBox is a Pod of the target's that has a RuntimeClass, as its sandboxes have; empty
// where none runs.
func (k *Kube) anyBox(ctx context.Context) target.Pod {
	pods, err := k.o.Client.Clientset.CoreV1().Pods(k.o.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return target.Pod{}
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Spec.RuntimeClassName != nil && witness.Ready(p) {
			return podRef(p)
		}
	}
	return target.Pod{}
}

// Substrate implements [Ground]. What cannot be read is left out.
func (k *Kube) Substrate(ctx context.Context, f *Field) map[string]string {
	out := map[string]string{}
	put := func(key, value string) {
		if value != "" {
			out[key] = value
		}
	}
	if v, err := k.o.Client.Clientset.Discovery().ServerVersion(); err == nil {
		put("kubernetes", v.GitVersion)
	}
	box, claimed := f.Pods[suite.Sandbox]
	if !claimed {
		// Programs of the target's server run all the same, where its sandboxes do.
		box = k.anyBox(ctx)
	}
	if box.Node == "" {
		return out
	}
	if node, err := k.o.Client.Clientset.CoreV1().Nodes().Get(ctx, box.Node, metav1.GetOptions{}); err == nil {
		i := node.Status.NodeInfo
		put("node", node.Name)
		put("kernel", i.KernelVersion)
		put("os", i.OSImage)
		put("kubelet", i.KubeletVersion)
		put("container-runtime", i.ContainerRuntimeVersion)
		put("architecture", i.Architecture)
	}
	if facts, err := k.factsNow(ctx, box); err == nil {
		put("runtime-class", facts.RuntimeClass)
		put("runtime-handler", facts.Handler)
	}
	if agent, err := k.ciliumAgent(ctx, box.Node); err == nil {
		image := agent.Spec.Containers[0].Image
		put("cilium-image", image[strings.LastIndex(image, "/")+1:])
	}
	return out
}
