// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
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

// cluster is a site that has everything.
var cluster = probe.Site{
	PublicTCP: "203.0.113.7:8080", PublicTLS: "8.8.8.8:443", PublicUDP: "198.51.100.9:4500", PublicTCP6: "[2001:db8::7]:443",
	PublicDNS: "8.8.8.8:53", PublicICMP: "203.0.113.7", Metadata: "169.254.169.254:80", MetadataAlso: []string{"169.254.169.252:988"}, LinkLocalDNS: []string{"169.254.20.10:53"}, Tunnel: "tunnel.test.",
	ClusterDNS: "10.96.0.10:53", APIServer: "10.96.0.1:443", APIDirect: "172.30.0.3:6443", NodeIP: "172.30.0.2", Kubelet: "172.30.0.2:10250",
	RFC1918: []string{"10.99.0.7:8080"}, Sibling: "10.244.1.4", ListenPort: 47321,
}

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// sent is a flow of the sandbox to a place, as [suite.Flow] spells it.
func sent(t *testing.T, place string, through bool) witness.Flow {
	t.Helper()
	addr, proto, named := strings.Cut(place, "/")
	if !named {
		proto = "tcp"
	}
	addr = strings.Replace(addr, "*", "192.0.2.9", 1)
	host, port, err := net.SplitHostPort(addr)
	l4 := fmt.Sprintf(`%q:{"destination_port":%s}`, strings.ToUpper(proto), port)
	if proto == "icmp" {
		host, l4 = addr, `"ICMPv4":{"type":8}`
	} else {
		require.NoError(t, err, place)
		_, err = strconv.Atoi(port)
		require.NoError(t, err, place)
	}
	what := `"verdict":"DROPPED","drop_reason_desc":"POLICY_DENIED"`
	if through {
		what = `"verdict":"FORWARDED","trace_observation_point":"TO_STACK"`
	}
	flows, strange, err := witness.ParseFlows(strings.NewReader(fmt.Sprintf(
		`{"flow":{"time":%q,%s,"IP":{"source":"10.244.1.9","destination":%q},"l4":{%s}}}`, now.Format(time.RFC3339), what, host, l4)))
	require.NoError(t, err)
	require.Zero(t, strange)
	return flows[0]
}

// liar is a probe that says dropped of everything, and puts no nonce into what
// it sends: the range sees nothing of it.
func liar(t *testing.T, s suite.Scenario, flows ...witness.Flow) verdict.Result {
	t.Helper()
	lie := verdict.Attempt{Nonce: "a", Complete: true, Steps: []verdict.Step{{Name: "connect", Class: verdict.Dropped}}, Start: now, End: now}
	if s.Kind == suite.Limit {
		lie.Steps = append(lie.Steps, verdict.Step{Name: "send", Expect: verdict.Disclosed, OK: true})
	}
	honest := verdict.Attempt{Nonce: "c", Complete: true, Steps: []verdict.Step{{Name: "connect", OK: true}}, Start: now, End: now}
	e := verdict.Evidence{Accept: s.Accept, Attempts: []verdict.Attempt{lie, lie}, MinAttempts: 2, Controls: []verdict.Attempt{honest}}
	control := sent(t, "192.0.2.1:80", true)
	control.Source = netip.MustParseAddr("10.244.1.2")
	for _, w := range s.Witnesses {
		st := verdict.Statement{Witness: w.Name, Live: true, Agrees: true}
		if w.Flow != nil {
			var to [][]string
			for _, p := range w.Flow.To(cluster) {
				to = append(to, []string{p})
			}
			st = witness.JudgeFlows(append(flows, control), witness.FlowQuery{
				From: []string{"10.244.1.9"}, Control: []string{"10.244.1.2"}, To: to, Begin: now, Until: now})
		}
		e.Require, e.Statements = append(e.Require, w.Name), append(e.Statements, st)
	}
	return verdict.Decide(e)
}

func TestAProbeThatSendsNothingWasDeniedNothing(t *testing.T) {
	for _, s := range Scenarios() {
		r := liar(t, s)
		assert.Equal(t, verdict.Inconclusive, r.Verdict(), "%s: %s", s.ID, r.Detail())
	}
}

func TestAProbeThatLeavesOutOneDestinationIsNotBelieved(t *testing.T) {
	for _, s := range Scenarios() {
		w := s.Witnesses[len(s.Witnesses)-1]
		require.NotNil(t, w.Flow, s.ID)
		places := w.Flow.To(cluster)
		require.NotEmpty(t, places, s.ID)
		var all []witness.Flow
		for _, p := range places {
			all = append(all, sent(t, p, false))
		}
		r := liar(t, s, all...)
		assert.Equal(t, verdict.Held, r.Verdict(), "%s, all of it dropped: %s", s.ID, r.Detail())
		for i, p := range places {
			if strings.HasPrefix(p, "*") || (s.ID == "egress.dns-tunnel") {
				continue // one packet is of two places there
			}
			left := append(append([]witness.Flow{}, all[:i]...), all[i+1:]...)
			assert.Equal(t, verdict.Inconclusive, liar(t, s, left...).Verdict(), "%s without %s", s.ID, p)
			assert.Equal(t, verdict.Breached, liar(t, s, append(left, sent(t, p, true))...).Verdict(), "%s, out to %s", s.ID, p)
			assert.Equal(t, verdict.Breached, liar(t, s, append(slices.Clip(all), sent(t, p, true))...).Verdict(), "%s, also out to %s", s.ID, p)
		}
	}
}

// One SYN for the flow log where the policy drops it, and the data without a
// nonce where it does not.
func TestADropAtOnePlaceHidesNoHoleAtAnother(t *testing.T) {
	for name, c := range map[string]struct {
		s         suite.Scenario
		drop, out string
	}{
		"another port":           {tcpPublic(), "203.0.113.7:8080", "203.0.113.7:443"},
		"another protocol":       {dnsForeignResolver(), "8.8.8.8:53", "8.8.8.8:53/udp"},
		"QUIC":                   {udpPublic(), "198.51.100.9:4500/udp", "198.51.100.9:443/udp"},
		"DNS over TLS":           {dnsForeignResolver(), "8.8.8.8:53/udp", "8.8.8.8:853"},
		"a resolver of its own":  {dnsTunnel(), "10.96.0.10:53/udp", "1.1.1.1:53/udp"},
		"a port of the node":     {kubelet(), "172.30.0.2:10250", "172.30.0.2:10255"},
		"an echo request":        {icmp(), "203.0.113.7/icmp", "203.0.113.7/icmp"},
		"a private datagram":     {defaultPolicyPrivate(), "10.99.0.7:8080", "10.99.0.7:8080/udp"},
		"the resolver over TCP":  {defaultPolicyPublic(), "10.96.0.10:53/udp", "10.96.0.10:53"},
		"behind the metadata":    {defaultPolicyPrivate(), "169.254.169.254:80", "169.254.169.252:988"},
		"a cache of the node":    {defaultPolicyPrivate(), "169.254.169.254:80", "169.254.20.10:53/udp"},
		"the cluster's own name": {clusterDNS(), "10.96.0.10:53", "10.96.0.10:53/udp"},
	} {
		t.Run(name, func(t *testing.T) {
			r := liar(t, c.s, sent(t, c.drop, false), sent(t, c.out, true))
			assert.Equal(t, verdict.Breached, r.Verdict(), r.Detail())
			assert.Contains(t, r.Detail(), "flows")
			if c.drop != c.out {
				r = liar(t, c.s, sent(t, c.drop, false))
				assert.Equal(t, verdict.Inconclusive, r.Verdict(), r.Detail())
			}
		})
	}
}
