// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/conformance/witness"
)

// liar knocks, or does something else, and says dropped.
func liar(t *testing.T, s suite.Scenario, flows ...string) verdict.Result {
	t.Helper()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	const past = `"verdict":"FORWARDED","trace_observation_point":"TO_ENDPOINT"`
	flows = append(flows, sent("10.244.1.2", "TCP", 47321, past)) // the router's
	got, strange, err := witness.ParseFlows(strings.NewReader(strings.Join(flows, "\n")))
	require.NoError(t, err)
	require.Zero(t, strange)
	var to [][]string
	for _, place := range s.Witnesses[0].Flow.To(probe.Site{Own: "10.244.1.4", ListenPort: 47321}) {
		to = append(to, []string{place})
	}
	st := witness.JudgeFlows(got, witness.FlowQuery{From: []string{"10.244.1.9"}, Control: []string{"10.244.1.2"}, To: to,
		Guarded: []string{"10.244.1.4", "10.244.1.9"}, Begin: now, Until: now})
	lie := verdict.Attempt{Nonce: "a", Complete: true, Steps: []verdict.Step{{Name: "connect", Class: verdict.Dropped}}, Start: now, End: now}
	honest := verdict.Attempt{Nonce: "c", Complete: true, Steps: []verdict.Step{{Name: "connect", OK: true}}, Start: now, End: now}
	return verdict.Decide(verdict.Evidence{Accept: s.Accept, MinAttempts: s.Attempts, Attempts: []verdict.Attempt{lie, lie},
		Controls: []verdict.Attempt{honest}, Require: []string{suite.Flows}, Statements: []verdict.Statement{st}})
}

// sent is a flow to the sandbox.
func sent(from, proto string, port int, how string) string {
	return fmt.Sprintf(`{"flow":{"time":"2026-11-29T12:00:00Z",%s,"IP":{"source":%q,"destination":"10.244.1.4"},"l4":{%q:{"destination_port":%d}}}}`, how, from, proto, port)
}

func TestOnlyADropOfTheKnockItselfIsBelieved(t *testing.T) {
	const (
		drop      = `"verdict":"DROPPED","drop_reason_desc":"POLICY_DENIED"`
		delivered = `"verdict":"FORWARDED","trace_observation_point":"TO_ENDPOINT"`
		me        = "10.244.1.9"
	)
	for name, c := range map[string]struct {
		flows []string
		want  verdict.Verdict
	}{
		"the knock":                         {[]string{sent(me, "TCP", 47321, drop)}, verdict.Held},
		"nothing":                           {nil, verdict.Inconclusive},
		"a datagram, where TCP may pass":    {[]string{sent(me, "UDP", 47321, drop)}, verdict.Inconclusive},
		"another port":                      {[]string{sent(me, "TCP", 47322, drop)}, verdict.Inconclusive},
		"the knock, and a way to the shell": {[]string{sent(me, "TCP", 47321, drop), sent(me, "TCP", 22, delivered)}, verdict.Breached},
		"the knock, and a datagram":         {[]string{sent(me, "TCP", 47321, drop), sent(me, "UDP", 53, delivered)}, verdict.Breached},
	} {
		for _, s := range Scenarios() {
			r := liar(t, s, c.flows...)
			assert.Equal(t, c.want, r.Verdict(), "%s: %s: %s", s.ID, name, r.Detail())
		}
	}
}
