// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

const (
	// answerTime is how long a peer that was reached may think. Its silence
	// changes no verdict, so it is short.
	answerTime = time.Second
	// resendEvery spaces the copies of a datagram: one lost datagram must not
	// look like a policy.
	resendEvery = 400 * time.Millisecond
	maxAnswer   = 2048 // bytes that are read of any answer
	maxQuoted   = 120  // bytes of an answer that go into a step's detail
)

// Dial connects within [DialTimeout]. When the attempt's own time ends first,
// the error is [ErrCut].
func Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: DialTimeout, FallbackDelay: -1}).DialContext(ctx, network, addr)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("connecting to %s: %w: %w", addr, ErrCut, err)
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", addr, err)
	}
	return c, nil
}

// Payload is what a probe sends where no protocol is asked for. The nonce lets
// the far end tell the attempts apart.
func Payload(env *Env) []byte { return []byte("STOCKADE-PROBE " + env.Nonce + "\r\n") }

// ReachTCP connects and sends the nonce. The aim is reached by the connect
// alone: what the far end says is detail.
func ReachTCP(ctx context.Context, env *Env, name, addr string) verdict.Step {
	if addr == "" {
		return NoSite(name, "address for it")
	}
	c, err := Dial(ctx, "tcp", addr)
	if err != nil {
		return Denied(name, err)
	}
	defer c.Close() //nolint:errcheck // nothing is buffered
	return Reached(name, "connected to %s, %s", addr, exchange(c, Payload(env)))
}

// ReachAllTCP is [ReachTCP] for many addresses at once, with a step for each.
func ReachAllTCP(ctx context.Context, env *Env, addrs []string) []verdict.Step {
	if len(addrs) == 0 {
		return []verdict.Step{NoSite("connect", "address for it")}
	}
	acts := make([]func() verdict.Step, 0, len(addrs))
	for _, a := range addrs {
		acts = append(acts, func() verdict.Step { return ReachTCP(ctx, env, "connect to "+a, a) })
	}
	return Together(acts...)
}

// exchange sends a request and quotes the answer, or tells that none came.
func exchange(c net.Conn, request []byte) string {
	_ = c.SetDeadline(time.Now().Add(answerTime)) // a closed connection fails below
	if _, err := c.Write(request); err != nil {
		return "nothing could be sent: " + err.Error()
	}
	buf := make([]byte, maxAnswer)
	n, err := c.Read(buf)
	if n == 0 {
		return fmt.Sprintf("no answer (%v)", err)
	}
	return "answered " + quote(buf[:n])
}

func quote(b []byte) string {
	line, _, _ := strings.Cut(string(b), "\n")
	return fmt.Sprintf("%.*q", maxQuoted, line)
}

// ReachTLS connects, shakes hands with the server name sni, and asks for a page
// whose path holds the nonce. As with [ReachTCP], the connect alone is success.
func ReachTLS(ctx context.Context, env *Env, name, addr, sni string) verdict.Step {
	if addr == "" {
		return NoSite(name, "address for it")
	}
	raw, err := Dial(ctx, "tcp", addr)
	if err != nil {
		return Denied(name, err)
	}
	defer raw.Close() //nolint:errcheck // nothing is buffered
	// The peer is whoever answers: the question is whether anybody does.
	c := tls.Client(raw, &tls.Config{ServerName: sni, InsecureSkipVerify: true}) //nolint:gosec // see above
	hctx, cancel := context.WithTimeout(ctx, 2*answerTime)
	defer cancel()
	if err := c.HandshakeContext(hctx); err != nil {
		return Reached(name, "connected to %s, without a handshake (%v)", addr, err)
	}
	request := "GET /" + env.Nonce + " HTTP/1.1\r\nHost: " + sni + "\r\nConnection: close\r\n\r\n"
	return Reached(name, "TLS with %s, %s", addr, exchange(c, []byte(request)))
}

// ReachUDP sends a datagram, again now and then, until an answer comes. A send
// succeeds locally whatever becomes of it, so only an answer is success; that
// a datagram got out unanswered is for the witness at the far end to say.
func ReachUDP(ctx context.Context, env *Env, name, addr string, payload []byte) verdict.Step {
	if addr == "" {
		return NoSite(name, "address for it")
	}
	answer, err := askUDP(ctx, addr, payload, func([]byte) bool { return true })
	if err != nil {
		return Denied(name, err)
	}
	return Reached(name, "%s answered %s", addr, quote(answer))
}

