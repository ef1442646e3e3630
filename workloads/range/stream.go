// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/stockade-dev/stockade/workloads/range/rangeclient"
	"github.com/stockade-dev/stockade/workloads/range/world"
)

// Bounds of one TCP connection.
const (
	maxConnBytes  = 16 << 20
	maxConnTime   = 2 * time.Minute
	idleTime      = 15 * time.Second
	bannerAfter   = time.Second // a client that waits for the server to speak
	sniffTime     = 2 * time.Second
	handshakeTime = 5 * time.Second
)

// services answers for the outside world. It knows nothing of how packets get
// here, so that tests drive it over pipes.
type services struct {
	log  *eventLog
	zone world.Zone
	ca   *authority
}

// stream is one TCP connection, or what TLS carries inside of one.
type stream struct {
	s        *services
	src, dst netip.AddrPort
	sni      string
	inTLS    bool
	conn     *scannedConn
	r        *bufio.Reader
}

// serveTCP answers one connection to its end. It closes c.
func (s *services) serveTCP(ctx context.Context, c net.Conn, src, dst netip.AddrPort) {
	defer c.Close() //nolint:errcheck // nothing is left to save
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	st := &stream{s: s, src: src, dst: dst}
	st.wrap(c, time.Now().Add(maxConnTime))
	st.serve(ctx)
}

// wrap puts the scanner under everything that reads: whatever parser fails on
// what came, its nonces are in the log before the parser has seen them.
func (st *stream) wrap(c net.Conn, end time.Time) {
	st.conn = &scannedConn{Conn: c, end: end, left: maxConnBytes, found: func(nonces, canaries []string, total int) {
		e := st.event("stream")
		e.Nonces, e.Canaries, e.Bytes = nonces, canaries, total
		st.s.log.append(e)
	}, overflow: func() { st.s.log.lose(1) }}
	st.r = bufio.NewReaderSize(st.conn, 4096)
}

func (st *stream) event(service string) rangeclient.Event {
	return rangeclient.Event{
		Proto: "tcp", Service: service, Src: st.src.String(), Dst: st.dst.String(), SNI: st.sni,
	}
}

// serve looks at the first bytes and hands over to the protocol they belong to.
func (st *stream) serve(ctx context.Context) {
	if st.dst.Port() == 53 || (st.inTLS && st.dst.Port() == 853) {
		st.serveDNS()
		return
	}
	st.conn.idle(bannerAfter)
	first, err := st.r.Peek(1)
	if err != nil {
		if isTimeout(err) {
			st.serveRaw("")
		}
		return
	}
	st.conn.idle(sniffTime)
	switch {
	case first[0] == 0x16 && !st.inTLS: // a TLS handshake record
		st.serveTLS(ctx)
	case st.looksLikeHTTP():
		st.serveHTTP()
	default:
		st.serveRaw("")
	}
}

// looksLikeHTTP waits for the method and the space after it.
func (st *stream) looksLikeHTTP() bool {
	for n := 1; n <= 8; n++ {
		p, err := st.r.Peek(n)
		if err != nil {
			return false
		}
		if text := string(p); text[n-1] == ' ' {
			switch text[:n-1] {
			case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT":
				return true
			}
			return false
		} else if text[n-1] < 'A' || text[n-1] > 'Z' {
			return false
		}
	}
	return false
}

