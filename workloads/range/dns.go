// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"net"
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"github.com/stockade-dev/stockade/workloads/range/rangeclient"
)

const (
	// ttl of every answer, in seconds: short, so that policies which follow
	// DNS have to follow.
	ttl          = 30
	maxQuestions = 4
)

// answerDNS logs each question of a message and packs the answer, cut to size
// bytes. It returns nil for what is no query. The event carries source,
// destination and protocol.
func (s *services) answerDNS(raw []byte, e rangeclient.Event, size int) []byte {
	// The raw bytes may hold more than names: EDNS options, records.
	e.Bytes = len(raw)
	nonces, canaries := s.log.find(raw)
	e.Nonces, e.Canaries = nonces, canaries
	var q dns.Msg
	if err := q.Unpack(raw); err != nil || q.Response || len(q.Question) == 0 || len(q.Question) > maxQuestions {
		e.Name = "no DNS query"
		s.log.append(e)
		return nil
	}
	for _, question := range q.Question {
		ev := e
		ev.Name = clipText(question.Name)
		ev.Path = dns.TypeToString[question.Qtype]
		ev.Nonces = merge(findInName(question.Name), nonces)
		s.log.append(ev)
	}
	a := s.resolve(&q)
	if opt := q.IsEdns0(); opt != nil {
		a.SetEdns0(1232, false)
		size = min(size, max(dns.MinMsgSize, int(opt.UDPSize())))
	} else if size != dns.MaxMsgSize {
		size = dns.MinMsgSize
	}
	a.Truncate(size)
	out, err := a.Pack()
	if err != nil {
		return nil
	}
	return out
}

// resolve answers the first question, as a resolver with recursion that is
// also every zone's own server.
func (s *services) resolve(q *dns.Msg) *dns.Msg {
	a := new(dns.Msg)
	a.SetReply(q)
	a.Authoritative, a.RecursionAvailable, a.Compress = true, true, true
	if q.Opcode != dns.OpcodeQuery {
		a.Rcode = dns.RcodeNotImplemented
		return a
	}
	question := q.Question[0]
	head := func(t uint16) dns.RR_Header {
		return dns.RR_Header{Name: question.Name, Rrtype: t, Class: dns.ClassINET, Ttl: ttl}
	}
	addrs, exists := s.zone.Resolve(question.Name)
	want := func(t uint16) bool { return question.Qtype == t || question.Qtype == dns.TypeANY }
	if question.Qtype == dns.TypePTR && strings.HasSuffix(strings.ToLower(question.Name), ".arpa.") {
		a.Answer = append(a.Answer, &dns.PTR{Hdr: head(dns.TypePTR), Ptr: "host.stockade.test."})
		return a
	}
	if question.Qtype == dns.TypeAXFR || question.Qtype == dns.TypeIXFR {
		a.Rcode = dns.RcodeRefused
		return a
	}
	if exists {
		for _, addr := range addrs {
			a.Answer = append(a.Answer, addressRecord(addr, head, want)...)
		}
		if want(dns.TypeTXT) {
			n := ""
			if found := findInName(question.Name); len(found) > 0 {
				n = found[0]
			}
			a.Answer = append(a.Answer, &dns.TXT{Hdr: head(dns.TypeTXT), Txt: []string{strings.TrimSpace(marker(n))}})
		}
		if want(dns.TypeNS) {
			a.Answer = append(a.Answer, &dns.NS{Hdr: head(dns.TypeNS), Ns: "ns.stockade.test."})
		}
	} else {
		a.Rcode = dns.RcodeNameError
	}
	if len(a.Answer) == 0 {
		// No data and no name are both cached through the SOA (RFC 2308).
		a.Ns = append(a.Ns, &dns.SOA{
			Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: ttl},
			Ns:  "ns.stockade.test.", Mbox: "hostmaster.stockade.test.", Serial: 1,
			Refresh: 3600, Retry: 600, Expire: 86400, Minttl: ttl,
		})
	}
	return a
}

func addressRecord(addr netip.Addr, head func(uint16) dns.RR_Header, want func(uint16) bool) []dns.RR {
	switch {
	case addr.Is4() && want(dns.TypeA):
		return []dns.RR{&dns.A{Hdr: head(dns.TypeA), A: net.IP(addr.AsSlice())}}
	case addr.Is6() && want(dns.TypeAAAA):
		return []dns.RR{&dns.AAAA{Hdr: head(dns.TypeAAAA), AAAA: net.IP(addr.AsSlice())}}
	}
	return nil
}

// answerUDP logs one datagram and returns what to send back.
func (s *services) answerUDP(p []byte, src, dst netip.AddrPort) []byte {
	e := rangeclient.Event{Proto: "udp", Service: "udp", Src: src.String(), Dst: dst.String()}
	if dst.Port() == 53 {
		e.Service = "dns"
		return s.answerDNS(p, e, 4096)
	}
	e.Bytes = len(p)
	var n string
	e.Nonces, e.Canaries = s.log.find(p)
	if len(e.Nonces) > 0 {
		n = e.Nonces[len(e.Nonces)-1]
	}
	s.log.append(e)
	return []byte(marker(n))
}