// askUDP sends a datagram from a socket that is connected to addr until an
// answer comes that fits, for at most [DialTimeout].
func askUDP(ctx context.Context, addr string, payload []byte, fits func([]byte) bool) ([]byte, error) {
	c, err := Dial(ctx, "udp", addr)
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // nothing is buffered
	end := time.Now().Add(DialTimeout)
	buf := make([]byte, 64<<10)
	for {
		if _, err := c.Write(payload); err != nil {
			return nil, fmt.Errorf("sending to %s: %w", addr, err)
		}
		next := time.Now().Add(resendEvery)
		if next.After(end) {
			next = end
		}
		_ = c.SetReadDeadline(next) // a closed socket fails below
		for {
			n, err := c.Read(buf)
			if err == nil && fits(buf[:n]) {
				return buf[:n], nil
			}
			if err == nil {
				continue // somebody else's, until the deadline
			}
			if Classify(err) != verdict.Dropped || !time.Now().Before(end) {
				return nil, fmt.Errorf("waiting for %s: %w", addr, err)
			}
			break
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("waiting for %s: %w", addr, ErrCut)
		}
	}
}

// QUICInitial is a client's first datagram of a QUIC version that nobody
// speaks: every server must answer it by version negotiation (RFC 9000, 6.1
// and 15), and no cryptography is needed to ask. It has the 1200 bytes below
// which servers keep silent, and the nonce in clear.
func QUICInitial(env *Env) []byte {
	p := []byte{0xc3, 0x1a, 0x2a, 0x3a, 0x4a} // long header, a reserved version
	p = append(append(p, 8), "stockade"...)   // destination connection id
	p = append(append(p, 0), Payload(env)...) // no source connection id
	return append(p, make([]byte, max(0, 1200-len(p)))...)
}

// ReachMetadata asks a GCE metadata server for the default service account's token.
// Any connection is success: who gets this far only lacks a header. The token
// itself is reported by its digest.
func ReachMetadata(ctx context.Context, env *Env, name, addr string) verdict.Step {
	if addr == "" {
		return NoSite(name, "metadata server")
	}
	return metadata(ctx, env, name, addr, func(ctx context.Context) (net.Conn, error) { return Dial(ctx, "tcp", addr) })
}

// ReachMetadataMapped is [ReachMetadata] through an IPv6 socket, to the IPv4
// address mapped into ::ffff:0:0/96.
func ReachMetadataMapped(ctx context.Context, env *Env, name, addr string) verdict.Step {
	if addr == "" {
		return NoSite(name, "metadata server")
	}
	return metadata(ctx, env, name, addr, func(ctx context.Context) (net.Conn, error) { return dialMapped(ctx, addr) })
}

func metadata(ctx context.Context, env *Env, name, addr string, dial func(context.Context) (net.Conn, error)) verdict.Step {
	raw, err := dial(ctx)
	if err != nil {
		return Denied(name, err)
	}
	defer raw.Close() //nolint:errcheck // nothing is buffered
	_ = raw.SetDeadline(time.Now().Add(answerTime))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+addr+"/computeMetadata/v1/instance/service-accounts/default/token", nil)
	if err != nil {
		return Reached(name, "connected to %s", addr)
	}
	req.Header.Set("Metadata-Flavor", "Google")
	req.Header.Set("User-Agent", "stockade/"+env.Nonce)
	answer, err := (&http.Transport{
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: 16 << 10,
		DialContext:            func(context.Context, string, string) (net.Conn, error) { return raw, nil },
	}).RoundTrip(req)
	if err != nil {
		return Reached(name, "connected to %s, no answer (%v)", addr, err)
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if answer.StatusCode == http.StatusOK && strings.Contains(string(body), "access_token") {
		return Reached(name, "%s handed out a token, digest %s", addr, Digest(body))
	}
	return Reached(name, "%s answered with status %d", addr, answer.StatusCode)
}

// ReachListener connects to the runner's listener in another Pod, and reads its
// marker. An attack has reached its aim with the connect, whoever is there. A
// control has not: that something on the way, or the wrong Pod, completed the
// connection shows nothing of the way to the listener.
func ReachListener(ctx context.Context, env *Env, name, host string, port int) verdict.Step {
	if host == "" || port == 0 {
		return NoSite(name, "listener in that Pod")
	}
	addr := net.JoinHostPort(host, fmt.Sprint(port))
	c, err := Dial(ctx, "tcp", addr)
	if err != nil {
		return Denied(name, err)
	}
	defer c.Close() //nolint:errcheck // nothing is buffered
	// The listener speaks first. Whoever sends before that may lose the answer
	// to the reset of a connection that is closed with unread bytes.
	_ = c.SetDeadline(time.Now().Add(answerTime)) // a closed connection fails below
	line, err := bufio.NewReader(io.LimitReader(c, maxAnswer)).ReadString('\n')
	if env.Part == Control && !listenerForm.MatchString(line) {
		return Failed(name, verdict.Unknown, "connected to %s, but it is not the listener that answered %s (%v)", addr, quote([]byte(line)), err)
	}
	return Reached(name, "connected to %s, answered %s", addr, quote([]byte(line)))
}

// listenerForm is what a listener says, to the end of its line.
var listenerForm = regexp.MustCompile("^" + ListenerMarker + " [0-9a-f]{32}\n$")
