// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

const testNonce = "0123456789abcdef0123456789abcdef"

func testEnv() *Env { return &Env{Nonce: testNonce} }

// tcpServer answers each connection with f and returns its address.
func tcpServer(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f(c)
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// closedPort is a port of this host at which nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func TestManyAddressesAreTriedAndNoneIsNoEvidence(t *testing.T) {
	open, closed := tcpServer(t, func(net.Conn) {}), closedPort(t)
	steps := ReachAllTCP(t.Context(), testEnv(), []string{closed, open, ""})
	require.Len(t, steps, 3)
	assert.Equal(t, verdict.Refused, steps[0].Class)
	assert.True(t, steps[1].OK)
	assert.Equal(t, verdict.ToolMissing, steps[2].Class)

	none := ReachAllTCP(t.Context(), testEnv(), nil)
	require.Len(t, none, 1)
	assert.Equal(t, verdict.ToolMissing, none[0].Class, "an attack on nothing must not look as if it was denied")
}

func TestAConnectIsTheAimAndTheNonceArrives(t *testing.T) {
	got := make(chan string, 1)
	addr := tcpServer(t, func(c net.Conn) {
		line, _ := bufio.NewReader(c).ReadString('\n')
		got <- line
		_, _ = c.Write([]byte("STOCKADE-RANGE \x1b[31m\n"))
	})
	s := ReachTCP(t.Context(), testEnv(), "connect", addr)
	assert.True(t, s.OK)
	assert.Contains(t, <-got, testNonce)
	assert.NotContains(t, s.Detail, "\x1b", "what the far end says is quoted")
}

func TestAPeerThatSaysNothingWasReachedAllTheSame(t *testing.T) {
	addr := tcpServer(t, func(net.Conn) {})
	for _, s := range []verdict.Step{
		ReachTCP(t.Context(), testEnv(), "tcp", addr),
		ReachTLS(t.Context(), testEnv(), "tls", addr, "x.test"),
		ReachMetadata(t.Context(), testEnv(), "metadata", addr),
		ReachDNS(t.Context(), "dns", "tcp", addr, "x.test."),
		ReachDNS(t.Context(), "dot", "tls", addr, "x.test."),
	} {
		assert.True(t, s.OK, s)
	}
}

func TestOnlyTheListenersMarkerIsAControl(t *testing.T) {
	reach := func(part Part, answer string) verdict.Step {
		host, port, err := net.SplitHostPort(tcpServer(t, func(c net.Conn) { _, _ = c.Write([]byte(answer)) }))
		require.NoError(t, err)
		n, err := strconv.Atoi(port)
		require.NoError(t, err)
		env := testEnv()
		env.Part = part
		return ReachListener(t.Context(), env, "connect", host, n)
	}
	assert.True(t, reach(Control, ListenerMarker+" "+testNonce+"\n").OK)
	for _, answer := range []string{"", "HTTP/1.1 200 OK\r\n", ListenerMarker + "\n", ListenerMarker + " " + testNonce, "x" + ListenerMarker + " " + testNonce + "\n"} {
		assert.False(t, reach(Control, answer).OK, "%q", answer)
		assert.True(t, reach(Attack, answer).OK, "%q: who gets this far is in", answer)
	}
}

func TestARefusalIsRefusedAndNotDropped(t *testing.T) {
	addr := closedPort(t)
	for _, s := range []verdict.Step{
		ReachTCP(t.Context(), testEnv(), "tcp", addr),
		ReachTLS(t.Context(), testEnv(), "tls", addr, "x.test"),
		ReachMetadata(t.Context(), testEnv(), "metadata", addr),
		ReachDNS(t.Context(), "dns", "tcp", addr, "x.test."),
		ReachDNS(t.Context(), "dns", "udp", addr, "x.test."),
		ReachUDP(t.Context(), testEnv(), "udp", addr, Payload(testEnv())),
	} {
		assert.False(t, s.OK, s)
		assert.Equal(t, verdict.Refused, s.Class, s)
	}
}

func TestADatagramWithoutAnAnswerIsDropped(t *testing.T) {
	l, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	s := ReachUDP(t.Context(), testEnv(), "udp", l.LocalAddr().String(), Payload(testEnv()))
	assert.False(t, s.OK)
	assert.Equal(t, verdict.Dropped, s.Class, s.Detail)
}

func TestAnAttemptThatIsCutShortProvesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := ReachTCP(ctx, testEnv(), "connect", "127.0.0.1:9")
	assert.False(t, s.OK)
	assert.Equal(t, verdict.Unknown, s.Class)
}

