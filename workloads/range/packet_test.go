// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func ip4(proto byte, payload []byte) []byte {
	b := make([]byte, 20, 20+len(payload))
	b[0], b[9] = 0x45, proto
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(payload)))
	copy(b[12:], []byte{172, 18, 0, 2})
	copy(b[16:], []byte{203, 0, 113, 7})
	return append(b, payload...)
}

func ip6(next byte, payload []byte) []byte {
	b := make([]byte, 40, 40+len(payload))
	b[0], b[6] = 0x60, next
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	src, dst := netip.MustParseAddr("fd00::2").As16(), netip.MustParseAddr("2001:db8::7").As16()
	copy(b[8:], src[:])
	copy(b[24:], dst[:])
	return append(b, payload...)
}

func tcpHeader(flags byte) []byte {
	b := make([]byte, 20)
	binary.BigEndian.PutUint16(b, 40000)
	binary.BigEndian.PutUint16(b[2:], 443)
	b[12], b[13] = 0x50, flags
	return b
}

func TestPacketsAreDescribed(t *testing.T) {
	echo := append([]byte{8, 0, 0, 0, 0, 1, 0, 1}, testNonce...)
	echo6 := append([]byte{128, 0, 0, 0, 0, 1, 0, 1}, testNonce...)
	ext := append([]byte{protoICMPv6, 0, 0, 0, 0, 0, 0, 0}, echo6...)
	for name, tc := range map[string]struct {
		packet              []byte
		proto, service, dst string
		nonce, skip         bool
	}{
		"echo":                     {ip4(protoICMP, echo), "icmp", "icmp", "203.0.113.7", true, false},
		"echo with padding":        {append(ip4(protoICMP, echo), 0, 0), "icmp", "icmp", "203.0.113.7", true, false},
		"echo over IPv6":           {ip6(protoICMPv6, echo6), "icmp6", "icmp", "2001:db8::7", true, false},
		"echo behind an extension": {ip6(protoDstOpts, ext), "icmp6", "icmp", "2001:db8::7", true, false},
		"SCTP":                     {ip4(132, []byte(testNonce)), "ip/132", "ip", "203.0.113.7", true, false},
		"GRE over IPv6":            {ip6(47, []byte(testNonce)), "ip/47", "ip", "2001:db8::7", true, false},
		"a SYN":                    {ip4(protoTCP, tcpHeader(tcpSYN)), "tcp", "syn", "203.0.113.7:443", false, false},
		"a SYN with data":          {ip4(protoTCP, append(tcpHeader(tcpSYN), testNonce...)), "tcp", "syn", "203.0.113.7:443", true, false},
		"a SYN over IPv6":          {ip6(protoTCP, tcpHeader(tcpSYN)), "tcp", "syn", "[2001:db8::7]:443", false, false},
		"a SYN-ACK":                {ip4(protoTCP, tcpHeader(tcpSYN|tcpACK)), "", "", "", false, true},
		"UDP":                      {ip4(protoUDP, []byte(testNonce)), "", "", "", false, true},
		"neighbour discovery":      {ip6(protoICMPv6, []byte{135, 0, 0, 0, 0, 0, 0, 0}), "", "", "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := parsePacket(tc.packet)
			require.NoError(t, err)
			e, ok := p.event()
			require.Equal(t, !tc.skip, ok)
			if ok {
				assert.Equal(t, []string{tc.proto, tc.service, tc.dst}, []string{e.Proto, e.Service, e.Dst})
				found, _, _ := findNonces(p.payload)
				assert.Equal(t, tc.nonce, len(found) == 1)
			}
		})
	}
}

func TestALaterFragmentHasNoHeaderToRead(t *testing.T) {
	b := ip4(protoTCP, append(tcpHeader(tcpSYN), testNonce...))
	b[7] = 3 // offset
	p, err := parsePacket(b)
	require.NoError(t, err)
	e, ok := p.event()
	require.True(t, ok)
	assert.Equal(t, "fragment", e.Name)
	found, _, _ := findNonces(p.payload)
	assert.Equal(t, []string{testNonce}, found)
	assert.Equal(t, "203.0.113.7", e.Dst)
}

func TestEchoRepliesCarryAValidChecksum(t *testing.T) {
	for _, size := range []int{8, 9, 64} {
		msg := make([]byte, size)
		msg[0], msg[7] = icmpEcho, 9
		p, err := parsePacket(ip4(protoICMP, msg))
		require.NoError(t, err)
		out := p.echoReply()
		require.Len(t, out, size)
		assert.Zero(t, out[0])
		assert.Zero(t, checksum(out))
	}
	p, err := parsePacket(ip4(protoICMP, make([]byte, 8)))
	require.NoError(t, err)
	assert.Nil(t, p.echoReply(), "a reply is not answered")
}

func TestCutPacketsAreRefused(t *testing.T) {
	for _, b := range [][]byte{nil, {0x45}, make([]byte, 20), ip6(6, nil)[:39], append([]byte{0x4f}, make([]byte, 25)...)} {
		_, err := parsePacket(b)
		assert.Error(t, err)
	}
}

func FuzzPacket(f *testing.F) {
	f.Add(ip4(protoICMP, []byte{8, 0, 0, 0, 0, 0, 0, 0}))
	f.Add(ip4(protoTCP, tcpHeader(tcpSYN)))
	f.Add(ip6(protoHopOpts, []byte{protoFragment, 0, 0, 0, 0, 0, 0, 0, protoTCP, 0, 0, 0, 0, 0, 0, 0}))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parsePacket(data)
		if err != nil {
			return
		}
		if e, ok := p.event(); ok && (e.Service == "" || e.Dst == "") {
			t.Fatalf("an event without a service: %+v", e)
		}
		p.echoReply()
	})
}
