// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// networkOff accepts Absent alone: with its network off, gVisor shows a program
// the loopback and no other interface. The API server must agree: the program is
// a stranger's, and the handler is what the node's containerd starts.
func networkOff() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.network-off",
		Title: "Find a network in a run",
		About: "Lists the network interfaces. Where gVisor's own network is off there is nothing but the loopback, and no policy is needed to keep code in. " +
			"GKE's gVisor has no such switch for a single Pod; there only the network policy stands.",
		Claims: []string{"PG-03"}, Kind: suite.Guarantee, Severity: suite.Medium,
		Techniques: []string{"T1016"},
		Refs:       []string{"https://gvisor.dev/docs/user_guide/networking/"},
		Attack:     listInterfaces,
		Control:    suite.ControlSpec{Why: "a Pod with a network shows its interface by the same listing"},
		Accept:     []verdict.Class{verdict.Absent},
		Witnesses:  []suite.Witness{{Name: suite.APIServer, Read: demandNoNetwork}},
		Mutants:    []string{"playground-network-on"},
	}
}

// demandNoNetwork reads which handler started the Pod. It is a pure function.
func demandNoNetwork(r suite.Reading) verdict.Statement {
	s := verdict.Statement{
		Witness: suite.APIServer, Live: r.Pod.Node != "" && r.Pod.Phase == "Running", Agrees: r.Pod.Handler == suite.NoNetworkHandler,
		Detail: fmt.Sprintf("handler %q, phase %q on node %q", r.Pod.Handler, r.Pod.Phase, r.Pod.Node),
	}
	s.Breach = s.Live && !s.Agrees
	return s
}

func listInterfaces(context.Context, *probe.Env) []verdict.Step {
	all, err := net.Interfaces()
	return []verdict.Step{judgeInterfaces(all, err)}
}

func judgeInterfaces(all []net.Interface, err error) verdict.Step {
	const name = "find an interface besides the loopback"
	if err != nil {
		return probe.Denied(name, err)
	}
	var others []string
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 {
			others = append(others, i.Name)
		}
	}
	if len(others) > 0 {
		return probe.Reached(name, "there is %s", strings.Join(others, ", "))
	}
	if len(all) == 0 {
		// Not even the loopback: the listing itself may be what is missing.
		return probe.Failed(name, verdict.Unknown, "no interface at all is shown")
	}
	return probe.Failed(name, verdict.Absent, "there is only the loopback")
}

// defaultDenyEgress accepts Unreachable alone, which is how gVisor says that it
// has no network. The range must have heard the control, and none of the
// attempts. The flow log is no witness here: without a network there is no packet
// that it could see, and the policy behind it is not met. playground.egress-policy
// looks at that, and playground.egress-drops meets it where there is a network.
// So only a mutant without both walls lets a packet out.
func defaultDenyEgress() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.default-deny-egress",
		Title: "Get a packet out of a run",
		About: "Tries to reach public and private addresses over TCP, TLS, UDP, DNS and ICMP, over IPv6 where Pods have it, the metadata server, the cluster's DNS " +
			"and its API server, from a run whose network is off.",
		Claims: []string{"PG-03"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1048", "T1046", "T1552.005"},
		Refs:       []string{"https://gvisor.dev/docs/user_guide/networking/"},
		Attack:     reachOut,
		Control:    suite.ControlSpec{Why: "a Pod without a policy reaches every one of these places"},
		Accept:     []verdict.Class{verdict.Unreachable},
		Witnesses:  []suite.Witness{{Name: suite.RangeLog}},
		Attempts:   2,
		Mutants:    []string{"playground-egress-open"},
	}
}

// egressDrops accepts Dropped alone: the policy's silence. That it was the
// policy's, and not that of a dead network, the flow log must say for every one
// of the places.
func egressDrops() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.egress-drops",
		Title: "Get a packet past the network policy of a run",
		About: "The same as playground.default-deny-egress, where a run has a network: on a runtime that cannot turn it off for a single Pod the network policy " +
			"is the only wall.",
		Claims: []string{"PG-03"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1048", "T1046", "T1552.005"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/services-networking/network-policies/"},
		Needs:      []suite.Feature{suite.PodNetwork},
		Attack:     reachOut,
		Control:    suite.ControlSpec{Why: "a Pod without a policy reaches every one of these places"},
		Accept:     []verdict.Class{verdict.Dropped},
		Witnesses:  suite.NothingOut(places),
		Attempts:   2,
		Mutants:    []string{"playground-egress-open"},
	}
}

