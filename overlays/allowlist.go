// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Dialect is how a cluster writes an allow-list of host names.
type Dialect string

// The dialects. A NetworkPolicy knows addresses only, so both are extensions.
const (
	// GKE has FQDNNetworkPolicy, where Dataplane V2 and its switch are on.
	GKE Dialect = "gke"
	// Cilium writes it as toFQDNs, on kind.
	Cilium Dialect = "cilium"
)

// AllowListArgs say who may reach what.
type AllowListArgs struct {
	Namespace, Name string
	// Labels select the Pods.
	Labels map[string]string
	// Hosts are names ("modules.example.com") or patterns ("*.googleapis.com"),
	// where * stands for characters other than a dot. Port 443 of TCP is what
	// they may be reached at.
	Hosts []string
}

// AllowList returns the objects by which the selected Pods reach the cluster's
// DNS and port 443 of the hosts, and nothing else.
//
// Both dialects work on addresses: the names of the DNS answers that the Pods
// see are turned into them. A host that shares an address with an allowed one
// is therefore reachable too (KG-12); what stops that is a service perimeter.
//
// Errors: no host, a name that is none, or a * so far to the right that it takes
// in everybody's hosts.
func AllowList(d Dialect, a AllowListArgs) ([]unstructured.Unstructured, error) {
	if len(a.Hosts) == 0 {
		return nil, fmt.Errorf("writing the allow-list %s: it names no host", a.Name)
	}
	for _, h := range a.Hosts {
		// The star stands in for a label's characters; what is around it must
		// be a host's all the same.
		labels := strings.Split(h, ".")
		if len(labels) < 2 || len(validation.IsDNS1123Subdomain(strings.ReplaceAll(h, "*", "x"))) > 0 {
			return nil, fmt.Errorf("writing the allow-list %s: %q is no host name", a.Name, h)
		}
		if strings.Contains(strings.Join(labels[len(labels)-2:], "."), "*") {
			return nil, fmt.Errorf("writing the allow-list %s: %q names whole domains that belong to nobody: its last two labels must have no *", a.Name, h)
		}
	}
	switch d {
	case GKE:
		return gkeAllowList(a), nil
	case Cilium:
		return ciliumAllowList(a), nil
	}
	return nil, fmt.Errorf("writing the allow-list %s: there is no dialect %q", a.Name, d)
}

// dnsPods are the cluster's resolvers, by the label that kube-dns and CoreDNS
// share.
const (
	dnsNamespace = "kube-system"
	dnsKey       = "k8s-app"
	dnsValue     = "kube-dns"
)

// A node's own DNS cache is always there on Autopilot, and on Standard by default
// from GKE 1.34.1-gke.3720000. Dataplane V2 redirects what is sent to kube-dns to
// the cache's Pod, and judges it as sent to that Pod; elsewhere the cache listens
// at an address of its own. Cloud DNS answers at the metadata server's address,
// which an allow-list must not open, so clusters of ours have kube-dns.
// https://docs.cloud.google.com/kubernetes-engine/docs/how-to/nodelocal-dns-cache
const (
	nodeLocalValue = "node-local-dns"
	nodeLocalDNS   = "169.254.20.10/32"
)

func policy(apiVersion, kind string, a AllowListArgs, spec map[string]any) unstructured.Unstructured {
	return unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{"name": a.Name, "namespace": a.Namespace},
		"spec":     spec,
	}}
}

func (a AllowListArgs) labels() map[string]any {
	m := map[string]any{}
	for k, v := range a.Labels {
		m[k] = v
	}
	return m
}

func gkeAllowList(a AllowListArgs) []unstructured.Unstructured {
	var matches []any
	for _, h := range a.Hosts {
		key := "name"
		if strings.Contains(h, "*") {
			key = "pattern"
		}
		// A list whose items have exactly one of the two.
		matches = append(matches, map[string]any{key: h})
	}
	pods := map[string]any{"matchLabels": a.labels()}
	dns := []any{map[string]any{"protocol": "UDP", "port": int64(53)}, map[string]any{"protocol": "TCP", "port": int64(53)}}
	return []unstructured.Unstructured{
		// The two kinds add up, and each alone already denies the rest.
		policy("networking.gke.io/v1alpha1", "FQDNNetworkPolicy", a, map[string]any{
			"podSelector": pods,
			// Without ports all of them are open.
			"egress": []any{map[string]any{"matches": matches, "ports": []any{map[string]any{"protocol": "TCP", "port": int64(443)}}}},
		}),
		policy("networking.k8s.io/v1", "NetworkPolicy", AllowListArgs{Namespace: a.Namespace, Name: a.Name + "-dns"}, map[string]any{
			"podSelector": pods, "policyTypes": []any{"Egress"},
			"egress": []any{
				map[string]any{
					"to": []any{
						dnsPeer(dnsValue), dnsPeer(nodeLocalValue),
						map[string]any{"ipBlock": map[string]any{"cidr": nodeLocalDNS}},
					},
					"ports": dns,
				},
			},
		}),
	}
}

// dnsPeer are Pods that answer for the cluster's names.
func dnsPeer(app string) map[string]any {
	return map[string]any{
		"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": dnsNamespace}},
		"podSelector":       map[string]any{"matchLabels": map[string]any{dnsKey: app}},
	}
}

func ciliumAllowList(a AllowListArgs) []unstructured.Unstructured {
	var names, queries []any
	for _, h := range a.Hosts {
		key := "matchName"
		if strings.Contains(h, "*") {
			key = "matchPattern"
		}
		names = append(names, map[string]any{key: h})
	}
	// Names outside of the list are answered as well: what is withheld is the
	// way to their addresses. DNS itself stays a way out for data, as on GKE.
	queries = append(queries, map[string]any{"matchPattern": "*"})
	port := func(number, protocol string, rules map[string]any) map[string]any {
		p := map[string]any{"ports": []any{map[string]any{"port": number, "protocol": protocol}}}
		if rules != nil {
			p["rules"] = rules
		}
		return p
	}
	return []unstructured.Unstructured{policy("cilium.io/v2", "CiliumNetworkPolicy", a, map[string]any{
		"endpointSelector": map[string]any{"matchLabels": a.labels()},
		"egress": []any{
			map[string]any{
				"toEndpoints": []any{map[string]any{"matchLabels": map[string]any{
					"k8s:io.kubernetes.pod.namespace": dnsNamespace, "k8s:" + dnsKey: dnsValue,
				}}},
				// The agent has to see the answers to learn the addresses.
				"toPorts": []any{port("53", "ANY", map[string]any{"dns": queries})},
			},
			map[string]any{"toFQDNs": names, "toPorts": []any{port("443", "TCP", nil)}},
		},
	})}
}
