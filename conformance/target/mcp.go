// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
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
	// Path is where the server is, default /mcp.
	Path string
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
	Args          []string
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
		Endpoint: w.url, HTTPClient: &http.Client{Transport: w, CheckRedirect: sameAnswer},
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

// sameAnswer follows no redirect: the token would go along.
func sameAnswer(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

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
	path := m.Path
	if path == "" {
		path = "/mcp"
	}
	// The host is this one to a server that is reached through its own loopback,
	// and takes no other there.
	w := &way{url: "http://localhost" + path, token: m.Token, plain: transport(m.Dial)}
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

// tool is how a server takes Go programs.
type tool struct {
	name string
	// The names of the tool's parameters; those that it lacks are empty.
	code, stdin, args, language string
}

// What servers call the parameters, by what they are. Ours come first.
var (
	codeNames     = []string{"code", "source", "program", "snippet", "src", "main_go", "go_code", "content", "script"}
	stdinNames    = []string{"stdin", "input"}
	argsNames     = []string{"args", "arguments", "argv"}
	languageNames = []string{"language", "lang"}
)

// ownTool is what our own server calls its tool.
const ownTool = "run_go"

// findTool looks for the tool that takes a Go program: ours, or else the one
// whose parameters can carry a program and that needs no others. Of several,
// the first that speaks of Go is taken.
func findTool(ctx context.Context, session *mcp.ClientSession) (tool, error) {
	var fit []tool
	var names []string
	best := -1
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return tool{}, fmt.Errorf("listing the tools: %w", err)
		}
		if names = append(names, fmt.Sprintf("%.40q", t.Name)); len(names) > maxTools {
			return tool{}, fmt.Errorf("listing the tools: there are more than %d", maxTools)
		}
		got, ok := readTool(t)
		if !ok {
			continue
		}
		fit = append(fit, got)
		switch {
		case got.name == ownTool:
			return got, nil
		case best < 0 && speaksOfGo(t):
			best = len(fit) - 1
		}
	}
	switch {
	case best >= 0:
		return fit[best], nil
	case len(fit) == 1 && fit[0].language != "":
		return fit[0], nil // one tool for every language
	}
	return tool{}, fmt.Errorf("looking for a tool that runs Go programs: none of %s takes one", strings.Join(names, ", "))
}

// readTool tells how a tool takes a program, if it can.
func readTool(t *mcp.Tool) (tool, bool) {
	var schema struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	text, err := json.Marshal(t.InputSchema)
	if err != nil || json.Unmarshal(text, &schema) != nil {
		return tool{}, false
	}
	pick := func(names []string, kind string) string {
		for _, n := range names {
			if p, has := schema.Properties[n]; has && isType(p.Type, kind) {
				return n
			}
		}
		return ""
	}
	got := tool{name: t.Name, code: pick(codeNames, "string"), stdin: pick(stdinNames, "string"), args: pick(argsNames, "array"),
		language: pick(languageNames, "string")}
	if got.code == "" {
		return tool{}, false
	}
	for _, r := range schema.Required {
		if !slices.Contains([]string{got.code, got.stdin, got.args, got.language}, r) {
			return tool{}, false
		}
	}
	return got, true
}

// isType tells whether a schema's type is, or may be, a kind.
func isType(of any, kind string) bool {
	switch of := of.(type) {
	case string:
		return of == kind
	case []any:
		return slices.Contains(of, any(kind))
	}
	return false
}

// speaksOfGo tells whether a tool's name or description has the word.
func speaksOfGo(t *mcp.Tool) bool {
	words := strings.FieldsFunc(strings.ToLower(t.Name+" "+t.Title+" "+t.Description), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	return slices.Contains(words, "go") || slices.Contains(words, "golang")
}

// arguments are a program as the tool takes it.
func (t tool) arguments(p MCPProgram) (map[string]any, error) {
	out := map[string]any{t.code: p.Source}
	if t.language != "" {
		out[t.language] = "go"
	}
	switch {
	case t.stdin != "":
		out[t.stdin] = p.Stdin
	case p.Stdin != "":
		return nil, fmt.Errorf("running a program through MCP: the tool %.40q takes no input for it", t.name)
	}
	switch {
	case t.args != "" && len(p.Args) > 0:
		out[t.args] = p.Args
	case len(p.Args) > 0:
		return nil, fmt.Errorf("running a program through MCP: the tool %.40q takes no arguments for it", t.name)
	}
	return out, nil
}

// MCPResult is what a server says of a program. All of it may be a lie.
type MCPResult struct {
	// Refused says that there was no run, and Message why, in the server's words.
	Refused bool
	Message string

	// Built, ExitCode and Signal are as the server tells; where it tells in words
	// only, the words are Stdout, and the program counts as built and ended well.
	Built          bool
	ExitCode       int
	Signal         string
	Stdout, Stderr string
	// Limits are those that the program met, in the server's words.
	Limits []string
}

// structured is a result with structure, as ours and, by common names, others
// write it.
type structured struct {
	Build *struct {
		OK     bool   `json:"ok"`
		Output string `json:"output"`
	} `json:"build"`
	ExitCode   *int     `json:"exitCode"`
	ExitCode2  *int     `json:"exit_code"`
	Signal     string   `json:"signal"`
	Stdout     *string  `json:"stdout"`
	Stderr     *string  `json:"stderr"`
	Violations []string `json:"violations"`
}

// readResult reads what a tool returned. It never panics, and returns an error
// for what is no result of a program.
func readResult(got *mcp.CallToolResult) (MCPResult, error) {
	if got == nil {
		return MCPResult{}, errors.New("reading a tool's result: there is none")
	}
	text := words(got.Content)
	if got.IsError {
		return MCPResult{Refused: true, Message: text[:min(len(text), maxToolError)]}, nil
	}
	if got.StructuredContent == nil {
		if len(got.Content) == 0 {
			return MCPResult{}, errors.New("reading a tool's result: it is empty")
		}
		return MCPResult{Built: true, Stdout: text}, nil
	}
	doc, err := json.Marshal(got.StructuredContent)
	if err != nil {
		return MCPResult{}, fmt.Errorf("reading a tool's result: %w", err)
	}
	var s structured
	if err := json.Unmarshal(doc, &s); err != nil {
		return MCPResult{}, fmt.Errorf("reading a tool's result: %w", err)
	}
	r := MCPResult{Built: true, Signal: s.Signal, Limits: s.Violations}
	code := s.ExitCode
	if code == nil {
		code = s.ExitCode2
	}
	switch {
	case s.Build != nil && !s.Build.OK:
		r.Built, r.Stderr, r.ExitCode = false, s.Build.Output, -1
		return r, nil
	case code == nil && s.Stdout == nil && s.Stderr == nil:
		return MCPResult{}, errors.New("reading a tool's result: it has neither an exit code nor an output")
	case code != nil:
		r.ExitCode = *code
	}
	if s.Stdout != nil {
		r.Stdout = *s.Stdout
	}
	if s.Stderr != nil {
		r.Stderr = *s.Stderr
	}
	return r, nil
}

// words are the texts among a tool's contents.
func words(all []mcp.Content) string {
	var b strings.Builder
	for _, c := range all {
		if t, ok := c.(*mcp.TextContent); ok && t != nil {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}
