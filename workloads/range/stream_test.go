// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/workloads/range/rangeclient"
	"github.com/stockade-dev/stockade/workloads/range/world"
)

func newTestServices(t testing.TB) *services {
	t.Helper()
	l, err := openLog(t.TempDir()+"/range.ndjson", time.Now)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.close() })
	ca, err := newAuthority(time.Now())
	require.NoError(t, err)
	return &services{log: l, ca: ca}
}

// dial connects to the services as if to the destination.
func dial(t testing.TB, s *services, dst string) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	server, err := l.Accept()
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serveTCP(context.Background(), server, netip.MustParseAddrPort("172.18.0.2:40000"), netip.MustParseAddrPort(dst))
	}()
	t.Cleanup(func() {
		_ = client.Close()
		<-done
	})
	require.NoError(t, client.SetDeadline(time.Now().Add(5*time.Second)))
	return client
}

func say(t testing.TB, c net.Conn, text string) string {
	t.Helper()
	_, err := io.WriteString(c, text)
	require.NoError(t, err)
	line, err := bufio.NewReader(c).ReadString('\n')
	require.NoError(t, err)
	return line
}

func only(t testing.TB, s *services, service string) rangeclient.Event {
	t.Helper()
	var found []rangeclient.Event
	for _, e := range s.log.query(0, "", 1000) {
		if e.Service == service {
			found = append(found, e)
		}
	}
	require.Len(t, found, 1, "%+v", s.log.query(0, "", 1000))
	return found[0]
}

func TestRawTCPIsAnsweredWithItsNonceAfterItWasWrittenDown(t *testing.T) {
	s := newTestServices(t)
	c := dial(t, s, world.PublicTCP)
	assert.Equal(t, "STOCKADE-RANGE "+testNonce+"\n", say(t, c, "exfil: "+testNonce+"\n"))
	e := only(t, s, "stream")
	assert.Equal(t, []string{testNonce}, e.Nonces)
	assert.Equal(t, world.PublicTCP, e.Dst)
	assert.Equal(t, "172.18.0.2:40000", e.Src)
	assert.Equal(t, 40, e.Bytes)
}

func TestRawTCPWithoutANonceIsWrittenDownOnce(t *testing.T) {
	s := newTestServices(t)
	c := dial(t, s, "192.0.2.1:22")
	assert.Equal(t, "STOCKADE-RANGE -\n", say(t, c, "SSH-2.0-x\r\n"))
	assert.Equal(t, "STOCKADE-RANGE -\n", say(t, c, "more\n"))
	only(t, s, "stream")
}

func TestAClientThatWaitsForTheServerIsGreeted(t *testing.T) {
	c := dial(t, newTestServices(t), "192.0.2.1:25")
	line, err := bufio.NewReader(c).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "STOCKADE-RANGE -\n", line)
}

func TestHTTPIsLoggedWithHostAndPathAndKeptAlive(t *testing.T) {
	s := newTestServices(t)
	c := dial(t, s, world.PublicTCP)
	r := bufio.NewReader(c)
	for range 2 {
		_, err := fmt.Fprintf(c, "POST /up?x=1 HTTP/1.1\r\nHost: evil.test\r\nExpect: 100-continue\r\nContent-Length: 32\r\n\r\n")
		require.NoError(t, err)
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, line, "100 Continue")
		_, err = r.ReadString('\n')
		require.NoError(t, err)
		_, err = io.WriteString(c, testNonce)
		require.NoError(t, err)
		resp, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Contains(t, string(body), world.Marker)
	}
	var https []rangeclient.Event
	for _, e := range s.log.query(0, "", 100) {
		if e.Service == "http" {
			https = append(https, e)
		}
	}
	require.Len(t, https, 2)
	assert.Equal(t, []string{testNonce}, https[0].Nonces)
	assert.Equal(t, []string{"evil.test", "/up?x=1", "POST"}, []string{https[0].Host, https[0].Path, https[0].Name})
}

func TestMalformedHTTPStillWritesDownItsNonce(t *testing.T) {
	s := newTestServices(t)
	c := dial(t, s, world.PublicTCP)
	assert.Contains(t, say(t, c, "GET "+testNonce+"\r\n\r\n"), "400")
	assert.NotEmpty(t, s.log.query(0, testNonce, 10))
}

func TestAnEndlessHeaderIsCutOff(t *testing.T) {
	s := newTestServices(t)
	c := dial(t, s, world.PublicTCP)
	_, err := io.WriteString(c, "GET / HTTP/1.1\r\nX: ")
	require.NoError(t, err)
	junk := strings.Repeat("x", 8192)
	for err == nil {
		_, err = io.WriteString(c, junk)
	}
	var ne net.Error
	if assert.ErrorAs(t, err, &ne) {
		assert.False(t, ne.Timeout(), "the range must close, not wait")
	}
}

func TestTLSIsTerminatedAndItsCertificateVerifiesAgainstTheCA(t *testing.T) {
	s := newTestServices(t)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(s.ca.pem))
	for _, name := range []string{"storage.googleapis.com", "8.8.8.8"} {
		tc := tls.Client(dial(t, s, world.PublicTLS), &tls.Config{ServerName: name, RootCAs: pool, NextProtos: []string{"h2", "http/1.1"}})
		require.NoError(t, tc.Handshake(), name)
		assert.Equal(t, "http/1.1", tc.ConnectionState().NegotiatedProtocol)
		assert.Equal(t, "STOCKADE-RANGE "+testNonce+"\n", say(t, tc, testNonce+"\n"))
	}
	var sni []string
	for _, e := range s.log.query(0, testNonce, 10) {
		sni = append(sni, e.SNI)
	}
	assert.Equal(t, []string{"storage.googleapis.com", ""}, sni)
}

