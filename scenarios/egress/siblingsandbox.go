// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"net"
	"strconv"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// siblingSandbox is ingress.sibling-session seen from the attacker. Only Dropped
// is accepted: somebody listens there, so that a refusal would be a lie, and a
// reset the work of something in between. Two controls stand in the way, this
// sandbox's egress and the sibling's ingress, which are one policy object; so
// only a mutant without that object gets through.
func siblingSandbox() suite.Scenario {
	return suite.Scenario{
		ID:    "egress.sibling-sandbox",
		Title: "Reach another session's sandbox",
		About: "Connects to a listener in a second sandbox of the same template. " +
			"The router reaches the same listener in the same window, so that it is there to be reached.",
		Claims: []string{"AS-04", "AS-06"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1021", "T1046"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/services-networking/network-policies/#the-two-sorts-of-pod-isolation"},
		Attack:     reachSibling,
		Control:    suite.ControlSpec{At: suite.Router, Why: "the router, whom the sibling's policy lets in, reaches the listener"},
		Accept:     dropped,
		Witnesses:  []suite.Witness{suite.PolicyDrop(sibling)},
		Attempts:   2,
		Listener:   true,
		Mutants:    []string{"network-unmanaged"},
	}
}

func sibling(s probe.Site) []string {
	if s.Sibling == "" || s.ListenPort == 0 {
		return nil
	}
	return []string{net.JoinHostPort(s.Sibling, strconv.Itoa(s.ListenPort))}
}

func reachSibling(ctx context.Context, env *probe.Env) []verdict.Step {
	return probe.Together(func() verdict.Step {
		return probe.ReachListener(ctx, env, "connect to the sibling", env.Site.Sibling, env.Site.ListenPort)
	})
}
