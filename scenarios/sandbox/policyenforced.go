// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// policyEnforced comes before every other network verdict in meaning, not in
// time: without an enforcer a NetworkPolicy is a text, and the runner lets none
// of them be Held where this is not. It accepts Dropped alone, because that is
// what the data plane of the reference does with a policy's denial, and it wants
// the flow's drop from the data plane itself.
func policyEnforced() suite.Scenario {
	return suite.Scenario{
		ID:    "sandbox.policy-enforced",
		Title: "Connect as if no enforcer were there",
		About: "Makes the same two connections from the sandbox and from a Pod that no policy selects: to a public address, and to " +
			"a Pod of the cluster. Both must be dropped for the one and answered for the other, in the same window.",
		Claims: []string{"AS-12", "AS-06"},
		// The claim is a function of the cluster; what is attacked is a guarantee.
		Kind:       suite.Guarantee,
		Techniques: []string{"T1048", "T1562.007"},
		Severity:   suite.Critical,
		Attack:     attackConnect,
		Control: suite.ControlSpec{
			// The control Pod is one of the destinations, and reaches itself
			// whatever the network does.
			At: suite.Router, Act: answeredThere,
			Why: "Both destinations answer another Pod that no policy selects."},
		Accept:    []verdict.Class{verdict.Dropped},
		Witnesses: suite.NothingOut(destinations),
		Attempts:  2,
		Listener:  true,
		Timeout:   15 * time.Second,
		Mutants:   []string{"network-unmanaged"},
	}
}

func destinations(s probe.Site) []string {
	to := []string{}
	if s.PublicTCP != "" {
		to = append(to, s.PublicTCP)
	}
	if s.ControlPod != "" && s.ListenPort > 0 {
		to = append(to, net.JoinHostPort(s.ControlPod, fmt.Sprint(s.ListenPort)))
	}
	return to
}

func attackConnect(ctx context.Context, env *probe.Env) []verdict.Step {
	to := destinations(env.Site)
	if len(to) == 0 {
		return []verdict.Step{{Name: "connect", Class: verdict.ToolMissing, Detail: "the site has no address to connect to"}}
	}
	steps := make([]verdict.Step, 0, len(to))
	for _, addr := range to {
		steps = append(steps, connect(ctx, addr, env.Nonce))
	}
	return steps
}

// answeredThere demands of the control that it was the listener that answered.
func answeredThere(ctx context.Context, env *probe.Env) []verdict.Step {
	return []verdict.Step{
		connect(ctx, env.Site.PublicTCP, env.Nonce),
		probe.ReachListener(ctx, env, "connect to a Pod", env.Site.ControlPod, env.Site.ListenPort),
	}
}

// connect dials, sends the nonce for the witness on the other side, and reads:
// a connection that something on the way completed has no answer.
func connect(ctx context.Context, addr, nonce string) verdict.Step {
	step := verdict.Step{Name: "connect to " + addr}
	began := time.Now()
	defer func() { step.Millis = time.Since(began).Milliseconds() }()
	c, err := (&net.Dialer{Timeout: probe.DialTimeout}).DialContext(ctx, "tcp", addr)
	if err != nil {
		step.Class, step.Detail = probe.Classify(err), err.Error()
		return step
	}
	defer c.Close() //nolint:errcheck // nothing is buffered
	_ = c.SetDeadline(time.Now().Add(probe.DialTimeout))
	_, _ = fmt.Fprintf(c, "GET /%s HTTP/1.1\r\nHost: stockade.test\r\nConnection: close\r\n\r\n", nonce)
	answer := make([]byte, 64)
	n, err := c.Read(answer)
	if n == 0 {
		step.Class, step.Detail = verdict.Unknown, fmt.Sprintf("connected, but nobody answered: %v", err)
		return step
	}
	line, _, _ := strings.Cut(string(answer[:n]), "\n")
	step.OK, step.Detail = true, "answered: "+strings.TrimSpace(line)
	return step
}
