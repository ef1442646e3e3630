// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stockade-dev/stockade/workloads/gateway/sandboxes"
	"github.com/stockade-dev/stockade/workloads/metadata"
	"github.com/stockade-dev/stockade/workloads/runner/wire"
)

// Pool gives sandboxes and takes them back: [sandboxes.Manager].
type Pool interface {
	Take(ctx context.Context, user string) (*sandboxes.Sandbox, error)
	Locate(ctx context.Context, b *sandboxes.Sandbox) ([]netip.Addr, error)
	Renew(ctx context.Context, b *sandboxes.Sandbox) error
	Release(ctx context.Context, b *sandboxes.Sandbox) error
	Collect(ctx context.Context) (int, error)
	TTL() time.Duration
}

// Runner runs programs in sandboxes: [Router].
type Runner interface {
	Run(ctx context.Context, b *sandboxes.Sandbox, q wire.Request) (wire.Result, error)
}

// Identities gives runs an identity for as long as they take: [metadata.Client].
type Identities interface {
	Begin(ctx context.Context, r metadata.Run) error
	End(ctx context.Context, id string) error
}

// ToolName is the name of the one tool.
const ToolName = "run_go"

// MCPPath is where the server speaks MCP over HTTP, HealthPath where it says
// that it does.
const (
	MCPPath    = "/mcp"
	HealthPath = "/healthz"
)

// Options say what a gateway works with.
type Options struct {
	Pool   Pool
	Runner Runner
	// Identities is nil where programs have no identity of the server's.
	Identities Identities
	// GoEnv is for the go command in sandboxes: names of [wire.GoNames].
	GoEnv map[string]string
	// User is who calls when nobody is asked to authenticate: on standard input,
	// and where the server is for one person. Empty means "local".
	User string
	// SessionTimeout ends a session from which nothing is heard; default 15 min.
	SessionTimeout time.Duration
	// MaxSessions is how many sessions a user may have at a time, over HTTP; 0
	// means [MaxSessions].
	MaxSessions int
	Version     string
	Log         *slog.Logger // nil is silent
}

// Gateway is the server. It is safe for concurrent use.
type Gateway struct {
	o      Options
	server *mcp.Server
	// ctx ends all sessions.
	ctx  context.Context
	stop context.CancelCauseFunc
	wg   sync.WaitGroup
	// seats are sessions, bodies and calls are bytes.
	seats, bodies, calls *budget

	mu       sync.Mutex
	closed   bool
	sessions map[*mcp.ServerSession]*session
}

// New returns a gateway that lives until ctx ends or [Gateway.Close] is called;
// the latter is needed in any case, to give the sandboxes back.
func New(ctx context.Context, o Options) (*Gateway, error) {
	if o.Pool == nil || o.Runner == nil {
		return nil, errors.New("setting up the gateway: it needs a pool and a runner")
	}
	// Told now and not at every call.
	probe := wire.Request{Run: "x", Files: []wire.File{{Path: "x"}}, Go: o.GoEnv}
	if err := probe.Check(); err != nil {
		return nil, fmt.Errorf("setting up the gateway: %w", err)
	}
	if o.User == "" {
		o.User = "local"
	}
	if o.SessionTimeout == 0 {
		o.SessionTimeout = 15 * time.Minute
	}
	if o.MaxSessions < 0 {
		return nil, fmt.Errorf("setting up the gateway: a user cannot have %d sessions", o.MaxSessions)
	}
	if o.MaxSessions == 0 {
		o.MaxSessions = MaxSessions
	}
	if o.Version == "" {
		o.Version = "devel"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{
		o: o, sessions: map[*mcp.ServerSession]*session{},
		seats:  newBudget(int64(o.MaxSessions), allSessions*int64(o.MaxSessions)),
		bodies: newBudget(userBytes, allBytes), calls: newBudget(userBytes, allBytes),
	}
	g.ctx, g.stop = context.WithCancelCause(ctx)
	g.server = mcp.NewServer(&mcp.Implementation{Name: "kode-gopher", Version: o.Version}, &mcp.ServerOptions{Logger: o.Log})
	g.server.AddReceivingMiddleware(seated)
	open := true
	mcp.AddTool(g.server, &mcp.Tool{
		Name: ToolName,
		Description: "Build and run a Go program in a sandbox. The session has one sandbox of its own. " +
			"The program runs in /app, which is wiped before every call except /app/persist.",
		Annotations: &mcp.ToolAnnotations{Title: "Run Go", OpenWorldHint: &open},
	}, g.run)
	return g, nil
}

// Handler serves MCP over HTTP. authenticate is [auth.Middleware]'s result, or
// nil where everybody who reaches the server is its one user.
func (g *Gateway) Handler(authenticate func(http.Handler) http.Handler) http.Handler {
	var h http.Handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return g.server }, &mcp.StreamableHTTPOptions{
		SessionTimeout: g.o.SessionTimeout,
		Logger:         g.o.Log,

		MaxRequestBodyBytes: maxBody,
	})
	h = g.bounded(h)
	if authenticate != nil {
		h = authenticate(h)
	}
	mux := http.NewServeMux()
	// A page in somebody's browser must not speak for them.
	mux.Handle(MCPPath, http.NewCrossOriginProtection().Handler(h))
	mux.HandleFunc("GET "+HealthPath, func(http.ResponseWriter, *http.Request) {})
	return mux
}

// ServeIO serves one session over a pair of streams, until the client closes
// them or ctx ends.
func (g *Gateway) ServeIO(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	err := g.server.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out})
	if err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("serving MCP on the standard streams: %w", err)
	}
	return nil
}

// collectEvery is how often a living server looks for what dead ones left.
const collectEvery = time.Minute

// Maintain removes what dead servers left behind, now and from time to time
// until ctx ends. An API server that does not answer is asked again.
func (g *Gateway) Maintain(ctx context.Context) error {
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	for {
		n, err := g.o.Pool.Collect(ctx)
		switch {
		case ctx.Err() != nil:
			return nil // asked to stop
		case err != nil:
			g.o.Log.Warn("claims were not collected", "err", err)
		case n > 0:
			g.o.Log.Info("claims of dead servers were removed", "claims", n)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

var errClosing = errors.New("the server is being stopped")

// Close ends every session and gives its sandbox back. It returns when that is
// done, or with an error when ctx ends before; the claims then end by themselves.
func (g *Gateway) Close(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.stop(errClosing) // programs first: a session waits for its own
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ss := range g.server.Sessions() {
			_ = ss.Close() // it is closed in any case
		}
		g.wg.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("giving the sandboxes back: %w", context.Cause(ctx))
	}
}
