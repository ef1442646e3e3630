// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// MCP is the carrier for servers that speak the Model Context Protocol over
// streamable HTTP and run Go programs: a real client, and whichever server.
type MCP struct {
	// Dial connects to the server, see [ForwardTo].
	Dial func(context.Context) (net.Conn, error)
	// Token authenticates the caller; empty is nobody.
	Token string
}

// Bounds of what a server may do. It is as hostile as what runs behind it: a
// sandbox's output is all that most of its answers are made of.
const (
	openTimeout  = 30 * time.Second
	callTimeout  = 6 * time.Minute  // above the longest that our own server takes
	closeTimeout = 15 * time.Second // the client's own for the goodbye is 5 s
	maxAnswer    = 16 << 20         // bytes of one HTTP answer
	maxHead      = 64 << 10         // bytes of its header
	maxReply     = 64 << 10         // bytes that are kept of a raw answer
	maxTools     = 64
	maxToolError = 2 << 10 // bytes that are kept of what a tool says instead of a result
)

// protocolVersion is what a session is asked for in. From 2026-07-28 on, the
// protocol knows no sessions.
const protocolVersion = "2025-11-25"

// MCPProgram is a Go program.
type MCPProgram struct {
	Source, Stdin string
	// Header is added to the request that carries the program.
	Header http.Header
}

// MCPSession is one session with a server.
type MCPSession struct {
	session *mcp.ClientSession
	tool    tool
	way     *way

	once     sync.Once
	closeErr error
}

// Open begins a session: the handshake, and the search for the tool that takes
// Go programs. The session's end is [MCPSession.Close].
func (m MCP) Open(ctx context.Context) (*MCPSession, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, fmt.Errorf("no answer within %s", openTimeout))
	defer cancel()
	w := m.way()
	client := mcp.NewClient(&mcp.Implementation{Name: "stockade", Version: "v1alpha1"},
		// It offers nothing that a server could ask of it.
		&mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: w.url, HTTPClient: &http.Client{Transport: w, CheckRedirect: noRedirect},
		MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: maxAnswer,
	}, &mcp.ClientSessionOptions{ProtocolVersion: protocolVersion})
	if err != nil {
		w.cut()
		return nil, fmt.Errorf("opening an MCP session: %w", because(ctx, err))
	}
	s := &MCPSession{session: session, way: w}
	if s.tool, err = findTool(ctx, session); err != nil {
		_ = s.Close() // the first error is the one that counts
		return nil, fmt.Errorf("opening an MCP session: %w", because(ctx, err))
	}
	return s, nil
}

// because prefers why a context ended to that it did.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// noRedirect follows no redirect: the token would go along.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// ID is the server's id of the session; empty where it gives none.
func (s *MCPSession) ID() string { return s.session.ID() }

// Run has the server run a program. What the server refuses, or says instead of
// a result, is in the result; an error means that nobody can tell.
func (s *MCPSession) Run(ctx context.Context, p MCPProgram) (MCPResult, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, fmt.Errorf("no answer within %s", callTimeout))
	defer cancel()
	arguments, err := s.tool.arguments(p)
	if err != nil {
		return MCPResult{}, err
	}
	got, err := s.session.CallTool(context.WithValue(ctx, headerKey{}, p.Header), &mcp.CallToolParams{Name: s.tool.name, Arguments: arguments})
	if err != nil {
		return MCPResult{}, fmt.Errorf("running a program through MCP: %w", because(ctx, err))
	}
	r, err := readResult(got)
	if err != nil {
		return MCPResult{}, fmt.Errorf("running a program through MCP: %w", err)
	}
	return r, nil
}

// Send sends one HTTP request the way of the session, to the same process.
func (s *MCPSession) Send(ctx context.Context, r *http.Request) (*http.Response, []byte, error) {
	return send(ctx, s.way.plain, r)
}

// Close ends the session. A server that does not hear the goodbye is left, and
// that is an error: it may still have the session's sandbox.
func (s *MCPSession) Close() error {
	s.once.Do(func() {
		late := time.AfterFunc(closeTimeout, s.way.cut)
		defer late.Stop()
		id := s.ID()
		err := s.session.Close()
		// The client gives up early, and does not ask what the server said.
		if err != nil && id != "" {
			err = s.goodbye(id)
		}
		s.way.cut()
		if err != nil {
			s.closeErr = fmt.Errorf("closing an MCP session: %w", err)
		}
	})
	return s.closeErr
}

// goodbye ends a session at the server, where it may have ended already.
func (s *MCPSession) goodbye(id string) error {
	r, err := http.NewRequestWithContext(s.way.ctx, http.MethodDelete, s.way.url, http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("Mcp-Session-Id", id)
	if s.way.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.way.token)
	}
	answer, _, err := send(s.way.ctx, s.way.plain, r) //nolint:bodyclose // send has read it and closed it
	if err == nil && answer.StatusCode >= 300 && answer.StatusCode != http.StatusNotFound {
		err = fmt.Errorf("the server answered with status %d", answer.StatusCode)
	}
	return err
}
