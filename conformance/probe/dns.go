// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

// DNS record types that probes ask for.
const (
	TypeA   uint16 = 1
	TypeTXT uint16 = 16
)

// DNSAnswer is what matters of a resolver's answer.
type DNSAnswer struct {
	RCode int // 0 is success, 3 is "no such name" (RFC 1035, 4.1.1)
	Count int // records of the answer section
	Addrs []netip.Addr
}

var errDNS = errors.New("it is no DNS answer to this question")

// AskDNS asks one resolver, on its own and without any cache or search list.
// The network is "udp", "tcp", or "tls" (RFC 7858). The library's resolver is
// not used: it retries, and falls from one network to another, so that one
// could not say which door was open.
func AskDNS(ctx context.Context, network, server, name string, qtype uint16) (DNSAnswer, error) {
	var id [2]byte
	_, _ = rand.Read(id[:]) // never fails
	q, err := dnsQuery(binary.BigEndian.Uint16(id[:]), name, qtype)
	if err != nil {
		return DNSAnswer{}, err
	}
	if network == "udp" {
		raw, err := askUDP(ctx, server, q, func(b []byte) bool {
			_, err := dnsAnswer(q, b)
			return err == nil
		})
		if err != nil {
			return DNSAnswer{}, err
		}
		return dnsAnswer(q, raw)
	}
	c, err := Dial(ctx, "tcp", server)
	if err != nil {
		return DNSAnswer{}, err
	}
	defer c.Close()                                   //nolint:errcheck // nothing is buffered
	_ = c.SetDeadline(time.Now().Add(2 * answerTime)) // a closed connection fails below
	if network == "tls" {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // whoever answers has been reached
	}
	raw, err := dnsStream(c, q)
	if err != nil {
		return DNSAnswer{}, fmt.Errorf("asking %s: %w: %w", server, errConnected, err)
	}
	return dnsAnswer(q, raw)
}

// errConnected marks failures after the connection stood.
var errConnected = errors.New("connected, but")

func dnsStream(c net.Conn, q []byte) ([]byte, error) {
	if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...)); err != nil { //nolint:gosec // a query is short
		return nil, err
	}
	var head [2]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, err
	}
	raw := make([]byte, binary.BigEndian.Uint16(head[:]))
	_, err := io.ReadFull(c, raw)
	return raw, err
}

// ReachDNS asks a resolver and counts any answer of its own as success: that
// the name does not exist is still a packet there and a packet back.
func ReachDNS(ctx context.Context, step, network, server, name string) verdict.Step {
	if server == "" {
		return NoSite(step, "resolver for it")
	}
	a, err := AskDNS(ctx, network, server, name, TypeA)
	switch {
	case err == nil:
		return Reached(step, "%s answered over %s: code %d, %d records", server, network, a.RCode, a.Count)
	case errors.Is(err, errConnected) || errors.Is(err, errDNS):
		return Reached(step, "%s was reached over %s: %v", server, network, err)
	}
	return Denied(step, err)
}

// dnsQuery packs one question (RFC 1035, 4.1).
func dnsQuery(id uint16, name string, qtype uint16) ([]byte, error) {
	q := binary.BigEndian.AppendUint16(nil, id)
	q = append(q, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0) // recursion desired, one question
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if label == "" || len(label) > 63 {
			return nil, fmt.Errorf("packing the name %q: a label must have 1 to 63 bytes", name)
		}
		q = append(append(q, byte(len(label))), label...) //nolint:gosec // at most 63
	}
	if q = append(q, 0); len(q) > 12+255 {
		return nil, fmt.Errorf("packing the name %q: it is longer than 255 bytes", name)
	}
	q = binary.BigEndian.AppendUint16(q, qtype)
	return binary.BigEndian.AppendUint16(q, 1), nil // class IN
}

// dnsAnswer reads what a resolver, or anybody else, sent back.
func dnsAnswer(q, raw []byte) (DNSAnswer, error) {
	if len(raw) < 12 || len(q) < 12 || raw[0] != q[0] || raw[1] != q[1] || raw[2]&0x80 == 0 {
		return DNSAnswer{}, errDNS
	}
	a := DNSAnswer{RCode: int(raw[3] & 15), Count: int(binary.BigEndian.Uint16(raw[6:]))}
	at := 12
	for range binary.BigEndian.Uint16(raw[4:]) {
		if at = skipName(raw, at); at < 0 || at+4 > len(raw) {
			return DNSAnswer{}, errDNS
		}
		at += 4
	}
	for range a.Count {
		if at = skipName(raw, at); at < 0 || at+10 > len(raw) {
			return a, nil // cut short: what was read stands
		}
		kind, size := binary.BigEndian.Uint16(raw[at:]), int(binary.BigEndian.Uint16(raw[at+8:]))
		if at += 10; at+size > len(raw) {
			return a, nil
		}
		if addr, ok := netip.AddrFromSlice(raw[at : at+size]); ok && (kind == TypeA) == addr.Is4() && (kind == TypeA || kind == 28) {
			a.Addrs = append(a.Addrs, addr)
		}
		at += size
	}
	return a, nil
}

// skipName returns where a name ends, or -1. It follows no pointer, so that no
// chain of them can hold it up.
func skipName(raw []byte, at int) int {
	for at >= 0 && at < len(raw) {
		switch n := int(raw[at]); {
		case n == 0:
			return at + 1
		case n >= 0xc0:
			return at + 2
		case n > 63:
			return -1
		default:
			at += 1 + n
		}
	}
	return -1
}

// Resolvers returns the name servers of a resolv.conf, as host:port. A file
// that is not there has none.
func Resolvers(path string) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // it was only read
	var all []string
	in := bufio.NewScanner(io.LimitReader(f, 64<<10))
	for in.Scan() {
		if w := strings.Fields(in.Text()); len(w) >= 2 && w[0] == "nameserver" {
			all = append(all, net.JoinHostPort(w[1], "53"))
		}
	}
	return all
}
