// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

// FlowsName is the witness's name in scenarios and reports.
const FlowsName = "flows"

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
	Reason    string // drop_reason_desc, "POLICY_DENIED"
	Source    netip.Addr
	Dest      netip.Addr
	Port      uint16 // destination port, 0 for ICMP
}

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
	for _, raw := range w.Flow.L4 {
		var l4 struct {
			Port uint16 `json:"destination_port"`
		}
		if json.Unmarshal(raw, &l4) == nil && l4.Port != 0 {
			f.Port = l4.Port
		}
	}
	return f, true
}

// FlowQuery is what a scenario asks of the flows of a round.
type FlowQuery struct {
	// From are the addresses of the attacker's Pod, Control those of an
	// unrestricted one that was busy in the same window.
	From, Control []string
	// To are "ip:port" or "ip"; at least one must be seen dropped. Addresses
	// behind a Service must be given too: the policy is asked after the
	// translation.
	To           []string
	Begin, Until time.Time
}

// JudgeFlows states what the flows say. The witness lives when forwarded flows
// of the control Pod were seen in the window: the export works. It agrees when
// a policy dropped a packet from the attacker to one of the destinations.
func JudgeFlows(flows []Flow, q FlowQuery) verdict.Statement {
	s := verdict.Statement{Witness: FlowsName}
	from, control := parsed(q.From), parsed(q.Control)
	if len(from) == 0 {
		s.Detail = fmt.Sprintf("the attacker's address is not known: %q", q.From)
		return s
	}
	if len(control) == 0 {
		s.Detail = fmt.Sprintf("the control's address is not known: %q", q.Control)
		return s
	}
	other := ""
	for _, f := range flows {
		if f.Time.Before(q.Begin) || f.Time.After(q.Until) {
			continue
		}
		if f.Forwarded && (slices.Contains(control, f.Source) || slices.Contains(control, f.Dest)) {
			s.Live = true
		}
		if !f.Dropped || !slices.Contains(from, f.Source) || !matches(f, q.To) {
			continue
		}
		if policyReasons[f.Reason] {
			s.Agrees = true
			s.Detail = fmt.Sprintf("%s dropped %s to %s:%d", f.Reason, f.Source, f.Dest, f.Port)
		} else {
			other = f.Reason
		}
	}
	switch {
	case !s.Live:
		s.Detail = "no forwarded flow of the control Pod in the window"
	case !s.Agrees && other != "":
		s.Detail = fmt.Sprintf("dropped, but for %s, which is no policy", other)
	case !s.Agrees:
		s.Detail = fmt.Sprintf("no policy drop from %s to any of %d destinations", q.From, len(q.To))
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

func matches(f Flow, to []string) bool {
	for _, t := range to {
		if host, port, err := net.SplitHostPort(t); err == nil {
			a, err := netip.ParseAddr(host)
			n, perr := strconv.ParseUint(port, 10, 16)
			if err == nil && perr == nil && a.Unmap() == f.Dest && uint16(n) == f.Port {
				return true
			}
			continue
		}
		if a, err := netip.ParseAddr(t); err == nil && a.Unmap() == f.Dest {
			return true
		}
	}
	return false
}
