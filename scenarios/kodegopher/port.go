// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"context"
	"net"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// atPort completes an attack on the sandbox's server port, which asks for no
// password: whoever reaches it has programs built and run as the session's user.
// Three strangers try it, each of whom would be let in by a different mistake in
// the policy. Only Dropped is accepted, because the runner listens there, as the
// server's stand-in shows in the same window.
//
// The sandbox's own node is not among them: Kubernetes lets a node reach its Pods
// whatever the policy says, for the kubelet's probes.
func atPort(s suite.Scenario) suite.Scenario {
	s.Claims, s.Kind, s.Severity = []string{"KG-08"}, suite.Guarantee, suite.Critical
	s.Refs = []string{"https://kubernetes.io/docs/concepts/services-networking/network-policies/#behavior-of-to-and-from-selectors"}
	s.Attack = knock
	s.Control = suite.ControlSpec{At: suite.Router, Why: "a Pod that the policy takes for kode-gopher's server is answered by the runner at the same port"}
	s.Accept, s.Attempts = dropped, 2
	s.Witnesses = []suite.Witness{suite.PolicyDrop(ownPort)}
	s.Witnesses[0].Flow.From = s.From
	return s
}

func ownPort(s probe.Site) []string {
	if s.Own == "" {
		return nil
	}
	return []string{net.JoinHostPort(s.Own, serverPort)}
}

// portFromSibling has two controls in the way, the sibling's egress and this
// sandbox's ingress, which are one policy object; so only a mutant that opens
// both lets it through.
func portFromSibling() suite.Scenario {
	return atPort(suite.Scenario{
		ID:    "kode-gopher.port-from-sibling",
		Title: "Run a program in another session's sandbox",
		About: "From a sandbox of another session connects to this one's server port, at which a program is built and run for whoever asks. " +
			"The policy of both names the same labels, and must not take a sandbox for the server.",
		Techniques: []string{"T1021", "T1210"},
		From:       suite.Sibling,
		Mutants:    []string{"kode-gopher-network-open", "kode-gopher-shared-network-open"},
	})
}

func portFromStranger() suite.Scenario {
	return atPort(suite.Scenario{
		ID:         "kode-gopher.port-from-stranger",
		Title:      "Reach a sandbox's server port from any Pod",
		About:      "From a Pod that no policy holds back, and that has no label of kode-gopher's, connects to the sandbox's server port.",
		Techniques: []string{"T1021", "T1210"},
		From:       suite.Control,
		Mutants:    []string{"kode-gopher-network-open", "kode-gopher-shared-network-open"},
	})
}

func portFromImpostor() suite.Scenario {
	return atPort(suite.Scenario{
		ID:    "kode-gopher.port-from-impostor",
		Title: "Reach a sandbox's server port with the server's label",
		About: "From a Pod with the label of kode-gopher's server, in a namespace that anybody may have, connects to the sandbox's server port. " +
			"A selector that looks at labels alone takes the Pod for the server.",
		Techniques: []string{"T1036", "T1210"},
		From:       suite.Impostor,
		Mutants:    []string{"kode-gopher-network-open", "kode-gopher-shared-network-open", "kode-gopher-ingress-any-namespace"},
	})
}

func knock(ctx context.Context, env *probe.Env) []verdict.Step {
	return probe.Together(func() verdict.Step { return askHealth(ctx, env, serverPort) })
}

// askHealth connects to a port of the sandbox and asks the runner how it is. An
// attack has reached its aim with the connect, whoever is there; a control has
// to hear the runner.
func askHealth(ctx context.Context, env *probe.Env, port string) verdict.Step {
	const name = "connect to the sandbox's server port"
	if env.Site.Own == "" {
		return probe.NoSite(name, "address of the sandbox")
	}
	addr := net.JoinHostPort(env.Site.Own, port)
	c, err := probe.Dial(ctx, "tcp", addr)
	if err != nil {
		return probe.Denied(name, err)
	}
	defer c.Close() //nolint:errcheck // nothing is buffered
	if env.Part != probe.Control {
		return probe.Reached(name, "connected to %s", addr)
	}
	return probe.AskHealth(ctx, name, c, addr, "runner")
}