func TestATokenIsReportedByItsDigestOnly(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata-Flavor") != "Google" || !strings.Contains(r.UserAgent(), testNonce) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte(`{"access_token":"ya29.secret"}`))
	}))
	defer srv.Close()
	addr := srv.Listener.Addr().String()
	for _, s := range []verdict.Step{
		ReachMetadata(t.Context(), testEnv(), "ask", addr),
		ReachMetadataMapped(t.Context(), testEnv(), "ask", addr),
	} {
		assert.True(t, s.OK, s)
		assert.Contains(t, s.Detail, "token, digest sha256:")
		assert.NotContains(t, s.Detail, "secret")
	}
}

func TestQUICsOpeningIsLongEnoughToBeAnswered(t *testing.T) {
	p := QUICInitial(testEnv())
	assert.Len(t, p, 1200)
	assert.Equal(t, byte(0xc0), p[0]&0xc0, "a long header")
	assert.Equal(t, uint32(0x0a0a0a0a), binary.BigEndian.Uint32(p[1:])&0x0f0f0f0f, "a version that is reserved (RFC 9000, 15)")
	assert.Contains(t, string(p), testNonce)
}

// dnsServer answers over UDP with what f makes of the query.
func dnsServer(t *testing.T, f func(q []byte) []byte) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := l.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = l.WriteTo(f(buf[:n]), from)
		}
	}()
	return l.LocalAddr().String()
}

func answered(q []byte, rcode byte, records ...byte) []byte {
	a := append([]byte(nil), q...)
	a[2] |= 0x80
	a[3] = rcode
	if len(records) > 0 {
		a[7] = 1
	}
	return append(a, records...)
}

func TestAnAddressIsReadOutOfAnAnswer(t *testing.T) {
	addr := dnsServer(t, func(q []byte) []byte {
		return answered(q, 0, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 169, 254, 169, 254)
	})
	a, err := AskDNS(t.Context(), "udp", addr, "metadata.google.internal.", TypeA)
	require.NoError(t, err)
	require.Len(t, a.Addrs, 1)
	assert.Equal(t, "169.254.169.254", a.Addrs[0].String())
}

func TestNoSuchNameIsAnAnswer(t *testing.T) {
	addr := dnsServer(t, func(q []byte) []byte { return answered(q, 3) })
	assert.True(t, ReachDNS(t.Context(), "ask", "udp", addr, "x.test").OK)
}

func TestAnAnswerToAnotherQuestionIsNotTaken(t *testing.T) {
	addr := dnsServer(t, func(q []byte) []byte {
		a := answered(q, 0)
		a[0] ^= 0xff
		return a
	})
	s := ReachDNS(t.Context(), "ask", "udp", addr, "x.test")
	assert.False(t, s.OK)
	assert.Equal(t, verdict.Dropped, s.Class)
}

func TestHostileAnswersAreReadWithoutHarm(t *testing.T) {
	q, err := dnsQuery(7, "x.test", TypeA)
	require.NoError(t, err)
	whole := answered(q, 0, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 1, 2, 3, 4)
	for n := range whole {
		_, _ = dnsAnswer(q, whole[:n])
		bad := append([]byte(nil), whole...)
		bad[n] = 0xff
		_, _ = dnsAnswer(q, bad)
	}
	_, err = dnsAnswer(q, q)
	assert.ErrorIs(t, err, errDNS, "a question is no answer")
}

func TestNamesThatDNSCannotCarryAreRefused(t *testing.T) {
	for _, name := range []string{"a..b", strings.Repeat("x", 64), strings.Repeat("abcdefg.", 40), ""} {
		_, err := dnsQuery(1, name, TypeA)
		assert.Error(t, err, name)
	}
}

func TestResolversAreReadFromAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	require.NoError(t, os.WriteFile(path, []byte("# x\nsearch a b\nnameserver 10.96.0.10\nnameserver fd00::a\noptions ndots:5\n"), 0o600))
	assert.Equal(t, []string{"10.96.0.10:53", "[fd00::a]:53"}, Resolvers(path))
	assert.Empty(t, Resolvers(path+".not"))
}

func TestATimeIsTakenOfEachStep(t *testing.T) {
	s := Together(func() verdict.Step { <-time.After(3 * time.Millisecond); return Reached("x", "") })
	assert.Positive(t, s[0].Millis)
}
