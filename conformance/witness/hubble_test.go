// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	dropLine = `{"flow":{"time":"2026-11-29T16:30:00.5Z","verdict":"DROPPED","drop_reason":133,"IP":{"source":"10.244.1.9","destination":"203.0.113.7","ipVersion":"IPv4"},"l4":{"TCP":{"source_port":40000,"destination_port":8080,"flags":{"SYN":true}}},"source":{"namespace":"sandboxes","labels":["k8s:a=b"]},"Type":"L3_L4","drop_reason_desc":"POLICY_DENIED"},"node_name":"w","time":"2026-11-29T16:30:00.5Z"}`
	passLine = `{"flow":{"time":"2026-11-29T16:30:00.4Z","verdict":"FORWARDED","trace_observation_point":"TO_STACK","IP":{"source":"10.244.1.2","destination":"203.0.113.7"},"l4":{"TCP":{"destination_port":8080}}},"time":"2026-11-29T16:30:00.4Z"}`
)

func flows(t *testing.T, lines ...string) []Flow {
	t.Helper()
	out, strange, err := ParseFlows(strings.NewReader(strings.Join(lines, "\n")))
	require.NoError(t, err)
	require.Zero(t, strange)
	return out
}

// packet is a line about a packet of the attacker's, a drop by policy if it was
// seen nowhere else.
func packet(dest, l4, point string) string {
	what := `"verdict":"DROPPED","drop_reason_desc":"POLICY_DENIED"`
	if point != "" {
		what = `"verdict":"FORWARDED","is_reply":false,"trace_observation_point":"` + point + `"`
	}
	return `{"flow":{"time":"2026-11-29T16:30:00.6Z",` + what + `,"IP":{"source":"10.244.1.9","destination":"` + dest + `"},"l4":{` + l4 + `}}}`
}

// earlier is a packet of before the window.
var earlier = strings.Replace(packet("203.0.113.7", `"TCP":{"destination_port":8080}`, ""), "T16:30:00.6Z", "T16:29:00Z", 1)

func query(to ...string) FlowQuery {
	at := time.Date(2026, 11, 29, 16, 30, 0, 0, time.UTC)
	var each [][]string
	for _, t := range to {
		each = append(each, []string{t})
	}
	return FlowQuery{From: []string{"10.244.1.9"}, Control: []string{"10.244.1.2"}, To: each, Begin: at, Until: at.Add(time.Second)}
}

func TestAPolicyDropToTheDestinationAgrees(t *testing.T) {
	for name, c := range map[string]struct {
		lines        []string
		q            FlowQuery
		live, agrees bool
	}{
		"drop and control":         {[]string{dropLine, passLine}, query("203.0.113.7:8080"), true, true},
		"an address without port":  {[]string{dropLine, passLine}, query("203.0.113.7"), true, true},
		"another port":             {[]string{dropLine, passLine}, query("203.0.113.7:443"), true, false},
		"another destination":      {[]string{dropLine, passLine}, query("203.0.113.8"), true, false},
		"one of several":           {[]string{dropLine, passLine}, query("1.1.1.1", "203.0.113.7"), true, false},
		"another protocol":         {[]string{dropLine, passLine}, query("203.0.113.7:8080/udp"), true, false},
		"the port of any address":  {[]string{earlier, dropLine, passLine}, query("*:8080/tcp"), true, true},
		"the same, of a cut log":   {[]string{dropLine, passLine}, query("*:8080/tcp"), false, true},
		"a place that is none":     {[]string{dropLine, passLine}, query("203.0.113.7:8080", "203.0.113.7:x"), false, false},
		"no place at all":          {[]string{dropLine, passLine}, query(), false, false},
		"no control":               {[]string{dropLine}, query("203.0.113.7"), false, true},
		"a control seen nowhere":   {[]string{dropLine, strings.Replace(passLine, "TO_STACK", "", 1)}, query("203.0.113.7"), false, true},
		"before the policy only":   {[]string{dropLine, strings.Replace(passLine, "TO_STACK", "FROM_ENDPOINT", 1)}, query("203.0.113.7"), false, true},
		"the control, knocked at":  {[]string{dropLine, packet("10.244.1.2", `"TCP":{"destination_port":47321}`, "FROM_ENDPOINT")}, query("203.0.113.7"), false, true},
		"the control, answered":    {[]string{dropLine, strings.Replace(packet("10.244.1.2", `"TCP":{"destination_port":40000}`, "TO_ENDPOINT"), "10.244.1.9", "203.0.113.7", 1)}, query("203.0.113.7"), true, true},
		"no drop":                  {[]string{passLine}, query("203.0.113.7"), true, false},
		"a drop that is no policy": {[]string{strings.ReplaceAll(dropLine, "POLICY_DENIED", "UNSUPPORTED_L3_PROTOCOL"), passLine}, query("203.0.113.7"), true, false},
		"a drop of somebody else":  {[]string{strings.ReplaceAll(dropLine, "10.244.1.9", "10.244.1.8"), passLine}, query("203.0.113.7"), true, false},
		"a drop of yesterday":      {[]string{strings.ReplaceAll(dropLine, "11-29", "11-28"), passLine}, query("203.0.113.7"), true, false},
		"audited only":             {[]string{strings.ReplaceAll(dropLine, "DROPPED", "AUDIT"), passLine}, query("203.0.113.7"), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := JudgeFlows(flows(t, c.lines...), c.q)
			assert.Equal(t, c.live, s.Live, s.Detail)
			assert.Equal(t, c.agrees, s.Agrees, s.Detail)
			assert.False(t, s.Breach)
		})
	}
}

