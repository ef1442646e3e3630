// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"context"
	"net"
	"slices"
	"strconv"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// otherPods accepts Dropped alone: somebody listens at both places, as the
// server's stand-in shows, whose way out no policy narrows.
func otherPods() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.other-pods",
		Title: "Reach other Pods, and the resolver at another port",
		About: "Connects to a listener in a Pod of another namespace, and to the metrics port of the cluster's resolver. That a sandbox may ask the resolver is no " +
			"leave to talk to its Pod: a rule for DNS without ports would be one.",
		Claims: []string{"KG-05", "KG-06", "KG-07"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1046", "T1021"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/services-networking/network-policies/#networkpolicy-resource"},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			return probe.Together(
				func() verdict.Step {
					return probe.ReachTCP(ctx, env, "connect to the resolver's metrics", resolverMetrics(env.Site))
				},
				func() verdict.Step {
					return probe.ReachListener(ctx, env, "connect to another Pod", env.Site.ControlPod, env.Site.ListenPort)
				})
		},
		Control:   suite.ControlSpec{At: suite.Router, Why: "a Pod of the same namespace whose way out no policy narrows reaches both"},
		Accept:    dropped,
		Witnesses: []suite.Witness{suite.PolicyDrop(otherPlaces)},
		Attempts:  2,
		Listener:  true,
		Mutants:   []string{"kode-gopher-dns-any-port", "kode-gopher-network-open", "kode-gopher-shared-network-open"},
	}
}

// resolverMetrics is where CoreDNS counts for Prometheus.
func resolverMetrics(s probe.Site) string {
	if s.DNSPod == "" {
		return ""
	}
	return net.JoinHostPort(s.DNSPod, "9153")
}

func otherPlaces(s probe.Site) []string {
	out := []string{resolverMetrics(s)}
	if s.ControlPod != "" && s.ListenPort > 0 {
		out = append(out, net.JoinHostPort(s.ControlPod, strconv.Itoa(s.ListenPort)))
	}
	return out
}

// wrapped are private IPv4 addresses in IPv6: by the prefixes of a NAT64 (RFC
// 6052, RFC 8215), by that of a 6to4 relay (RFC 3056), and one of IPv6's own private
// range (RFC 4193). Where a network translates, each leads to a neighbour, past every
// list of IPv4 ranges.
var wrapped = []string{"[64:ff9b::a63:7]:8080", "[64:ff9b:1::a63:7]:8080", "[2002:a63:7::1]:8080", "[fd00:99::7]:8080"}

// privateInIPv6 accepts Dropped alone. It is a scenario of its own because a
// cluster without IPv6 has no such door.
func privateInIPv6() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.private-in-ipv6",
		Title: "Reach a private address through IPv6",
		About: "Connects to a private IPv4 address in the forms in which it can be written into an IPv6 one that a network translates back, and to a private IPv6 address. " +
			"Where public IPv6 addresses are open, only exceptions for these ranges keep private ones closed.",
		Claims: []string{"KG-07"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1046", "T1021"},
		Refs:       []string{"https://www.rfc-editor.org/rfc/rfc6052", "https://www.rfc-editor.org/rfc/rfc3056", "https://www.rfc-editor.org/rfc/rfc4193"},
		Needs:      []suite.Feature{suite.IPv6},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			return probe.ReachAllTCP(ctx, env, wrapped)
		},
		Control:   suite.ControlSpec{Why: "a Pod without a policy is answered at each of the addresses"},
		Accept:    dropped,
		Witnesses: suite.NothingOut(func(probe.Site) []string { return wrapped }),
		Attempts:  2,
		Mutants:   []string{"kode-gopher-ipv6-exceptions"},
	}
}

// metadataResolver is the resolver of clusters with Cloud DNS: the metadata
// server's address, at another port.
const metadataResolver = "169.254.169.254:53"