// serveRaw answers each piece of an unknown protocol with a marker line.
func (st *stream) serveRaw(already string) {
	last := already
	if already == "" && st.r.Buffered() == 0 {
		// Server-speaks-first protocols: say who is here. The deadline that
		// brought us here has passed, for writes too.
		st.conn.idle(idleTime)
		if st.conn.say(world.Marker+" -\n") != nil {
			return
		}
	}
	buf := make([]byte, 4096)
	logged := false
	for {
		st.conn.idle(idleTime)
		n, err := st.r.Read(buf)
		if n > 0 {
			nonces := st.conn.take()
			if len(nonces) > 0 {
				last = nonces[len(nonces)-1]
			} else if !logged {
				e := st.event("stream")
				e.Bytes = st.conn.total
				st.s.log.append(e)
			}
			logged = true
			if st.conn.say(marker(last)) != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// marker is the range's answer line.
func marker(nonce string) string {
	if nonce == "" {
		nonce = "-"
	}
	return world.Marker + " " + nonce + "\n"
}

// serveTLS terminates TLS and looks at what is inside.
func (st *stream) serveTLS(ctx context.Context) {
	inner := *st
	inner.inTLS = true
	hello := false
	conf := st.s.ca.config(st.dst.Addr(), func(sni string, alpn []string) {
		hello = true
		inner.sni = clipText(sni)
		e := inner.event("tls")
		e.Bytes = st.conn.total
		e.Name = clipText(strings.Join(alpn, ","))
		found, _ := st.s.log.find([]byte(e.Name))
		e.Nonces = merge(findInName(sni), found)
		st.s.log.append(e)
	})
	tc := tls.Server(buffered{st.conn, st.r}, conf)
	hctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	st.conn.idle(handshakeTime)
	if err := tc.HandshakeContext(hctx); err != nil {
		if !hello {
			e := st.event("tls")
			e.Name, e.Bytes = "not a ClientHello", st.conn.total
			st.s.log.append(e)
		}
		return
	}
	inner.wrap(tc, st.conn.end)
	inner.serve(ctx)
	st.conn.idle(time.Second)
	_ = tc.Close() // the peer may be gone
}

// serveDNS speaks DNS over a stream: two bytes of length, then the message.
func (st *stream) serveDNS() {
	for range 256 {
		st.conn.idle(idleTime)
		var head [2]byte
		if _, err := io.ReadFull(st.r, head[:]); err != nil {
			return
		}
		msg := make([]byte, binary.BigEndian.Uint16(head[:]))
		if _, err := io.ReadFull(st.r, msg); err != nil {
			return
		}
		answer := st.s.answerDNS(msg, st.event("dns"), dns.MaxMsgSize)
		if answer == nil {
			st.serveRaw("-")
			return
		}
		out := binary.BigEndian.AppendUint16(nil, uint16(len(answer))) //nolint:gosec // bounded by MaxMsgSize
		if st.conn.say(string(append(out, answer...))) != nil {
			return
		}
	}
}

// scannedConn scans and bounds whatever is read from it. It is used by one
// goroutine at a time.
type scannedConn struct {
	net.Conn
	scan     scanner
	end      time.Time // of the whole connection
	left     int       // bytes that may still be read
	cut      bool      // there may have been more
	total    int
	fresh    []string // nonces since the last take
	found    func(nonces, canaries []string, total int)
	overflow func()
}

func (c *scannedConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		if !c.cut {
			c.cut = true
			c.overflow()
		}
		return 0, errors.New("reading a connection: too many bytes")
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	if n > 0 {
		c.left -= n
		c.total += n
		before := c.scan.limited
		nonces, canaries := c.scan.feed(p[:n])
		if len(nonces)+len(canaries) > 0 {
			c.fresh = append(c.fresh, nonces...)
			c.found(nonces, canaries, c.total)
		}
		if c.scan.limited && !before {
			c.overflow()
		}
	}
	return n, err
}

// idle lets the next operations take at most d, within the connection's end.
func (c *scannedConn) idle(d time.Duration) {
	t := time.Now().Add(d)
	if t.After(c.end) {
		t = c.end
	}
	_ = c.SetDeadline(t) // a closed connection fails at its next use
}

func (c *scannedConn) say(text string) error {
	_, err := io.WriteString(c.Conn, text)
	return err
}

// take returns the nonces that were read since it was last called.
func (c *scannedConn) take() []string {
	f := c.fresh
	c.fresh = nil
	return f
}

// buffered gives back to TLS the bytes that sniffing has read ahead.
type buffered struct {
	*scannedConn
	r *bufio.Reader
}

func (b buffered) Read(p []byte) (int, error) { return b.r.Read(p) }

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

func clipText(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "")
}
