// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"net"
	"strings"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// networkOff accepts Absent alone: with its network off, gVisor shows a program
// the loopback and no other interface.
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
		Mutants:    []string{"playground-network-on"},
	}
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

// defaultDenyEgress accepts Unreachable, which is how gVisor says that it has no
// network, and Dropped, which is how the policy denies where it has one. The
// range must have heard the control, and none of the attempts. The flow log is
// no witness here: without a network there is no packet that it could see.
func defaultDenyEgress() suite.Scenario {
	return suite.Scenario{
		ID:     "playground.default-deny-egress",
		Title:  "Get a packet out of a run",
		About:  "Tries to reach public and private addresses over TCP, TLS, UDP and DNS, the metadata server, the cluster's DNS and its API server.",
		Claims: []string{"PG-03"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1048", "T1046", "T1552.005"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/services-networking/network-policies/"},
		Attack:     reachOut,
		Control:    suite.ControlSpec{Why: "a Pod without a policy reaches every one of these places"},
		Accept:     []verdict.Class{verdict.Dropped, verdict.Unreachable},
		Witnesses:  []suite.Witness{{Name: suite.RangeLog}},
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
		func() verdict.Step { return probe.ReachMetadata(ctx, env, "ask the metadata server", s.Metadata) },
		func() verdict.Step {
			return probe.ReachDNS(ctx, "ask the cluster's DNS", "udp", s.ClusterDNS, env.Nonce+"."+s.Tunnel)
		},
		func() verdict.Step { return probe.ReachTCP(ctx, env, "connect to the API server", s.APIServer) },
	}
	for _, a := range s.RFC1918 {
		acts = append(acts, func() verdict.Step { return probe.ReachTCP(ctx, env, "connect to "+a, a) })
	}
	return probe.Together(acts...)
}

// defaultDenyIngress accepts Dropped alone. With gVisor's network off nobody
// would listen, but a refusal would come from the node's side of the Pod: the
// packet would have passed the policy.
func defaultDenyIngress() suite.Scenario {
	return suite.Scenario{
		ID:     "playground.default-deny-ingress",
		Title:  "Reach a run from another Pod",
		About:  "From a Pod that has no policy of its own, connects to a port of the run's Pod.",
		Claims: []string{"PG-03"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1021"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/services-networking/network-policies/"},
		From:       suite.Control,
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			return probe.Together(func() verdict.Step {
				return probe.ReachListener(ctx, env, "connect to the run's Pod", env.Site.Own, env.Site.ListenPort)
			})
		},
		Control: suite.ControlSpec{At: suite.Router, Act: func(ctx context.Context, env *probe.Env) []verdict.Step {
			return probe.Together(func() verdict.Step {
				return probe.ReachListener(ctx, env, "connect to a Pod without a policy", env.Site.ControlPod, env.Site.ListenPort)
			})
		}, Why: "the same port of a Pod without a policy, on the same node, is answered"},
		Accept: []verdict.Class{verdict.Dropped},
		Witnesses: []suite.Witness{{Name: suite.Flows, Flow: &suite.Flow{
			From: suite.Control, To: func(s probe.Site) []string {
				if s.Own == "" {
					return nil
				}
				return []string{s.Own}
			},
		}}},
		Attempts: 2,
		Listener: true,
		Mutants:  []string{"playground-ingress-open"},
	}
}