func TestEveryDestinationNeedsItsOwnDrop(t *testing.T) {
	const (
		syn  = `"TCP":{"destination_port":53}`
		ask  = `"UDP":{"destination_port":53}`
		echo = `"ICMPv4":{"type":8}`
	)
	q := query("8.8.8.8:53", "8.8.8.8:53/udp", "8.8.8.8/icmp", "[2001:db8::7]:53")
	all := []string{passLine, packet("8.8.8.8", syn, ""), packet("8.8.8.8", ask, ""), packet("8.8.8.8", echo, ""), packet("2001:db8::7", syn, "")}
	s := JudgeFlows(flows(t, all...), q)
	assert.True(t, s.Live && s.Agrees, s.Detail)
	for i := 1; i < len(all); i++ {
		left := append(append([]string{}, all[:i]...), all[i+1:]...)
		assert.False(t, JudgeFlows(flows(t, left...), q).Agrees, "without %s", all[i])
	}
	// An ICMP message that a hole for pings does not let through shows nothing of pings.
	all[3] = packet("8.8.8.8", `"ICMPv4":{"type":13}`, "")
	assert.False(t, JudgeFlows(flows(t, all...), q).Agrees)
}

// What the attacker's own Pod may send is another wall than the one of the server that it
// knocks at.
func TestADropOnTheWayOutSaysNothingOfTheWallAtTheDestination(t *testing.T) {
	q := query("203.0.113.7:8080")
	q.Inbound = true
	for direction, agrees := range map[string]bool{"INGRESS": true, "EGRESS": false, "TRAFFIC_DIRECTION_UNKNOWN": false} {
		drop := strings.Replace(dropLine, `"verdict":"DROPPED"`, `"verdict":"DROPPED","traffic_direction":"`+direction+`"`, 1)
		flows, _, err := ParseFlows(strings.NewReader(drop + "\n" + passLine))
		require.NoError(t, err)
		s := JudgeFlows(flows, q)
		assert.Equal(t, agrees, s.Agrees, direction)
		assert.False(t, s.Breach)
		assert.True(t, JudgeFlows(flows, query("203.0.113.7:8080")).Agrees, "it is no matter elsewhere")
	}
}

func TestOneOfTheAddressesBehindAServiceIsEnough(t *testing.T) {
	q := query()
	q.To = [][]string{{"10.96.0.10:53/udp", "10.244.0.8:53/udp", "10.244.0.9:53/udp"}}
	ask := `"UDP":{"destination_port":53}`
	s := JudgeFlows(flows(t, passLine, packet("10.244.0.9", ask, "")), q)
	assert.True(t, s.Agrees, s.Detail)
	assert.True(t, JudgeFlows(flows(t, passLine, packet("10.244.0.9", ask, ""), packet("10.244.0.8", ask, "TO_STACK")), q).Breach)
}