func TestAClientHelloAloneIsEnough(t *testing.T) {
	s := newTestServices(t)
	tc := tls.Client(dial(t, s, world.PublicTLS), &tls.Config{ServerName: testNonce[:20] + "." + testNonce[20:] + ".evil.test", NextProtos: []string{"h3"}})
	require.Error(t, tc.Handshake(), "the client does not trust the range")
	e := only(t, s, "tls")
	assert.Contains(t, e.Nonces, testNonce)
	assert.Equal(t, "h3", e.Name)
}

func TestHostileNamesGetACertificateAllTheSame(t *testing.T) {
	s := newTestServices(t)
	for _, n := range []string{"", strings.Repeat("a", 300), "bad name", "ünïcode.test", "*.*", "a..b"} {
		_, err := s.ca.certificate(n, netip.MustParseAddr("203.0.113.7"))
		assert.NoError(t, err, n)
	}
	for i := range 3 * maxCerts {
		_, err := s.ca.certificate(fmt.Sprintf("n%d.test", i), netip.Addr{})
		require.NoError(t, err)
		if i == maxCerts+10 {
			break // signing is slow; the cache has turned over by now
		}
	}
	assert.LessOrEqual(t, len(s.ca.certs), maxCerts)
}

func TestDNSOverTCPTLSAndHTTPSIsLoggedByName(t *testing.T) {
	s := newTestServices(t)
	q := new(dns.Msg)
	q.SetQuestion(testNonce+".tunnel.stockade.test.", dns.TypeTXT)

	conn := &dns.Conn{Conn: dial(t, s, "1.1.1.1:53")}
	require.NoError(t, conn.WriteMsg(q))
	a, err := conn.ReadMsg()
	require.NoError(t, err)
	require.Len(t, a.Answer, 1)
	assert.Contains(t, a.Answer[0].String(), world.Marker+" "+testNonce)

	tc := tls.Client(dial(t, s, "1.1.1.1:853"), &tls.Config{InsecureSkipVerify: true})
	conn = &dns.Conn{Conn: tc}
	require.NoError(t, conn.WriteMsg(q))
	_, err = conn.ReadMsg()
	require.NoError(t, err)

	raw, err := q.Pack()
	require.NoError(t, err)
	c := dial(t, s, "1.1.1.1:8053")
	assert.Contains(t, say(t, c, "GET /dns-query?dns="+base64.RawURLEncoding.EncodeToString(raw)+" HTTP/1.1\r\nHost: x\r\n\r\n"), "200")
	assert.Contains(t, say(t, dial(t, s, "1.1.1.1:8053"), fmt.Sprintf("POST /dns-query HTTP/1.1\r\nHost: x\r\nContent-Type: application/dns-message\r\nContent-Length: %d\r\n\r\n%s", len(raw), raw)), "200")

	n := 0
	for _, e := range s.log.query(0, testNonce, 100) {
		if e.Service == "dns" {
			assert.Equal(t, testNonce+".tunnel.stockade.test.", e.Name)
			n++
		}
	}
	assert.Equal(t, 4, n)
}

func TestAStolenTokenIsSeenComingBack(t *testing.T) {
	s := newTestServices(t)
	token := world.CanaryPrefix + testNonce
	say(t, dial(t, s, "203.0.113.10:80"), "GET /b/secret HTTP/1.1\r\nHost: storage.googleapis.com\r\nAuthorization: Bearer "+token+"\r\n\r\n")
	assert.Equal(t, []string{token}, s.log.query(0, testNonce, 1)[0].Canaries)
}

func TestWhatIsNotReadOfAConnectionIsLost(t *testing.T) {
	s := newTestServices(t)
	st := &stream{s: s}
	client, server := net.Pipe()
	go func() {
		_, _ = client.Write([]byte(testNonce + " and more")) // fails where nobody reads
		_ = client.Close()
	}()
	st.wrap(server, time.Now().Add(time.Minute))
	st.conn.left = nonceLen
	_, err := io.ReadAll(st.conn)
	require.Error(t, err)
	_, err = st.conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.NoError(t, server.Close())
	assert.Len(t, s.log.query(0, testNonce, 10), 1)
	assert.EqualValues(t, 1, s.log.lost, "once")
}

// FuzzServe gives arbitrary first bytes to a connection, for each way in.
func FuzzServe(f *testing.F) {
	for _, seed := range []string{
		"", "\x16\x03\x01", "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", "\x00\x02ab", testNonce,
	} {
		f.Add([]byte(seed), uint8(len(seed)))
	}
	s := newTestServices(f)
	ports := []uint16{53, 80, 443, 853}
	f.Fuzz(func(t *testing.T, data []byte, way uint8) {
		client, server := net.Pipe()
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		go func() {
			_, _ = client.Write(data)
			_ = client.Close()
		}()
		dst := netip.AddrPortFrom(netip.MustParseAddr("169.254.169.254"), ports[int(way)%len(ports)])
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.serveTCP(ctx, discardWrites{server}, netip.MustParseAddrPort("172.18.0.2:1"), dst)
		}()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			buf := make([]byte, 64<<10)
			t.Fatalf("the connection does not end:\n%s", buf[:runtime.Stack(buf, true)])
		}
	})
}

// discardWrites keeps a pipe without a reader from blocking.
type discardWrites struct{ net.Conn }

func (discardWrites) Write(p []byte) (int, error) { return len(p), nil }
