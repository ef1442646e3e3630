// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"context"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/reading"
)

// A policy is read here as well as met by packets, which try some places alone: a
// rule for one address more, or for the Pods of the sandbox's own namespace, lets
// every one of them be dropped all the same.

// servers are who may call a sandbox, in its own namespace, and where: at the port at
// which its runner listens. What a program of the user's own listens on is nobody's.
var servers = []reading.Outlet{labelled("kode-gopher-router", "8888/TCP"), labelled("kode-gopher", "8888/TCP")}

// labelled are Pods of the target's own namespace.
func labelled(app string, ports ...string) reading.Outlet {
	return reading.Outlet{Peer: reading.Peer{Label: "app", Value: app}, Ports: ports}
}

// portPolicy accepts Absent alone. Of those who knock, two are of another
// namespace, and a sibling may not send to private addresses; so none of them
// notices a rule for the Pods of the sandbox's own namespace.
func portPolicy() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.port-policy",
		Title: "Find a network policy that lets others in to a sandbox than the server",
		About: "Reads the network policies that select the running sandbox: one has to speak of what comes in, and all of them together may let in kode-gopher's server and the sandbox router alone, at the port of the sandbox's runner. " +
			"Everybody, addresses, every Pod of a namespace and other sandboxes are others; of another label, and of policies of other kinds that speak of ingress, nothing is concluded. " +
			"The control finds, by the same reading, a policy that lets somebody in.",
		Claims: []string{"KG-08"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1562.007", "T1210"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/services-networking/network-policies/#behavior-of-to-and-from-selectors"},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return reading.NobodyElse(ctx, env, servers)
		},
		AskControl: reading.SomebodyLetIn,
		Live:       true,
		Accept:     []verdict.Class{verdict.Absent},
		Timeout:    30 * time.Second,
		Mutants:    []string{"kode-gopher-ingress-own-namespace", "kode-gopher-ingress-any-port", "kode-gopher-shared-ingress-port-range"},
	}
}

// The cluster's resolver, and the caches in front of it on the nodes of GKE: as Pods
// where Dataplane V2 redirects to them, and else by their address.
var (
	clusterDNS = dnsPods("kube-dns")
	nodeCache  = dnsPods("node-local-dns")
	caches     = map[string][]string{"169.254.20.10/32": {"53/UDP", "53/TCP"}}
	// emulator gives a run its identity, on a shared server.
	emulator = labelled("kode-gopher-metadata", "8080/TCP")
)

// dnsPods are Pods that answer for the cluster's names.
func dnsPods(app string) reading.Outlet {
	return reading.Outlet{Peer: reading.Peer{Namespace: "kube-system", Label: "k8s-app", Value: app}, Ports: []string{"53/UDP", "53/TCP"}}
}

// egressPolicy accepts Absent alone.
func egressPolicy() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.egress-policy",
		Title: "Find a policy that lets a sandbox out past the allow-list",
		About: "Reads the network policies that select the running sandbox, Cilium's among them: one has to speak of what it sends, and all of them together may lead to the cluster's DNS, the target's own " +
			"metadata server, and port 443 of hosts by name. Addresses, entities, every Pod of a namespace, other ports and patterns that name nobody's domain are more. " +
			"Which names are on the list is not judged; of policies of other kinds, and of what is not understood, nothing is concluded. The control finds, by the same reading, a policy that lets something out.",
		Claims: []string{"KG-05"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1562.007", "T1048"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/services-networking/network-policies/", "https://docs.cilium.io/en/stable/security/policy/language/"},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return reading.NowhereElse(ctx, env, reading.Outlets{Pods: []reading.Outlet{clusterDNS, nodeCache, emulator}, Addresses: caches})
		},
		AskControl: reading.SomethingLetOut,
		Live:       true,
		Accept:     []verdict.Class{verdict.Absent},
		Timeout:    30 * time.Second,
		Mutants:    []string{"kode-gopher-shared-one-address"},
	}
}

// privatePolicy accepts Absent alone.
func privatePolicy() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.private-policy",
		Title: "Find a policy that lets a sandbox out to private addresses",
		About: "Reads the network policies that select the running sandbox, Cilium's among them: one has to speak of what it sends, and all of them together may lead to the cluster's DNS, the target's own " +
			"metadata server, public addresses and names. Of IPv4, the ranges for private and shared use, of this host and link, for protocols, benchmarks, multicast and the future have to be among the exceptions; " +
			"of IPv6, those of this host, local, of multicast, and those in which a NAT64 or a 6to4 relay hides IPv4 addresses, or that are made of them. Those for documentation, and those of protocols that nobody forwards any more (Teredo), are not asked for. " +
			"Of policies of other kinds, and of what is not understood, nothing is concluded. The control finds, by the same reading, a policy that lets something out.",
		Claims: []string{"KG-06", "KG-07"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1562.007", "T1046"},
		Refs:       []string{"https://www.rfc-editor.org/rfc/rfc6890", "https://www.rfc-editor.org/rfc/rfc8215"},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return reading.NowhereElse(ctx, env, reading.Outlets{Pods: []reading.Outlet{clusterDNS, nodeCache, emulator}, Addresses: caches, Public: true})
		},
		AskControl: reading.SomethingLetOut,
		Live:       true,
		Accept:     []verdict.Class{verdict.Absent},
		Timeout:    30 * time.Second,
		Mutants:    []string{"kode-gopher-nat64-hole", "kode-gopher-multicast-hole"},
	}
}

// serverPolicy accepts Absent alone. Strangers and clients knock at the servers'
// ports; a rule that lets a sandbox in to them is met by nobody, because the
// sandbox's own policy stands before it.
func serverPolicy() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.server-policy",
		Title: "Find a network policy that lets others in to the servers",
		About: "Reads the network policies that select the Pods of the server, of the sandbox router and of the metadata server: each has to have one on what comes in, and all of them together may let in " +
			"Pods of namespaces with the label for clients to the server, the server to the router and to the port where runs begin, and sandboxes to the port where they get tokens. " +
			"Of other labels, and of policies of other kinds that speak of ingress, nothing is concluded. The control finds, by the same reading, a policy that lets somebody in.",
		Claims: []string{"KG-16"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1562.007", "T1210"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/services-networking/network-policies/#behavior-of-to-and-from-selectors"},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return reading.CallersOnly(ctx, env, "app", map[string][]reading.Outlet{
				"kode-gopher":          {{Peer: reading.Peer{Mark: "kode-gopher.stockade.dev/clients"}, Ports: []string{"8080/TCP"}}},
				"kode-gopher-router":   {labelled("kode-gopher", "8080/TCP")},
				"kode-gopher-metadata": {labelled("kode-gopher-sandbox", "8080/TCP"), labelled("kode-gopher", "8081/TCP")},
			})
		},
		AskControl: reading.SomebodyLetIn,
		Live:       true,
		Accept:     []verdict.Class{verdict.Absent},
		Timeout:    30 * time.Second,
		Mutants:    []string{"kode-gopher-shared-router-sandboxes", "kode-gopher-shared-metadata-any-port"},
	}
}