// dnsTunnel shows what it means that a sandbox may ask the cluster's DNS, which
// the text says: a question for a name in the attacker's zone arrives there.
// More than that would be any other resolver than the cluster's; only Dropped is
// accepted of it. The range, as the zone's name server, must have heard every
// attempt.
func dnsTunnel() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.dns-tunnel",
		Title: "Send data out through the cluster's DNS",
		About: "Puts a mark into a name of a zone of the attacker's and asks the cluster's DNS for it, over UDP and TCP, which the text discloses: sandboxes may reach DNS, " +
			"and no list of names narrows what they may ask. Then asks the resolver at the metadata server's address, which must stay closed: a rule that opens it for names opens the way to the server.",
		Claims: []string{"KG-05", "KG-06"}, Kind: suite.Limit, Severity: suite.Medium,
		Techniques: []string{"T1071.004", "T1048.003"},
		Refs:       []string{"https://attack.mitre.org/techniques/T1071/004/", "https://cloud.google.com/kubernetes-engine/docs/how-to/cloud-dns"},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			return askBoth(ctx, env, metadataResolver)
		},
		Control:   suite.ControlSpec{Why: "a Pod without a policy gets an answer from both, and its question to the zone's name server"},
		Accept:    dropped,
		Witnesses: suite.NothingOut(func(probe.Site) []string { return []string{metadataResolver, metadataResolver + "/udp"} }),
		Attempts:  2,
		Mutants:   []string{"kode-gopher-metadata-hole", "kode-gopher-network-open", "kode-gopher-shared-metadata-hole", "kode-gopher-shared-network-open"},
	}
}

// askBoth asks the cluster's DNS, and a resolver that must stay closed.
func askBoth(ctx context.Context, env *probe.Env, closed string) []verdict.Step {
	if marked(env) == "" {
		return []verdict.Step{probe.NoSite("ask", "zone of the attacker's")}
	}
	ask := func(name, network, server string) func() verdict.Step {
		return func() verdict.Step { return probe.ReachDNS(ctx, name, network, server, marked(env)) }
	}
	steps := disclosed(probe.Together(
		ask("ask the cluster's DNS over UDP", "udp", env.Site.ClusterDNS),
		ask("ask the cluster's DNS over TCP", "tcp", env.Site.ClusterDNS)))
	return append(steps, probe.Together(
		ask("ask the metadata server's resolver over UDP", "udp", closed),
		ask("ask the metadata server's resolver over TCP", "tcp", closed))...)
}

// publicData shows the admitted half of a deployment on a cluster of one's own:
// data gets to any public address. Getting to anything private by the same
// attempt is more than the text says, and only Dropped is accepted of that. The
// range must have heard every attempt; that the other half was dropped, the flow
// log must show.
func publicData() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.public-data",
		Title: "Send data to any public address",
		About: "Sends data to public addresses over TCP, TLS, UDP and DNS, which the text discloses for a local deployment, and tries private ranges, the cluster's API server and " +
			"the metadata server, which it says are blocked everywhere.",
		Claims: []string{"KG-13"}, Kind: suite.Limit, Severity: suite.Medium,
		Techniques: []string{"T1048", "T1567"},
		Refs:       []string{"https://www.rfc-editor.org/rfc/rfc6890"},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			s := env.Site
			if marked(env) == "" || len(s.RFC1918) == 0 {
				return []verdict.Step{probe.NoSite("send", "public and private addresses")}
			}
			steps := disclosed(probe.Together(
				func() verdict.Step { return probe.ReachTCP(ctx, env, "send over TCP", s.PublicTCP) },
				func() verdict.Step {
					return probe.ReachTLS(ctx, env, "send over TLS", s.PublicTLS, env.Nonce+".stockade.test")
				},
				func() verdict.Step {
					return probe.ReachUDP(ctx, env, "send over UDP", s.PublicUDP, probe.Payload(env))
				},
				func() verdict.Step { return probe.ReachDNS(ctx, "send over DNS", "udp", s.PublicDNS, marked(env)) }))
			private := []func() verdict.Step{
				func() verdict.Step { return probe.ReachMetadata(ctx, env, "ask the metadata server", s.Metadata) },
				func() verdict.Step { return probe.ReachTCP(ctx, env, "connect to the API server", s.APIServer) },
			}
			for _, a := range s.RFC1918 {
				private = append(private, func() verdict.Step { return probe.ReachTCP(ctx, env, "connect to "+a, a) })
			}
			return append(steps, probe.Together(private...)...)
		},
		Control:   suite.ControlSpec{Why: "a Pod without a policy reaches both halves, so what fails is the policy's doing"},
		Accept:    dropped,
		Witnesses: suite.NothingOut(func(s probe.Site) []string { return append(slices.Clone(s.RFC1918), s.Metadata, s.APIServer) }),
		Attempts:  2,
		Mutants:   []string{"kode-gopher-private-hole", "kode-gopher-metadata-hole", "kode-gopher-network-open"},
	}
}
