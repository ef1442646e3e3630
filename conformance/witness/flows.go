// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// afterPolicy are the places at which a packet of a Pod is seen only once its
// egress policy let it pass. FROM_ENDPOINT is not one of them: there every
// packet is seen, also one that is dropped next.
var afterPolicy = map[string]bool{
	"TO_STACK": true, "TO_NETWORK": true, "TO_OVERLAY": true, "TO_HOST": true, "TO_CRYPTO": true, toEndpoint: true,
}

// toEndpoint is the delivery to a Pod, after that Pod's ingress policy.
const toEndpoint = "TO_ENDPOINT"

// policyReasons are the drop reasons that mean "a policy said no". All others
// (no route, no tunnel, invalid packet) are accidents, and no evidence.
var policyReasons = map[string]bool{
	"POLICY_DENIED": true, // no rule allows it
	"POLICY_DENY":   true, // a deny rule forbids it
}

// FlowQuery is what a scenario asks of the flows of a round.
type FlowQuery struct {
	// From are the addresses of the attacker's Pod, Control those of an
	// unrestricted one that was busy in the same window.
	From, Control []string
	// To are the destinations of the attack. Each is spelled as the attack
	// addresses it, and then by the addresses behind it if it is a Service: the
	// policy is asked after the translation, and the packet goes to one of them.
	// A spelling is "ip:port" (TCP), "ip:port/udp", "ip/icmp", "*:port/udp" for
	// that port of any address, or "ip" for all that is sent there.
	To [][]string
	// Guarded are the addresses of Pods with a policy of their own on what comes
	// in. A packet for one of them has got through only where it was delivered.
	Guarded []string
	// Inbound says that the wall is what the destinations' own policies say of what
	// comes in: a drop on the way out of the attacker's Pod is another's.
	Inbound      bool
	Begin, Until time.Time
}

// JudgeFlows states what the flows of a window say of an attack.
//
// The witness is live when a flow of the control Pod was seen past every policy:
// then the export works, and says at which point a packet was seen, without which
// no breach could be told.
//
// It agrees when a policy dropped a packet from the attacker to every one of the
// destinations. One destination without a drop is enough to disagree: a probe that
// sent nothing there, or nothing at all, was denied nothing.
//
// A packet that a policy let pass is a breach, whatever was dropped beside it and
// whatever is in it.
//
// A destination may be any address ("*:53/udp"). A drop at one address says nothing
// of the others there; what counts is that no packet passed. So the flows must
// reach back to the window's beginning, or whoever floods the log could have
// written over what passed.
//
// Hubble may lose events. A drop that was lost makes the statement disagree, which
// is Inconclusive and is tried again; it never makes a breach.
func JudgeFlows(flows []Flow, q FlowQuery) verdict.Statement {
	s := verdict.Statement{Witness: suite.Flows}
	w, err := q.parse()
	if err != nil {
		s.Detail = err.Error()
		return s
	}
	seen := sight{denied: make([]bool, len(w.to))}
	for _, f := range flows {
		seen.whole = seen.whole || !f.Time.After(q.Begin)
		if !f.Time.Before(q.Begin) && !f.Time.After(q.Until) {
			seen.add(f, w)
		}
	}
	s.Live = seen.control
	if seen.passed != "" {
		s.Breach, s.Detail = true, seen.passed
		return s
	}
	i := slices.Index(seen.denied, false)
	s.Agrees = i < 0
	switch {
	case !seen.whole && slices.ContainsFunc(w.to, wild):
		s.Live = false
		s.Detail = "the flows that there are do not reach back to the beginning of the window"
	case !s.Live:
		s.Detail = "no flow of the control Pod was seen past the policies in the window"
	case s.Agrees:
		s.Detail = fmt.Sprintf("a policy dropped what %s sent, to each of %d destinations", q.From[0], len(w.to))
	case seen.accident != "":
		s.Detail = fmt.Sprintf("dropped, but for %s, which is not the policy that is looked for", seen.accident)
	default:
		s.Detail = fmt.Sprintf("no policy drop from %s to %s, one of %d destinations", q.From, q.To[i][0], len(w.to))
	}
	return s
}

// wanted is a query that has been read.
type wanted struct {
	from, control, guarded []netip.Addr
	to                     [][]place
	inbound                bool
}

