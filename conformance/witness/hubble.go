// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"
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
	// Inbound is true for packets that were seen where they came in, at the Pod that
	// they are for.
	Inbound bool
	Source  netip.Addr
	Dest    netip.Addr
	Proto   string // "tcp", "udp", "icmp" (of both versions), or as Hubble says
	Port    uint16 // destination port, 0 for ICMP
	Echo    bool   // an ICMP echo request
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
		Direction      string `json:"traffic_direction"`
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
		Inbound:   w.Flow.Direction == "INGRESS",
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
