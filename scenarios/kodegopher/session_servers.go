// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"context"
	"slices"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// inFront completes an attack on the target's own servers, which a policy of
// their namespace keeps from strangers. Only Dropped is accepted: somebody
// listens at each of the places, so that a refusal would be another's. The
// policies look at what comes in, so that the drop is seen on the servers' nodes,
// wherever those are.
func inFront(s suite.Scenario) suite.Scenario {
	s.Claims, s.Kind, s.Severity = []string{"KG-16"}, suite.Guarantee, suite.High
	s.Techniques = []string{"T1046", "T1210"}
	s.Refs = []string{"https://kubernetes.io/docs/concepts/services-networking/network-policies/#default-deny-all-ingress-traffic"}
	s.Accept, s.Attempts = dropped, 2
	return s
}

func serverFromStranger() suite.Scenario {
	return inFront(suite.Scenario{
		ID:    "kode-gopher.server-from-stranger",
		Title: "Reach the server and what is behind it from any Pod",
		About: "From a Pod that no policy holds back, in a namespace without the label for clients, connects to the server, to the sandbox router, and to both ports of the metadata " +
			"server. Whoever reaches the router chooses a sandbox by a header; whoever reaches the port where runs begin gives itself an identity.",
		From: suite.Control,
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			return probe.ReachAllTCP(ctx, env, allServers(env.Site))
		},
		Control: suite.ControlSpec{At: suite.ClientPod, Act: callServer,
			Why: "a Pod of a namespace with the label for clients is answered by the server in the same window"},
		Witnesses: []suite.Witness{atServers(allServers)},
		Mutants:   []string{"kode-gopher-shared-server-open", "kode-gopher-shared-router-open", "kode-gopher-shared-metadata-open"},
	})
}

func innerFromClient() suite.Scenario {
	return inFront(suite.Scenario{
		ID:    "kode-gopher.router-from-client",
		Title: "Get around the server to the sandbox router",
		About: "From a Pod whose namespace has the label for clients, which may call the server, connects to what only the server may call: the sandbox router, where a header chooses a " +
			"session's sandbox, and the metadata server.",
		From: suite.ClientPod,
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			return probe.ReachAllTCP(ctx, env, env.Site.Inner)
		},
		Control: suite.ControlSpec{At: suite.Router, Act: callInner,
			Why: "a Pod that the policies take for the server is let in, to one of the places at least"},
		Witnesses: []suite.Witness{atServers(func(s probe.Site) []string { return s.Inner })},
		Mutants:   []string{"kode-gopher-shared-router-open", "kode-gopher-shared-metadata-open"},
	})
}

// allServers are all of the target's own.
func allServers(s probe.Site) []string {
	if s.Server == "" {
		return nil
	}
	return append([]string{s.Server}, s.Inner...)
}

// atServers demands a policy's drop on the way to each of the places.
func atServers(to func(probe.Site) []string) suite.Witness {
	w := suite.PolicyDrop(to)
	w.Flow.Servers = true
	return w
}

// callServer asks the server how it is, as a client of it might.
func callServer(ctx context.Context, env *probe.Env) []verdict.Step {
	return probe.Together(func() verdict.Step { return probe.AskServer(ctx, "call the server", env.Site.Server) })
}

// callInner connects to what is behind the server. Not every place of it is open
// to the server: a metadata server's port for sandboxes is not.
func callInner(ctx context.Context, env *probe.Env) []verdict.Step {
	steps := probe.ReachAllTCP(ctx, env, env.Site.Inner)
	if open := slices.IndexFunc(steps, func(s verdict.Step) bool { return s.OK }); open >= 0 {
		return steps[open : open+1]
	}
	return steps
}