// parse reads a query. What cannot be read nobody would look for.
func (q FlowQuery) parse() (w wanted, err error) {
	w = wanted{from: parsed(q.From), control: parsed(q.Control), guarded: parsed(q.Guarded), inbound: q.Inbound}
	if len(w.from) == 0 {
		return w, fmt.Errorf("the attacker's address is not known: %q", q.From)
	}
	if len(w.control) == 0 {
		return w, fmt.Errorf("the control's address is not known: %q", q.Control)
	}
	w.to, err = places(q.To)
	return w, err
}

// sight is what was seen in a window.
type sight struct {
	whole    bool   // it reaches back to the beginning
	control  bool   // a flow of the control's was seen past the policies
	denied   []bool // by destination: a policy dropped a packet for it
	passed   string // the first packet of the attacker's that got through
	accident string // why one was dropped that no policy has dropped
}

func (s *sight) add(f Flow, w wanted) {
	past := f.Forwarded && afterPolicy[f.Point]
	if past && (slices.Contains(w.control, f.Source) || slices.Contains(w.control, f.Dest)) {
		s.control = true
	}
	if !slices.Contains(w.from, f.Source) {
		return
	}
	through := past && !f.Reply && (f.Point == toEndpoint || !slices.Contains(w.guarded, f.Dest))
	for i, spellings := range w.to {
		if !slices.ContainsFunc(spellings, func(p place) bool { return p.is(f) }) {
			continue
		}
		switch {
		case through && s.passed == "":
			s.passed = fmt.Sprintf("%s passed from %s to %s (%s)", f.Proto, f.Source, netip.AddrPortFrom(f.Dest, f.Port), f.Point)
		case !f.Dropped:
		case w.inbound && !f.Inbound:
			s.accident = "what the attacker's own Pod may send"
		case policyReasons[f.Reason]:
			// Other kinds of ICMP may be forbidden where the echo is not.
			s.denied[i] = s.denied[i] || f.Proto != icmp || f.Echo
		default:
			s.accident = f.Reason
		}
	}
}

// parsed returns the addresses that are some.
func parsed(all []string) []netip.Addr {
	var out []netip.Addr
	for _, s := range all {
		if a, err := netip.ParseAddr(s); err == nil {
			out = append(out, a.Unmap())
		}
	}
	return out
}

// place is one spelling of a destination.
type place struct {
	addr  netip.Addr // not valid for any address
	port  uint16     // 0 for any
	proto string     // empty for any
}

// places reads the destinations. One that cannot be read would be one that
// nobody looks for, so it is an error, and so is none at all.
func places(all [][]string) ([][]place, error) {
	if len(all) == 0 {
		return nil, fmt.Errorf("the scenario names no destination to look for")
	}
	out := make([][]place, 0, len(all))
	for _, spellings := range all {
		var one []place
		for _, s := range spellings {
			p, err := parsePlace(s)
			if err != nil {
				return nil, err
			}
			one = append(one, p)
		}
		if len(one) == 0 {
			return nil, fmt.Errorf("reading a destination: it has no address")
		}
		out = append(out, one)
	}
	return out, nil
}

func parsePlace(s string) (place, error) {
	host, proto, named := strings.Cut(s, "/")
	if named && proto != tcp && proto != udp && proto != icmp {
		return place{}, fmt.Errorf("reading the destination %q: %q is none of tcp, udp and icmp", s, proto)
	}
	if a, err := netip.ParseAddr(host); err == nil && (!named || proto == icmp) {
		return place{addr: a.Unmap(), proto: proto}, nil
	}
	if !named {
		proto = tcp
	}
	if port, wild := strings.CutPrefix(host, "*:"); wild && proto != icmp {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return place{}, fmt.Errorf("reading the destination %q: %q is no port", s, port)
		}
		return place{port: uint16(n), proto: proto}, nil
	}
	ap, err := netip.ParseAddrPort(host)
	if err != nil || ap.Port() == 0 || proto == icmp {
		return place{}, fmt.Errorf("reading the destination %q: it is no address with a port", s)
	}
	return place{addr: ap.Addr().Unmap(), port: ap.Port(), proto: proto}, nil
}

// wild tells whether a destination is any address.
func wild(spellings []place) bool {
	return slices.ContainsFunc(spellings, func(p place) bool { return !p.addr.IsValid() })
}

func (p place) is(f Flow) bool {
	return (!p.addr.IsValid() || p.addr == f.Dest) && (p.port == 0 || p.port == f.Port) && (p.proto == "" || p.proto == f.Proto)
}
