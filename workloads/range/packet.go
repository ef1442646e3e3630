// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strconv"

	"github.com/stockade-dev/stockade/workloads/range/rangeclient"
)

// IP protocol numbers and TCP flags that the packet reader tells apart.
const (
	protoHopOpts  = 0
	protoICMP     = 1
	protoTCP      = 6
	protoUDP      = 17
	protoRouting  = 43
	protoFragment = 44
	protoICMPv6   = 58
	protoDstOpts  = 60
	tcpSYN        = 0x02
	tcpACK        = 0x10
	icmpEcho      = 8
	// ICMPv6 types of neighbour discovery and multicast listening, which any
	// host sends all the time, to its own router.
	icmpv6FirstND, icmpv6LastND = 133, 137
	icmpv6MLD2                  = 143
	maxExtensions               = 8
)

var errPacket = errors.New("parsing a packet: it is cut short")

// packet is what matters of an IP packet.
type packet struct {
	src, dst netip.Addr
	proto    int
	fragment bool   // not the first one: payload has no transport header
	payload  []byte // from the transport header on
}

// parsePacket reads an IPv4 or IPv6 packet that an attacker has made.
func parsePacket(b []byte) (packet, error) {
	if len(b) < 20 {
		return packet{}, errPacket
	}
	switch b[0] >> 4 {
	case 4:
		head, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
		if head < 20 || len(b) < head {
			return packet{}, errPacket
		}
		if total >= head && total < len(b) {
			b = b[:total] // the rest is Ethernet padding
		}
		return packet{
			src: netip.AddrFrom4([4]byte(b[12:16])), dst: netip.AddrFrom4([4]byte(b[16:20])),
			proto: int(b[9]), fragment: binary.BigEndian.Uint16(b[6:])&0x1fff != 0, payload: b[head:],
		}, nil
	case 6:
		if len(b) < 40 {
			return packet{}, errPacket
		}
		if total := 40 + int(binary.BigEndian.Uint16(b[4:])); total < len(b) {
			b = b[:total]
		}
		p := packet{
			src: netip.AddrFrom16([16]byte(b[8:24])), dst: netip.AddrFrom16([16]byte(b[24:40])),
			proto: int(b[6]), payload: b[40:],
		}
		return p.skipExtensions(), nil
	}
	return packet{}, errors.New("parsing a packet: it is neither IPv4 nor IPv6")
}

// skipExtensions walks to the transport header. A chain that is too long or
// cut short stops the walk; its rest is then the payload, to be scanned.
func (p packet) skipExtensions() packet {
	for range maxExtensions {
		if len(p.payload) < 8 {
			return p
		}
		size := 8
		switch p.proto {
		case protoHopOpts, protoRouting, protoDstOpts:
			size += int(p.payload[1]) * 8
		case protoFragment:
			p.fragment = p.fragment || binary.BigEndian.Uint16(p.payload[2:])&0xfff8 != 0
		default:
			return p
		}
		if size > len(p.payload) {
			return p
		}
		p.proto, p.payload = int(p.payload[0]), p.payload[size:]
		if p.fragment {
			return p
		}
	}
	return p
}

// event describes a packet for the log, but for what is found in its payload;
// false means that another reader writes it down, or that it is no egress.
func (p packet) event() (rangeclient.Event, bool) {
	e := rangeclient.Event{Src: p.src.String(), Dst: p.dst.String(), Bytes: len(p.payload)}
	switch {
	case p.fragment:
		e.Service, e.Proto = "ip", "ip/"+strconv.Itoa(p.proto)
		e.Name = "fragment"
	case p.proto == protoUDP:
		return e, false
	case p.proto == protoTCP:
		if len(p.payload) < 20 || p.payload[13]&(tcpSYN|tcpACK) != tcpSYN {
			return e, false
		}
		e.Service, e.Proto = "syn", "tcp"
		e.Src = netip.AddrPortFrom(p.src, binary.BigEndian.Uint16(p.payload)).String()
		e.Dst = netip.AddrPortFrom(p.dst, binary.BigEndian.Uint16(p.payload[2:])).String()
	case p.proto == protoICMP || p.proto == protoICMPv6:
		if len(p.payload) < 8 {
			return e, false
		}
		kind := p.payload[0]
		e.Service, e.Proto = "icmp", "icmp"
		if p.proto == protoICMPv6 {
			if (kind >= icmpv6FirstND && kind <= icmpv6LastND) || kind == icmpv6MLD2 {
				return e, false
			}
			e.Proto = "icmp6"
		}
		e.Name = "type " + strconv.Itoa(int(kind))
	default:
		e.Service, e.Proto = "ip", "ip/"+strconv.Itoa(p.proto)
	}
	return e, true
}

// echoReply makes the answer to an ICMPv4 echo request. The kernel does not:
// it will not route from an address that is not in its own table (it does so
// for ICMPv6).
func (p packet) echoReply() []byte {
	if p.proto != protoICMP || p.fragment || len(p.payload) < 8 || p.payload[0] != icmpEcho {
		return nil
	}
	out := append([]byte(nil), p.payload...)
	out[0], out[2], out[3] = 0, 0, 0
	binary.BigEndian.PutUint16(out[2:], checksum(out))
	return out
}

// checksum is the internet checksum (RFC 1071).
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	if len(b)%2 == 1 {
		sum += uint32(b[len(b)-1]) << 8
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
