// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// way is how a session's requests go: over connections of its own, with the
// caller's token, and under bounds.
type way struct {
	url   string
	token string
	plain *http.Transport

	ctx context.Context //nolint:containedctx // the end of all its requests, whoever made them
	cut context.CancelFunc
}

// headerKey is where a call's context has the headers that go along.
type headerKey struct{}

func (m MCP) way() *way {
	// The host is this one to a server that is reached through its own loopback,
	// and takes no other there.
	w := &way{url: "http://localhost/mcp", token: m.Token, plain: transport(m.Dial)}
	ctx, cancel := context.WithCancel(context.Background())
	w.ctx, w.cut = ctx, func() {
		cancel()
		w.plain.CloseIdleConnections()
	}
	return w
}

// transport speaks HTTP over connections of a dialer's, and asks no proxy.
func transport(dial func(context.Context) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		// A server could make much of little.
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHead,
		IdleConnTimeout:        time.Minute,
	}
}

// RoundTrip implements [http.RoundTripper].
func (w *way) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	stop := context.AfterFunc(w.ctx, cancel)
	end := func() {
		stop()
		cancel()
	}
	r = r.Clone(ctx)
	if extra, ok := ctx.Value(headerKey{}).(http.Header); ok {
		for name, values := range extra {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	answer, err := w.plain.RoundTrip(r)
	if err != nil {
		end()
		return nil, err
	}
	answer.Body = &boundedBody{ReadCloser: answer.Body, left: maxAnswer, end: end}
	return answer, nil
}

// boundedBody is an answer's body that ends with an error at its bound.
type boundedBody struct {
	io.ReadCloser
	left int64
	end  func()
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, ErrTooMuch
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

func (b *boundedBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// Send sends one HTTP request over a connection of its own, and returns the
// answer with the beginning of its body.
func Send(ctx context.Context, dial func(context.Context) (net.Conn, error), r *http.Request) (*http.Response, []byte, error) {
	t := transport(dial)
	defer t.CloseIdleConnections()
	return send(ctx, t, r)
}

func send(ctx context.Context, t *http.Transport, r *http.Request) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, fmt.Errorf("no answer within %s", openTimeout))
	defer cancel()
	answer, err := t.RoundTrip(r.WithContext(ctx))
	if err != nil {
		return nil, nil, fmt.Errorf("sending a request: %w", because(ctx, err))
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxReply))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the answer to a request: %w", because(ctx, err))
	}
	return answer, body, nil
}
