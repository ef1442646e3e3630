// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// Limits on a Hubble export. Labels and DNS names in it come from Pods.
const (
	maxFlowLine = 64 << 10
	maxFlows    = 200_000
)

// Flow is what the suite needs of one Hubble flow.
type Flow struct {
	Time    time.Time
	Dropped bool
	// Forwarded also covers flows that a proxy took over.
	Forwarded bool
	// Point is where a forwarded packet was seen, "TO_STACK"; empty for drops.
	Point string
	// Reply is true for packets of a connection that the other side began.
	Reply  bool
	Reason string // drop_reason_desc, "POLICY_DENIED"
	Source netip.Addr
	Dest   netip.Addr
	Proto  string // "tcp", "udp", "icmp" (of both versions), or as Hubble says
	Port   uint16 // destination port, 0 for ICMP
	Echo   bool   // an ICMP echo request
}

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

// wire is the shape of a line of Hubble's export (flow.proto as JSON).
type wire struct {
	Time string `json:"time"`
	Flow *struct {
		Time           string `json:"time"`
		Verdict        string `json:"verdict"`
		DropReasonDesc string `json:"drop_reason_desc"`
		Point          string `json:"trace_observation_point"`
		Reply          bool   `json:"is_reply"`
		IP             struct {
			Source      string `json:"source"`
			Destination string `json:"destination"`
		} `json:"IP"`
		L4 map[string]json.RawMessage `json:"l4"`
	} `json:"flow"`
}

// ParseFlows reads a Hubble export of JSON lines. Lines that are no flows,
// such as the first one after a cut, are counted and left out; an error means
// that reading itself failed or a bound was passed.
func ParseFlows(r io.Reader) (flows []Flow, strange int, err error) {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 4096), maxFlowLine)
	for sc.Scan() {
		if len(sc.Bytes()) == 0 {
			continue
		}
		f, ok := parseFlow(sc.Bytes())
		if !ok {
			strange++
			continue
		}
		if len(flows) >= maxFlows {
			return flows, strange, fmt.Errorf("reading flows: more than %d", maxFlows)
		}
		flows = append(flows, f)
	}
	if err := sc.Err(); err != nil {
		return flows, strange, fmt.Errorf("reading flows: %w", err)
	}
	return flows, strange, nil
}

func parseFlow(line []byte) (Flow, bool) {
	var w wire
	if err := json.Unmarshal(line, &w); err != nil || w.Flow == nil {
		return Flow{}, false
	}
	f := Flow{
		Dropped:   w.Flow.Verdict == "DROPPED",
		Forwarded: w.Flow.Verdict == "FORWARDED" || w.Flow.Verdict == "REDIRECTED",
		Reason:    w.Flow.DropReasonDesc,
		Point:     w.Flow.Point,
		Reply:     w.Flow.Reply,
	}
	var err error
	if f.Time, err = time.Parse(time.RFC3339Nano, w.Flow.Time); err != nil {
		if f.Time, err = time.Parse(time.RFC3339Nano, w.Time); err != nil {
			return Flow{}, false
		}
	}
	src, err1 := netip.ParseAddr(w.Flow.IP.Source)
	dst, err2 := netip.ParseAddr(w.Flow.IP.Destination)
	if err1 != nil || err2 != nil {
		return Flow{}, false
	}
	f.Source, f.Dest = src.Unmap(), dst.Unmap()
	for name, raw := range w.Flow.L4 { // there is one
		var l4 struct {
			Port uint16 `json:"destination_port"`
			Type uint32 `json:"type"`
		}
		if json.Unmarshal(raw, &l4) != nil {
			return Flow{}, false
		}
		f.Proto, f.Port = strings.ToLower(name), l4.Port
		switch name {
		case "ICMPv4":
			f.Proto, f.Echo = icmp, l4.Type == 8
		case "ICMPv6":
			f.Proto, f.Echo = icmp, l4.Type == 128
		}
	}
	return f, true
}

// The protocols that a destination may name.
const (
	tcp  = "tcp"
	udp  = "udp"
	icmp = "icmp"
)

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
	Guarded      []string
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
	from, control, guarded := parsed(q.From), parsed(q.Control), parsed(q.Guarded)
	if len(from) == 0 {
		s.Detail = fmt.Sprintf("the attacker's address is not known: %q", q.From)
		return s
	}
	if len(control) == 0 {
		s.Detail = fmt.Sprintf("the control's address is not known: %q", q.Control)
		return s
	}
	to, err := places(q.To)
	if err != nil {
		s.Detail = err.Error()
		return s
	}
	denied, other, whole := make([]bool, len(to)), "", false
	for _, f := range flows {
		whole = whole || !f.Time.After(q.Begin)
		if f.Time.Before(q.Begin) || f.Time.After(q.Until) {
			continue
		}
		if f.Forwarded && afterPolicy[f.Point] && (slices.Contains(control, f.Source) || slices.Contains(control, f.Dest)) {
			s.Live = true
		}
		if !slices.Contains(from, f.Source) {
			continue
		}
		through := f.Forwarded && !f.Reply && afterPolicy[f.Point] &&
			(f.Point == toEndpoint || !slices.Contains(guarded, f.Dest))
		for i, spellings := range to {
			if !slices.ContainsFunc(spellings, func(p place) bool { return p.is(f) }) {
				continue
			}
			switch {
			case through && !s.Breach:
				s.Breach = true
				s.Detail = fmt.Sprintf("%s passed from %s to %s (%s)", f.Proto, f.Source, netip.AddrPortFrom(f.Dest, f.Port), f.Point)
			case !f.Dropped:
			case policyReasons[f.Reason]:
				// Other kinds of ICMP may be forbidden where the echo is not.
				denied[i] = denied[i] || f.Proto != icmp || f.Echo
			default:
				other = f.Reason
			}
		}
	}
	if s.Breach {
		return s
	}
	i := slices.Index(denied, false)
	s.Agrees = i < 0
	switch {
	case !whole && slices.ContainsFunc(to, wild):
		s.Live = false
		s.Detail = "the flows that there are do not reach back to the beginning of the window"
	case !s.Live:
		s.Detail = "no flow of the control Pod was seen past the policies in the window"
	case s.Agrees:
		s.Detail = fmt.Sprintf("a policy dropped what %s sent, to each of %d destinations", q.From[0], len(to))
	case other != "":
		s.Detail = fmt.Sprintf("dropped, but for %s, which is no policy", other)
	default:
		s.Detail = fmt.Sprintf("no policy drop from %s to %s, one of %d destinations", q.From, q.To[i][0], len(to))
	}
	return s
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
