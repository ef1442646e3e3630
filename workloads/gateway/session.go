// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	mcpauth "github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stockade-dev/stockade/workloads/gateway/sandboxes"
	"github.com/stockade-dev/stockade/workloads/metadata"
	"github.com/stockade-dev/stockade/workloads/runner/wire"
)

// session is an MCP session and, from its first call on, its sandbox.
type session struct {
	g    *Gateway
	user string
	ctx  context.Context
	stop context.CancelCauseFunc

	// turn is held by the one call that runs; waiting counts those behind it.
	turn    chan struct{}
	waiting chan struct{}

	mu  sync.Mutex
	box *sandboxes.Sandbox
	// lost is true when a sandbox ended between two calls: the next call says so
	// before there is another.
	lost bool
}

// maxWaiting is how many calls of a session may wait for their turn: clients
// send some at once, and a sandbox runs one program at a time.
const maxWaiting = 8

var (
	errOver      = errors.New("the session is over")
	errOther     = errors.New("the session is another user's")
	errQueueFull = errors.New("too many calls of this session wait already")
	errTooMuch   = errors.New("the programs that wait or run now are too large together: try again later")
)

// session returns the session of a call, which begins with its first call.
func (g *Gateway) session(ss *mcp.ServerSession, user string) (*session, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, errClosing
	}
	if s := g.sessions[ss]; s != nil {
		// The MCP library has looked at this as well.
		if s.user != user {
			return nil, errOther
		}
		return s, nil
	}
	s := &session{g: g, user: user, turn: make(chan struct{}, 1), waiting: make(chan struct{}, maxWaiting)}
	s.ctx, s.stop = context.WithCancelCause(g.ctx)
	g.sessions[ss] = s
	g.wg.Go(func() {
		_ = ss.Wait() // why it ended makes no difference
		s.end()
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.sessions, ss)
	})
	g.wg.Go(s.keep)
	return s, nil
}

// end gives the sandbox back, after the call that may still run in it.
func (s *session) end() {
	s.stop(errOver)
	s.turn <- struct{}{} // kept: nothing runs in this session any more
	s.mu.Lock()
	b := s.box
	s.mu.Unlock()
	s.drop(b)
}

// drop forgets a sandbox and releases it. The session, and its client, may be
// gone: neither's context matters.
func (s *session) drop(b *sandboxes.Sandbox) {
	s.mu.Lock()
	held := b != nil && s.box == b
	if held {
		s.box = nil
	}
	s.mu.Unlock()
	if !held {
		return
	}
	if err := s.g.o.Pool.Release(context.WithoutCancel(s.ctx), b); err != nil {
		s.g.o.Log.Warn("a sandbox ends by itself", "sandbox", b.Name, "err", err)
		return
	}
	s.g.o.Log.Info("sandbox released", "sandbox", b.Name)
}

// keep renews the sandbox's claim until the session is over.
func (s *session) keep() {
	tick := time.NewTicker(s.g.o.Pool.TTL() / 3)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		b := s.box
		s.mu.Unlock()
		if b == nil {
			continue
		}
		err := s.g.o.Pool.Renew(s.ctx, b)
		switch {
		case errors.Is(err, sandboxes.ErrLost):
			s.mu.Lock()
			s.lost = s.box == b
			s.mu.Unlock()
			s.drop(b)
		case err != nil && s.ctx.Err() == nil:
			s.g.o.Log.Warn("a claim was not renewed", "sandbox", b.Name, "err", err)
		}
	}
}

// sandbox returns the session's own. Only the call that has the turn asks.
func (s *session) sandbox(ctx context.Context) (*sandboxes.Sandbox, error) {
	s.mu.Lock()
	b, lost := s.box, s.lost
	s.lost = false
	s.mu.Unlock()
	switch {
	case lost:
		return nil, fmt.Errorf("%w: its claim ended", ErrLost)
	case b != nil:
		return b, nil
	}
	b, err := s.g.o.Pool.Take(ctx, s.user)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.box = b
	s.g.o.Log.Info("sandbox taken", "sandbox", b.Name, "user", sandboxes.Digest(s.user))
	return b, nil
}

