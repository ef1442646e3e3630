// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/workloads/range/rangeclient"
	"github.com/stockade-dev/stockade/workloads/range/world"
)

func ask(t *testing.T, s *services, name string, kind uint16, change ...func(*dns.Msg)) *dns.Msg {
	t.Helper()
	q := new(dns.Msg)
	q.SetQuestion(name, kind)
	for _, c := range change {
		c(q)
	}
	raw, err := q.Pack()
	require.NoError(t, err)
	out := s.answerUDP(raw, netip.MustParseAddrPort("172.18.0.2:5000"), netip.MustParseAddrPort(world.PublicDNS))
	require.NotNil(t, out)
	a := new(dns.Msg)
	require.NoError(t, a.Unpack(out))
	assert.Equal(t, q.Id, a.Id)
	return a
}

func TestNamesResolve(t *testing.T) {
	s := newTestServices(t)
	a := ask(t, s, "Storage.GoogleAPIs.com.", dns.TypeA)
	require.Len(t, a.Answer, 2)
	assert.Equal(t, "Storage.GoogleAPIs.com.", a.Answer[0].Header().Name, "the case is the asker's")
	assert.Equal(t, a.Answer[0].(*dns.A).A.String(), world.SharedFrontEnd()[0].String())
	assert.Equal(t, "169.254.169.254", ask(t, s, "metadata.google.internal.", dns.TypeA).Answer[0].(*dns.A).A.String())
	assert.Equal(t, "fd20:ce::254", ask(t, s, "metadata.google.internal.", dns.TypeAAAA).Answer[0].(*dns.AAAA).AAAA.String())
	assert.Len(t, ask(t, s, "7.113.0.203.in-addr.arpa.", dns.TypePTR).Answer, 1)
}

func TestNoNameAndNoDataAreAnsweredWithAnSOA(t *testing.T) {
	s := newTestServices(t)
	none := ask(t, s, "kubernetes.default.svc.cluster.local.", dns.TypeA)
	assert.Equal(t, dns.RcodeNameError, none.Rcode)
	assert.Len(t, none.Ns, 1)
	empty := ask(t, s, "example.org.", dns.TypeMX)
	assert.Equal(t, dns.RcodeSuccess, empty.Rcode)
	assert.Len(t, empty.Ns, 1)
	assert.Equal(t, dns.RcodeRefused, ask(t, s, "example.org.", dns.TypeAXFR).Rcode)
	assert.Equal(t, dns.RcodeNotImplemented, ask(t, s, "example.org.", dns.TypeSOA, func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }).Rcode)
}

func TestEveryQuestionIsLoggedEvenForNamesThatDoNotExist(t *testing.T) {
	s := newTestServices(t)
	ask(t, s, testNonce+".", dns.TypeA)
	e := only(t, s, "dns")
	assert.Equal(t, []string{testNonce}, e.Nonces)
	assert.Equal(t, "A", e.Path)
	assert.Equal(t, world.PublicDNS, e.Dst)
}

func TestANonceInAnEDNSOptionIsSeen(t *testing.T) {
	s := newTestServices(t)
	ask(t, s, "example.org.", dns.TypeA, func(m *dns.Msg) {
		m.SetEdns0(4096, false)
		m.IsEdns0().Option = append(m.IsEdns0().Option, &dns.EDNS0_LOCAL{Code: 65001, Data: []byte(testNonce)})
	})
	assert.Len(t, s.log.query(0, testNonce, 10), 1)
}

func TestAnswersOverUDPFitTheAskersBuffer(t *testing.T) {
	s := newTestServices(t)
	s.zone.Extra = map[string][]netip.Addr{}
	for i := range 200 {
		s.zone.Extra["many.test"] = append(s.zone.Extra["many.test"], netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}))
	}
	q := new(dns.Msg)
	q.SetQuestion("many.test.", dns.TypeA)
	raw, err := q.Pack()
	require.NoError(t, err)
	out := s.answerUDP(raw, netip.AddrPort{}, netip.MustParseAddrPort(world.PublicDNS))
	assert.LessOrEqual(t, len(out), dns.MinMsgSize)
	a := new(dns.Msg)
	require.NoError(t, a.Unpack(out))
	assert.True(t, a.Truncated)
}

func TestWhatIsNoQueryIsLoggedAndNotAnswered(t *testing.T) {
	s := newTestServices(t)
	dst := netip.MustParseAddrPort(world.PublicDNS)
	assert.Nil(t, s.answerUDP([]byte("not dns "+testNonce), netip.AddrPort{}, dst))
	r := new(dns.Msg)
	r.SetQuestion("a.b.", dns.TypeA)
	r.Response = true
	raw, err := r.Pack()
	require.NoError(t, err)
	assert.Nil(t, s.answerUDP(raw, netip.AddrPort{}, dst), "answering answers would loop")
	assert.Len(t, s.log.query(0, "", 10), 2)
	assert.Len(t, s.log.query(0, testNonce, 10), 1)
}

func TestUDPIsAnsweredWithItsNonce(t *testing.T) {
	s := newTestServices(t)
	dst := netip.MustParseAddrPort(world.PublicUDP)
	assert.Equal(t, marker(testNonce), string(s.answerUDP([]byte(testNonce), netip.AddrPort{}, dst)))
	assert.Equal(t, marker(""), string(s.answerUDP(nil, netip.AddrPort{}, dst)))
}

func FuzzAnswerDNS(f *testing.F) {
	q := new(dns.Msg)
	q.SetQuestion(testNonce+".tunnel.stockade.test.", dns.TypeANY)
	q.SetEdns0(1, true)
	raw, err := q.Pack()
	require.NoError(f, err)
	f.Add(raw)
	f.Add([]byte(strings.Repeat("\xc0\x0c", 40)))
	s := newTestServices(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if out := s.answerDNS(data, rangeclient.Event{Service: "dns"}, 4096); len(out) > 4096 {
			t.Fatalf("%d bytes are answered", len(out))
		}
	})
}
