// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// metadataAliases tries every other way to the server. GKE's data planes rewrite
// the metadata address, some before and some after the policy looks at it: a
// policy that names 169.254.169.254 alone may guard a door that nobody uses.
//
// Dropped is the policy's denial, as in [metadataToken]. Absent is for the
// sandbox's own loopback, where a refusal is the sandbox's own kernel saying
// that no proxy listens; anywhere else a refusal comes from beyond the policy,
// and is not accepted. NoName is a resolver that is alive and knows no such
// name. Unreachable is not accepted: IPv4 link-local always has a route.
func metadataAliases() suite.Scenario {
	return suite.Scenario{
		ID:    "credentials.metadata-aliases",
		Title: "Reach the metadata server by another address or name",
		About: "Tries the server's other port, the addresses that GKE rewrites it to (169.254.169.252 and the node, ports 987 and 988), " +
			"the address mapped into IPv6, and its name through every resolver that can be found.",
		Claims: []string{"AS-03", "KG-07"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1552.005"},
		Refs:       []string{"https://cloud.google.com/kubernetes-engine/docs/how-to/workload-identity", "https://www.rfc-editor.org/rfc/rfc4291#section-2.5.5.2"},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			acts := doors(ctx, env)
			for _, port := range proxyPorts {
				acts = append(acts, door(ctx, env, net.JoinHostPort(env.Site.NodeIP, port)), loopback(ctx, env, port))
			}
			return probe.Together(acts...)
		},
		Control: suite.ControlSpec{
			// The node's own ports 987 and 988, and loopback, have nobody behind
			// them where no GKE metadata server runs.
			Act: func(ctx context.Context, env *probe.Env) []verdict.Step {
				return probe.Together(append(doors(ctx, env), func() verdict.Step {
					return probe.ReachTCP(ctx, env, "reach the node", env.Site.Kubelet)
				})...)
			},
			Why: "a Pod without a policy is answered at every alias, resolves the name, and reaches its node",
		},
		Accept: []verdict.Class{verdict.Dropped, verdict.Absent, verdict.NoName},
		// The resolvers are not among the places: asking for the name is no breach,
		// and what it resolves to is the server's own address.
		Witnesses: suite.NothingOut(func(s probe.Site) []string {
			return slices.Concat(s.MetadataIPv4(), []string{s.Metadata}, nodeDoors(s))
		}),
		Attempts: 2,
		Mutants: []string{"network-unmanaged", "egress-open", "egress-metadata-hole", "egress-metadata-dnat-hole",
			"kode-gopher-metadata-hole", "kode-gopher-network-open", "kode-gopher-shared-metadata-hole", "kode-gopher-shared-network-open"},
	}
}

// proxyPorts are where GKE's metadata proxy listens on the node.
var proxyPorts = []string{"988", "987"}

// nodeDoors are those ports of the sandbox's own node.
func nodeDoors(s probe.Site) []string {
	var out []string
	for _, port := range proxyPorts {
		if s.NodeIP != "" {
			out = append(out, net.JoinHostPort(s.NodeIP, port))
		}
	}
	return out
}

// host is the name by which Google's libraries look for the server.
const host = "metadata.google.internal."

// doors are the ways in that the range answers wherever nothing is in between.
func doors(ctx context.Context, env *probe.Env) []func() verdict.Step {
	var acts []func() verdict.Step
	for _, addr := range env.Site.MetadataIPv4() {
		acts = append(acts, door(ctx, env, addr))
	}
	acts = append(acts, func() verdict.Step {
		return probe.ReachMetadataMapped(ctx, env, "ask [::ffff:"+env.Site.Metadata+"]", env.Site.Metadata)
	})
	asked := map[string]bool{}
	for _, server := range append(probe.Resolvers("/etc/resolv.conf"), env.Site.ClusterDNS, env.Site.PublicDNS) {
		if server != "" && !asked[server] {
			asked[server] = true
			acts = append(acts, func() verdict.Step { return byName(ctx, env, server) })
		}
	}
	return acts
}

func door(ctx context.Context, env *probe.Env, addr string) func() verdict.Step {
	return func() verdict.Step {
		if h, _, err := net.SplitHostPort(addr); err != nil || h == "" {
			return probe.NoSite("ask "+addr, "address of the node")
		}
		return probe.ReachMetadata(ctx, env, "ask "+addr, addr)
	}
}

// loopback tries the port at which GKE's older metadata proxy listened.
func loopback(ctx context.Context, env *probe.Env, port string) func() verdict.Step {
	return func() verdict.Step {
		addr := net.JoinHostPort("127.0.0.1", port)
		c, err := probe.Dial(ctx, "tcp", addr)
		if err == nil {
			_ = c.Close() // it is opened again below
			return probe.ReachMetadata(ctx, env, "ask "+addr, addr)
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			return probe.Failed("ask "+addr, verdict.Absent, "nothing listens on the sandbox's own loopback")
		}
		return probe.Denied("ask "+addr, err)
	}
}

// byName resolves the name and asks what it resolves to.
func byName(ctx context.Context, env *probe.Env, server string) verdict.Step {
	name := "ask " + host + " as " + server + " resolves it"
	a, err := probe.AskDNS(ctx, "udp", server, host, probe.TypeA)
	if err != nil {
		return probe.Denied(name, err)
	}
	if len(a.Addrs) == 0 {
		return probe.Failed(name, verdict.NoName, "%s answered with code %d and no address", server, a.RCode)
	}
	return probe.ReachMetadata(ctx, env, name, netip.AddrPortFrom(a.Addrs[0], 80).String())
}
