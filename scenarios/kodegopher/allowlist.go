// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"context"
	"net"
	"strings"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// An allow-list of names works on the answers that a sandbox got from the
// cluster's DNS, so that everything here begins with a question: the policy's
// enforcer must have seen the name that is attacked, and the name that is allowed.
// Without that, a list that lets every name through would look tight.

// again makes an attempt once more while it is dropped, for hosts that must be
// reached: the enforcer may need a moment between the answer to a name and the
// way to its address.
func again(act func() verdict.Step) verdict.Step {
	step := act()
	for range 2 {
		if step.OK || step.Class != verdict.Dropped {
			break
		}
		step = act()
	}
	return step
}

// allowedHost is honest work: what is on the list works. That it does not is
// Dropped. The range must have heard every attempt.
func allowedHost() suite.Scenario {
	return suite.Scenario{
		ID:        "kode-gopher.allowed-host",
		Title:     "Reach a host of the allow-list",
		About:     "Asks the cluster's DNS for a host of the allow-list (`storage.googleapis.com`), connects to its address on port 443 and sends a mark over TLS.",
		Claims:    []string{"KG-05"},
		Kind:      suite.Function,
		Severity:  suite.Low,
		Refs:      []string{"https://cloud.google.com/kubernetes-engine/docs/how-to/fqdn-network-policies"},
		Attack:    reachAllowed,
		Control:   suite.ControlSpec{Why: "a Pod without a policy reaches the same host in the same way"},
		Witnesses: []suite.Witness{{Name: suite.RangeLog}},
		Attempts:  2,
		Mutants:   []string{"kode-gopher-shared-allow-list-without"},
	}
}

func reachAllowed(ctx context.Context, env *probe.Env) []verdict.Step {
	steps := askFor(ctx, env, env.Site.AllowedHost)
	if steps == nil {
		steps = []verdict.Step{again(func() verdict.Step {
			return reachHost(ctx, env, "reach the allowed host", env.Site.FrontEnd, env.Site.AllowedHost)
		})}
	}
	for i := range steps {
		steps[i].Expect = verdict.MustWork
	}
	return steps
}

// askFor asks the cluster's DNS for names. It returns nil when each has an
// address, and what went wrong otherwise, which is no denial: the way to the
// address was not tried.
func askFor(ctx context.Context, env *probe.Env, names ...string) []verdict.Step {
	for _, host := range names {
		name := "ask for " + host
		if host == "" || env.Site.ClusterDNS == "" {
			return []verdict.Step{probe.NoSite(name, "host or resolver for it")}
		}
		a, err := probe.AskDNS(ctx, "udp", env.Site.ClusterDNS, host, probe.TypeA)
		if err != nil {
			return []verdict.Step{probe.Failed(name, verdict.Unknown, "%v", err)}
		}
		if len(a.Addrs) == 0 {
			return []verdict.Step{probe.Failed(name, verdict.Unknown, "%s answered with code %d and no address", env.Site.ClusterDNS, a.RCode)}
		}
	}
	return nil
}

// reachHost connects by TLS, with the host's name in the handshake.
func reachHost(ctx context.Context, env *probe.Env, name, addr, host string) verdict.Step {
	return probe.ReachTLS(ctx, env, name, addr, bare(host))
}

// bare is a name as TLS and HTTP have it, without the dot at its end.
func bare(host string) string { return strings.TrimSuffix(host, ".") }

// unlistedHost accepts Dropped alone: the hosts are there, as a Pod without a
// policy shows. The names were asked for before, so that an enforcer which takes
// every name it sees for an allowed one has seen these.
func unlistedHost() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.unlisted-host",
		Title: "Reach a host that is not on the allow-list",
		About: "Asks the cluster's DNS for hosts that are on no list, an attacker's and one whose name begins like an allowed one, and connects to their addresses on port 443. " +
			"That it gets an answer for the name is as the text says; that it gets to the address is not.",
		Claims: []string{"KG-05"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1048.002", "T1567"},
		Refs:       []string{"https://cloud.google.com/kubernetes-engine/docs/how-to/fqdn-network-policies"},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			names := []string{env.Site.AllowedHost}
			var acts []func() verdict.Step
			for _, host := range env.Site.Unlisted {
				names = append(names, host.Name)
				acts = append(acts, func() verdict.Step {
					return reachHost(ctx, env, "connect to "+bare(host.Name), host.Address, host.Name)
				})
			}
			if len(acts) == 0 {
				return []verdict.Step{probe.NoSite("connect", "host that is on no list")}
			}
			if failed := askFor(ctx, env, names...); failed != nil {
				return failed
			}
			return probe.Together(acts...)
		},
		Control:   suite.ControlSpec{Why: "a Pod without a policy is told the same addresses and reaches them"},
		Accept:    dropped,
		Witnesses: suite.NothingOut(unlisted),
		Attempts:  2,
		Mutants:   []string{"kode-gopher-shared-allow-list-wildcard", "kode-gopher-shared-network-open"},
	}
}

func unlisted(s probe.Site) []string {
	var out []string
	for _, host := range s.Unlisted {
		out = append(out, host.Address)
	}
	return out
}

// otherPort accepts Dropped alone. The address is that of an allowed host and
// was opened for port 443 by the question before.
func otherPort() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.other-port",
		Title: "Reach an allowed host at another port",
		About: "Asks for an allowed host, and connects to its address on other ports than 443, and on port 443 by QUIC. An allow-list without ports, or without a protocol, " +
			"opens the whole machine; and what hides behind one address at another port may be anybody's.",
		Claims: []string{"KG-05"}, Kind: suite.Guarantee, Severity: suite.Medium,
		Techniques: []string{"T1571", "T1048"},
		Refs:       []string{"https://cloud.google.com/kubernetes-engine/docs/how-to/fqdn-network-policies"},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			if failed := askFor(ctx, env, env.Site.AllowedHost); failed != nil {
				return failed
			}
			return append(probe.ReachAllTCP(ctx, env, otherPorts(env.Site)), probe.Together(func() verdict.Step {
				return probe.ReachUDP(ctx, env, "open QUIC to "+env.Site.FrontEnd, env.Site.FrontEnd, probe.QUICInitial(env))
			})...)
		},
		Control:   suite.ControlSpec{Why: "a Pod without a policy is answered at each port, over TCP and UDP"},
		Accept:    dropped,
		Witnesses: suite.NothingOut(func(s probe.Site) []string { return append(otherPorts(s), quic(s)) }),
		Attempts:  2,
		Mutants:   []string{"kode-gopher-shared-allow-list-any-port", "kode-gopher-shared-network-open"},
	}
}

// otherPorts are the front end's: plain HTTP, another web port, and mail.
func otherPorts(s probe.Site) []string {
	host, _, err := net.SplitHostPort(s.FrontEnd)
	if err != nil {
		return nil
	}
	var out []string
	for _, port := range []string{"80", "8443", "25"} {
		out = append(out, net.JoinHostPort(host, port))
	}
	return out
}

func quic(s probe.Site) string {
	if s.FrontEnd == "" {
		return ""
	}
	return s.FrontEnd + "/udp"
}
