// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/stockade-dev/stockade/workloads/range/rangeclient"
)

const testNonce = "0123456789abcdef0123456789abcdef"

func TestNonceIsFound(t *testing.T) {
	for name, text := range map[string]string{
		"alone":                      testNonce,
		"between other text":         "GET /?q=" + testNonce + " HTTP/1.1",
		"in upper case":              strings.ToUpper(testNonce),
		"behind a hex letter":        "a" + testNonce,
		"before hex letters":         testNonce + "beef",
		"at the end of a hex dump":   strings.Repeat("f", 5000) + testNonce,
		"at the start of a hex dump": testNonce + strings.Repeat("0", 5000),
		"next to a second one":       strings.Repeat("5", 32) + testNonce,
	} {
		t.Run(name, func(t *testing.T) {
			got, _, _ := findNonces([]byte(text))
			assert.Contains(t, got, testNonce)
		})
	}
}

func TestNoNonceIsFoundWhereNoneIs(t *testing.T) {
	for _, text := range []string{"", testNonce[:31], testNonce[:16] + "-" + testNonce[16:], strings.Repeat("g", 64)} {
		got, _, _ := findNonces([]byte(text))
		assert.Empty(t, got, text)
	}
}

func TestNonceAcrossPiecesIsFoundOnce(t *testing.T) {
	var s scanner
	var all []string
	for _, c := range []byte("x" + testNonce + " and again " + testNonce + "\n") {
		n, _ := s.feed([]byte{c})
		all = append(all, n...)
	}
	assert.Equal(t, []string{testNonce}, all)
}

func TestCanaryAcrossPiecesIsFound(t *testing.T) {
	canary := "stockade-canary-" + testNonce
	var s scanner
	var all []string
	for _, piece := range []string{"Authorization: Bearer stockade-can", canary[12:20], canary[20:], "\r\nstockade-canary-short"} {
		_, c := s.feed([]byte(piece))
		all = append(all, c...)
	}
	// "stockade-canary-" is cut at 12: "stockade-can" + rest.
	assert.Equal(t, []string{canary}, all)
}

func TestScannerIsBoundedAndSaysSo(t *testing.T) {
	var s scanner
	for i := range 4 * maxFound {
		s.feed([]byte(strings.Repeat("0", 28) + string("0123456789abcdef"[i>>8&15]) + string("0123456789abcdef"[i>>4&15]) + string("0123456789abcdef"[i&15]) + string("0123456789abcdef"[i>>12&15]) + " "))
		s.feed([]byte(testNonce[:8] + strings.Repeat("a", 20) + string("0123456789abcdef"[i>>8&15]) + string("0123456789abcdef"[i>>4&15]) + string("0123456789abcdef"[i&15]) + "a "))
	}
	assert.True(t, s.limited)
	assert.LessOrEqual(t, len(s.seen), maxFound)
	assert.Less(t, len(s.tail), 64)
}

// manyNonces are one more than are looked for.
func manyNonces() []byte {
	var b bytes.Buffer
	for i := range maxFound + 1 {
		fmt.Fprintf(&b, "%032x ", i)
	}
	return b.Bytes()
}

func TestADatagramOfTooManyNoncesIsLost(t *testing.T) {
	s := newTestServices(t)
	lost := func() uint64 {
		var h rangeclient.Health
		s.log.state(&h)
		return h.Lost
	}
	src := netip.MustParseAddrPort("172.18.0.2:40000")
	s.answerUDP(manyNonces()[33:], src, netip.MustParseAddrPort("203.0.113.7:7"))
	assert.Zero(t, lost(), "as many as are looked for")
	for i, port := range []uint16{7, 53} {
		s.answerUDP(manyNonces(), src, netip.AddrPortFrom(netip.MustParseAddr("203.0.113.7"), port))
		assert.EqualValues(t, i+1, lost())
	}
}

func TestNonceSplitIntoLabelsIsFound(t *testing.T) {
	for _, name := range []string{
		testNonce + ".tunnel.stockade.test.",
		testNonce[:10] + "." + testNonce[10:20] + "." + testNonce[20:] + ".tunnel.stockade.test.",
		"0." + testNonce[:16] + "." + strings.ToUpper(testNonce[16:]) + ".deadbeef.test.",
	} {
		assert.Contains(t, findInName(name), testNonce, name)
	}
	assert.Empty(t, findInName("storage.googleapis.com."))
}

func FuzzScanner(f *testing.F) {
	f.Add([]byte(testNonce), 3)
	f.Add([]byte("stockade-canary-"+testNonce), 17)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		if len(data) > 4096 {
			return
		}
		var s scanner
		cut = max(0, min(cut, len(data)))
		n1, c1 := s.feed(data[:cut])
		n2, c2 := s.feed(data[cut:])
		for _, n := range append(n1, n2...) {
			if len(n) != nonceLen || !isHex(n) || !strings.Contains(strings.ToLower(string(data)), n) {
				t.Fatalf("%q is no nonce of the input", n)
			}
		}
		for _, c := range append(c1, c2...) {
			if !strings.Contains(string(data), c) {
				t.Fatalf("%q is no canary of the input", c)
			}
		}
	})
}

func FuzzFindInName(f *testing.F) {
	f.Add(testNonce[:5] + "." + testNonce[5:] + ".example.")
	f.Fuzz(func(t *testing.T, name string) {
		for _, n := range findInName(name) {
			if len(n) != nonceLen || !isHex(n) {
				t.Fatalf("%q is no nonce", n)
			}
		}
	})
}
