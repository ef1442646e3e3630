// SPDX-License-Identifier: Apache-2.0

// Package ingress knocks at the sandbox from outside. The default policy, and
// the hardened reference's own, let in Pods with the label app=sandbox-router
// of the namespace agent-sandbox-system, and nobody else.
//
// Left out, and why:
//   - A Pod with the router's label in agent-sandbox-system. It is let in, and
//     rightly: who may create Pods there runs the controller, and needs no
//     network to own every sandbox. The suite's own router Pod is such a one,
//     and serves as the positive control.
//   - The sandbox's own node. Kubernetes lets a node reach its Pods whatever
//     the policy says, for the kubelet's probes.
package ingress

import (
	"context"
	"net"
	"strconv"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// Scenarios returns the family's scenarios.
func Scenarios() []suite.Scenario {
	return []suite.Scenario{spoofedRouterLabel(), siblingSession(), defaultPolicySpoofedLabel(), defaultPolicySibling()}
}

// knock connects to the sandbox's listener.
func knock(ctx context.Context, env *probe.Env) []verdict.Step {
	return probe.Together(func() verdict.Step {
		return probe.ReachListener(ctx, env, "connect to the sandbox", env.Site.Own, env.Site.ListenPort)
	})
}

// own is where the attack knocks, and all else of the sandbox: a drop counts only of
// the one, or a sandbox that sends something else, which is dropped rightly, would be
// believed; what gets through is a breach wherever it goes.
func own(s probe.Site) []string {
	if s.Own == "" || s.ListenPort == 0 {
		return nil
	}
	return []string{net.JoinHostPort(s.Own, strconv.Itoa(s.ListenPort)), s.Own}
}
