// SPDX-License-Identifier: Apache-2.0

//go:build linux

package uplink

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
)

func v4(src, dst string, payload string) []byte {
	b := make([]byte, 20, 20+len(payload))
	b[0] = 0x45
	s, d := netip.MustParseAddr(src).As4(), netip.MustParseAddr(dst).As4()
	copy(b[12:], s[:])
	copy(b[16:], d[:])
	return append(b, payload...)
}

func packet(b []byte) Packet {
	p := Packet{Payload: b}
	p.Src, p.Dst = addresses(b)
	return p
}

func TestAPacketOfTheRunIsRecognised(t *testing.T) {
	r := Rules{
		Prefixes: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8::/32")},
		Marks:    [][]byte{[]byte("c0ffee"), nil},
	}
	v6 := make([]byte, 40)
	v6[0] = 0x60
	copy(v6[24:], netip.MustParseAddr("2001:db8::7").AsSlice())
	for name, c := range map[string]struct {
		p   Packet
		hit bool
	}{
		"to the range":             {packet(v4("192.0.2.1", "203.0.113.7", "")), true},
		"from the range":           {packet(v4("203.0.113.7", "192.0.2.1", "")), true},
		"to the range over IPv6":   {packet(v6), true},
		"with a nonce":             {packet(v4("192.0.2.1", "192.0.2.2", "xx c0ffee xx")), true},
		"a nonce in no IP packet":  {packet([]byte("\x00\x01 c0ffee")), true},
		"somebody else's":          {packet(v4("192.0.2.1", "192.0.2.2", "hello")), false},
		"a truncated IPv4 header":  {packet([]byte{0x45, 0}), false},
		"a truncated IPv6 header":  {packet([]byte{0x60, 0}), false},
		"an empty one":             {packet(nil), false},
		"an empty mark is no mark": {packet(v4("192.0.2.1", "192.0.2.2", "")), false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.hit, r.Match(c.p) != "", r.Match(c.p))
		})
	}
}

func FuzzAddressesReadAnything(f *testing.F) {
	f.Add(v4("192.0.2.1", "203.0.113.7", "x"))
	f.Add([]byte{0x60})
	f.Fuzz(func(t *testing.T, b []byte) {
		src, dst := addresses(b)
		assert.Equal(t, src.IsValid(), dst.IsValid())
	})
}