func reachOut(ctx context.Context, env *probe.Env) []verdict.Step {
	s := env.Site
	acts := []func() verdict.Step{
		func() verdict.Step { return probe.ReachTCP(ctx, env, "send over TCP", s.PublicTCP) },
		func() verdict.Step {
			return probe.ReachTLS(ctx, env, "send over TLS", s.PublicTLS, env.Nonce+".stockade.test")
		},
		func() verdict.Step {
			return probe.ReachUDP(ctx, env, "send over UDP", s.PublicUDP, probe.Payload(env))
		},
		func() verdict.Step {
			return probe.ReachDNS(ctx, "send over DNS", "udp", s.PublicDNS, env.Nonce+"."+s.Tunnel)
		},
		// A privileged control may ping by a raw socket whatever ping_group_range says.
		func() verdict.Step {
			return probe.Ping(ctx, env, "send an echo request", s.PublicICMP, env.Part == probe.Control)
		},
		func() verdict.Step { return probe.ReachMetadata(ctx, env, "ask the metadata server", s.Metadata) },
		func() verdict.Step {
			return probe.ReachDNS(ctx, "ask the cluster's DNS", "udp", s.ClusterDNS, env.Nonce+"."+s.Tunnel)
		},
		func() verdict.Step { return probe.ReachTCP(ctx, env, "connect to the API server", s.APIServer) },
	}
	if dualStack(s) {
		acts = append(acts, func() verdict.Step { return probe.ReachTCP(ctx, env, "send over IPv6", s.PublicTCP6) })
	}
	for _, a := range s.RFC1918 {
		acts = append(acts, func() verdict.Step { return probe.ReachTCP(ctx, env, "connect to "+a, a) })
	}
	return probe.Together(acts...)
}

// places are where reachOut goes, as the flow log has it.
func places(s probe.Site) []string {
	out := []string{s.PublicTCP, s.PublicTLS, s.PublicUDP + "/udp", s.PublicDNS + "/udp", s.PublicICMP + "/icmp",
		s.Metadata, s.ClusterDNS + "/udp", s.APIServer}
	if dualStack(s) {
		out = append(out, s.PublicTCP6)
	}
	return append(out, s.RFC1918...)
}

// dualStack tells whether the run's Pod has an address of IPv6.
func dualStack(s probe.Site) bool {
	return slices.ContainsFunc(s.OwnAll, func(a string) bool {
		ip, err := netip.ParseAddr(a)
		return err == nil && ip.Is6() && !ip.Is4In6()
	})
}

// defaultDenyIngress accepts Dropped alone. With gVisor's network off nobody
// would listen, but a refusal would come from the node's side of the Pod: the
// packet would have passed the policy.
func defaultDenyIngress() suite.Scenario {
	return suite.Scenario{
		ID:     "playground.default-deny-ingress",
		Title:  "Reach a run from another Pod",
		About:  "From a Pod that has no policy of its own, connects to a port of the run's Pod, by every address that it has.",
		Claims: []string{"PG-03"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1021"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/services-networking/network-policies/"},
		From:       suite.Control,
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			return connectAll(ctx, env, "the run's Pod", env.Site.OwnAll)
		},
		Control: suite.ControlSpec{At: suite.Router, Act: func(ctx context.Context, env *probe.Env) []verdict.Step {
			return connectAll(ctx, env, "a Pod without a policy", env.Site.ControlAll)
		}, Why: "the same port of a Pod without a policy, on the same node, is answered"},
		Accept: []verdict.Class{verdict.Dropped},
		Witnesses: []suite.Witness{{Name: suite.Flows, Flow: &suite.Flow{
			From: suite.Control, To: func(s probe.Site) []string { return s.OwnAll },
		}}},
		Attempts: 2,
		Listener: true,
		Mutants:  []string{"playground-ingress-open"},
	}
}

func connectAll(ctx context.Context, env *probe.Env, whom string, addresses []string) []verdict.Step {
	if len(addresses) == 0 {
		return []verdict.Step{probe.NoSite("connect to "+whom, "address for it")}
	}
	acts := make([]func() verdict.Step, 0, len(addresses))
	for _, a := range addresses {
		acts = append(acts, func() verdict.Step {
			return probe.ReachListener(ctx, env, "connect to "+whom+" at "+a, a, env.Site.ListenPort)
		})
	}
	return probe.Together(acts...)
}