func TestAPacketThatAPolicyLetPassIsABreach(t *testing.T) {
	const tcp = `"TCP":{"destination_port":8080}`
	for name, c := range map[string]struct {
		line   string
		breach bool
	}{
		"handed to the node's stack":      {packet("203.0.113.7", tcp, "TO_STACK"), true},
		"sent to the network":             {packet("203.0.113.7", tcp, "TO_NETWORK"), true},
		"handed to the node":              {packet("203.0.113.7", tcp, "TO_HOST"), true},
		"delivered to a Pod":              {packet("203.0.113.7", tcp, "TO_ENDPOINT"), true},
		"only received from the attacker": {packet("203.0.113.7", tcp, "FROM_ENDPOINT"), false},
		"seen nowhere":                    {strings.Replace(packet("203.0.113.7", tcp, "TO_STACK"), "TO_STACK", "", 1), false},
		"a reply":                         {strings.Replace(packet("203.0.113.7", tcp, "TO_STACK"), `"is_reply":false`, `"is_reply":true`, 1), false},
		"to another port":                 {packet("203.0.113.7", `"TCP":{"destination_port":8081}`, "TO_STACK"), false},
		"by another protocol":             {packet("203.0.113.7", `"UDP":{"destination_port":8080}`, "TO_STACK"), false},
		"from somebody else":              {strings.Replace(packet("203.0.113.7", tcp, "TO_STACK"), "10.244.1.9", "10.244.1.8", 1), false},
		"of an hour later":                {strings.Replace(packet("203.0.113.7", tcp, "TO_STACK"), "T16:", "T17:", 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			// No control was seen: a breach needs none.
			s := JudgeFlows(flows(t, dropLine, c.line), query("203.0.113.7:8080"))
			assert.Equal(t, c.breach, s.Breach, s.Detail)
			assert.Equal(t, !c.breach, s.Agrees, "the drop beside it makes up for nothing")
		})
	}
}

func TestWhatIsStillToPassAPolicyHasNotGotThrough(t *testing.T) {
	q := query("203.0.113.7")
	q.Guarded = []string{"203.0.113.7"}
	const tcp = `"TCP":{"destination_port":47321}`
	assert.False(t, JudgeFlows(flows(t, packet("203.0.113.7", tcp, "TO_STACK")), q).Breach)
	assert.True(t, JudgeFlows(flows(t, packet("203.0.113.7", tcp, "TO_ENDPOINT")), q).Breach)
}

func TestAnUnknownAddressIsNoWitness(t *testing.T) {
	q := query("203.0.113.7")
	q.From = nil
	s := JudgeFlows(flows(t, dropLine, passLine), q)
	assert.False(t, s.Live && s.Agrees)
}

func TestStrangeLinesAreCountedAndEndlessOnesRefused(t *testing.T) {
	got, strange, err := ParseFlows(strings.NewReader("DROPPED\"}}\n" + dropLine + "\n{}\n{\"flow\":{\"time\":\"x\"}}\n"))
	require.NoError(t, err)
	assert.Len(t, got, 1)
	assert.Equal(t, 3, strange)
	_, _, err = ParseFlows(strings.NewReader(strings.Repeat("x", maxFlowLine+1)))
	assert.Error(t, err)
}

// A field that the export leaves out is missed by nobody: without the place of a
// packet no breach is seen, and without is_reply every answer is one.
func TestTheExportHasEveryFieldThatIsRead(t *testing.T) {
	settings, err := os.ReadFile("../../overlays/kind/cluster/cilium.yaml")
	require.NoError(t, err)
	_, mask, found := strings.Cut(string(settings), "hubble-export-fieldmask: ")
	require.True(t, found)
	mask, _, _ = strings.Cut(mask, "\n")
	field, _ := reflect.TypeFor[wire]().FieldByName("Flow")
	flow := field.Type.Elem()
	for field := range flow.Fields() {
		assert.Contains(t, strings.Split(mask, ","), field.Tag.Get("json"))
	}
}

func FuzzParseFlows(f *testing.F) {
	f.Add([]byte(dropLine + "\n" + passLine))
	f.Add([]byte(`{"flow":{"l4":{"TCP":{"destination_port":99999}}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, _, _ := ParseFlows(bytes.NewReader(b))
		for _, fl := range got {
			assert.True(t, fl.Source.IsValid() && fl.Dest.IsValid())
		}
		JudgeFlows(got, query("203.0.113.7:8080"))
	})
}
