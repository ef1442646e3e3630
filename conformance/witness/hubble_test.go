// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	dropLine = `{"flow":{"time":"2026-11-29T16:30:00.5Z","verdict":"DROPPED","drop_reason":133,"IP":{"source":"10.244.1.9","destination":"203.0.113.7","ipVersion":"IPv4"},"l4":{"TCP":{"source_port":40000,"destination_port":8080,"flags":{"SYN":true}}},"source":{"namespace":"sandboxes","labels":["k8s:a=b"]},"Type":"L3_L4","drop_reason_desc":"POLICY_DENIED"},"node_name":"w","time":"2026-11-29T16:30:00.5Z"}`
	passLine = `{"flow":{"time":"2026-11-29T16:30:00.4Z","verdict":"FORWARDED","IP":{"source":"10.244.1.2","destination":"203.0.113.7"},"l4":{"TCP":{"destination_port":8080}}},"time":"2026-11-29T16:30:00.4Z"}`
)

func flows(t *testing.T, lines ...string) []Flow {
	t.Helper()
	out, strange, err := ParseFlows(strings.NewReader(strings.Join(lines, "\n")))
	require.NoError(t, err)
	require.Zero(t, strange)
	return out
}

func query(to ...string) FlowQuery {
	at := time.Date(2026, 11, 29, 16, 30, 0, 0, time.UTC)
	return FlowQuery{From: []string{"10.244.1.9"}, Control: []string{"10.244.1.2"}, To: to, Begin: at, Until: at.Add(time.Second)}
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
		"one of several":           {[]string{dropLine, passLine}, query("1.1.1.1", "203.0.113.7"), true, true},
		"no control":               {[]string{dropLine}, query("203.0.113.7"), false, true},
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