// run runs one program, when it is its turn.
func (s *session) run(ctx context.Context, q wire.Request) (wire.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The session's end is the call's, too.
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		return wire.Result{}, errQueueFull
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return wire.Result{}, context.Cause(ctx)
	}
	if err := s.ctx.Err(); err != nil {
		return wire.Result{}, context.Cause(s.ctx)
	}
	b, err := s.sandbox(ctx)
	if err != nil {
		return wire.Result{}, err
	}
	if i := s.g.o.Identities; i != nil {
		// Looked up anew each time: an identity is given to an address.
		addrs, err := s.g.o.Pool.Locate(ctx, b)
		if errors.Is(err, sandboxes.ErrLost) {
			s.drop(b)
			return wire.Result{}, fmt.Errorf("%w: %w", ErrLost, err)
		}
		if err != nil {
			return wire.Result{}, err
		}
		// Before it is asked for: an answer that is lost may be of a run that began.
		defer s.disown(ctx, i, q.Run)
		if err := i.Begin(ctx, metadata.Run{ID: q.Run, Addrs: addrs, Seconds: int(callTimeout.Seconds())}); err != nil {
			return wire.Result{}, err
		}
	}
	res, err := s.g.o.Runner.Run(ctx, b, q)
	if errors.Is(err, ErrLost) {
		s.drop(b)
	}
	return res, err
}

// disown takes a run's identity away, and tries again while that is refused: a
// token must not be good for minutes after its run for one answer that was lost.
func (s *session) disown(ctx context.Context, i Identities, run string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), disownTimeout)
	defer cancel()
	tick := time.NewTicker(disownEvery)
	defer tick.Stop()
	for {
		err := i.End(ctx, run)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			s.g.o.Log.Error("a run's identity ends by itself", "run", run, "err", err)
			return
		case <-tick.C:
		}
	}
}

// How long a run's identity is tried to be taken away, and the pause between two
// tries.
const (
	disownTimeout = 10 * time.Second
	disownEvery   = 200 * time.Millisecond
)

// run is the tool. What it returns as an error is shown to the client; the log
// has the rest, under the id of the run.
func (g *Gateway) run(ctx context.Context, req *mcp.CallToolRequest, in Input) (*mcp.CallToolResult, wire.Result, error) {
	id := strings.ToLower(rand.Text())
	q, err := in.request(id, g.o.GoEnv)
	if err != nil {
		return nil, wire.Result{}, err
	}
	user := g.o.User
	if req.Extra != nil { // who the token of this very request belongs to
		user = g.userOf(req.Extra.TokenInfo)
	}
	size := in.size()
	if !g.calls.take(user, size) {
		return nil, wire.Result{}, errTooMuch
	}
	defer g.calls.give(user, size)
	s, err := g.session(req.Session, user)
	if err != nil {
		return nil, wire.Result{}, err
	}
	res, err := s.run(ctx, q)
	if err != nil {
		g.o.Log.Warn("a program was not run", "run", id, "user", sandboxes.Digest(s.user), "err", err)
		return nil, wire.Result{}, tell(id, err)
	}
	g.o.Log.Info("a program was run", "run", id, "user", sandboxes.Digest(s.user), "built", res.Build.OK, "exit", res.ExitCode, "violations", res.Violations)
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: show(res)}}}, res, nil
}

// userOf is who a token belongs to; nil is that nobody had to show one.
func (g *Gateway) userOf(info *mcpauth.TokenInfo) string {
	if info != nil {
		return info.UserID
	}
	return g.o.User
}

// tell is what a client learns of an error: what it can do about it, and nothing
// of the inside.
func tell(id string, err error) error {
	switch {
	case errors.Is(err, sandboxes.ErrTooMany):
		return errors.New("the sandboxes that you have are as many as a user may have: end another session first")
	case errors.Is(err, ErrLost):
		return errors.New("the session's sandbox was lost, perhaps because the program used too much memory or filled its disk: the next call has a new one, without the files of this one")
	case errors.Is(err, errQueueFull), errors.Is(err, errOver), errors.Is(err, errClosing):
		return err
	}
	return fmt.Errorf("the program could not be run now (run %s): try again later", id)
}

// show is a result as text, for clients that read no structured ones.
func show(r wire.Result) string {
	var b strings.Builder
	section := func(title, text string, cut bool) {
		if text == "" {
			return
		}
		fmt.Fprintf(&b, "--- %s\n%s", title, text)
		if !strings.HasSuffix(text, "\n") {
			b.WriteByte('\n')
		}
		if cut {
			b.WriteString("[cut here]\n")
		}
	}
	switch {
	case !r.Build.OK:
		b.WriteString("The build failed.\n")
	case r.Signal != "":
		fmt.Fprintf(&b, "The program was ended by a signal: %s.\n", r.Signal)
	default:
		fmt.Fprintf(&b, "The program exited with code %d.\n", r.ExitCode)
	}
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "Limit met: %s.\n", v)
	}
	section("build", r.Build.Output, r.Build.Truncated)
	section("stdout", r.Stdout, r.StdoutTruncated)
	section("stderr", r.Stderr, r.StderrTruncated)
	return b.String()
}
