// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/workloads/gateway"
	"github.com/stockade-dev/stockade/workloads/gateway/fake"
	manager "github.com/stockade-dev/stockade/workloads/gateway/sandboxes"
	"github.com/stockade-dev/stockade/workloads/router"
	"github.com/stockade-dev/stockade/workloads/runner/wire"
)

// to is a way to a server of this process.
func to(server *httptest.Server) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}
}

// serve starts an MCP server with a tool of this input.
func serve[In any](t *testing.T, name, description string, run func(*mcp.CallToolRequest, In) (*mcp.CallToolResult, error)) *httptest.Server {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: name, Description: description},
		func(_ context.Context, r *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
			got, err := run(r, in)
			return got, nil, err
		})
	up := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	t.Cleanup(up.Close)
	return up
}

func said(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

func open(t *testing.T, m MCP) *MCPSession {
	t.Helper()
	s, err := m.Open(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestProgramsRunThroughServersOfOthers(t *testing.T) {
	type one struct {
		Source string `json:"source"`
		Stdin  string `json:"stdin,omitempty"`
	}
	t.Run("a tool that speaks of Go", func(t *testing.T) {
		s := open(t, MCP{Dial: to(serve(t, "execute", "Runs a Go program.", func(_ *mcp.CallToolRequest, in one) (*mcp.CallToolResult, error) {
			return said(in.Source + "|" + in.Stdin), nil
		}))})
		r, err := s.Run(t.Context(), MCPProgram{Source: "package main", Stdin: "in"})
		require.NoError(t, err)
		assert.Equal(t, MCPResult{Built: true, Stdout: "package main|in"}, r)
		assert.NotEmpty(t, s.ID())
	})
	type many struct {
		Language string `json:"language"`
		Code     string `json:"code"`
	}
	t.Run("a tool for every language", func(t *testing.T) {
		s := open(t, MCP{Dial: to(serve(t, "run_code", "Runs code.", func(_ *mcp.CallToolRequest, in many) (*mcp.CallToolResult, error) {
			return said(in.Language), nil
		}))})
		r, err := s.Run(t.Context(), MCPProgram{Source: "x"})
		require.NoError(t, err)
		assert.Equal(t, "go", r.Stdout)
		_, err = s.Run(t.Context(), MCPProgram{Source: "x", Stdin: "in"})
		assert.ErrorContains(t, err, "no input")
	})
	type other struct {
		Code   string `json:"code"`
		Number int    `json:"number"` // required, and nobody knows what for
	}
	for name, description := range map[string]string{"run_python": "Runs Python.", "go_lint": "Checks Go code by a number."} {
		t.Run("no tool for it: "+name, func(t *testing.T) {
			_, err := MCP{Dial: to(serve(t, name, description, func(*mcp.CallToolRequest, other) (*mcp.CallToolResult, error) {
				return said(""), nil
			}))}.Open(t.Context())
			assert.ErrorContains(t, err, "none of")
		})
	}
	type arguments struct {
		Code string   `json:"code"`
		Args []string `json:"args"` // required
	}
	t.Run("no tool for it: nobody gives a program arguments", func(t *testing.T) {
		_, err := MCP{Dial: to(serve(t, "go_run", "Runs Go.", func(*mcp.CallToolRequest, arguments) (*mcp.CallToolResult, error) {
			return said(""), nil
		}))}.Open(t.Context())
		assert.ErrorContains(t, err, "none of")
	})
}

func TestOurOwnToolIsPreferred(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	type in struct {
		Code string `json:"code"`
	}
	for _, name := range []string{"go_a", "run_go", "go_z"} {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: "Runs Go."}, func(context.Context, *mcp.CallToolRequest, in) (*mcp.CallToolResult, any, error) {
			return said(name), nil, nil
		})
	}
	up := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	defer up.Close()
	r, err := open(t, MCP{Dial: to(up)}).Run(t.Context(), MCPProgram{Source: "x"})
	require.NoError(t, err)
	assert.Equal(t, "run_go", r.Stdout)
}

func TestWhatGoesAlongWithAProgram(t *testing.T) {
	type in struct {
		Code string `json:"code"`
	}
	var tokens, extra atomic.Value
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "run_go"}, func(_ context.Context, r *mcp.CallToolRequest, _ in) (*mcp.CallToolResult, any, error) {
		extra.Store(r.Extra.Header.Get("X-Sandbox-Id"))
		return said(""), nil, nil
	})
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens.Store(r.Header.Get("Authorization"))
		h.ServeHTTP(w, r)
	}))
	defer up.Close()
	session := open(t, MCP{Dial: to(up), Token: "secret"})
	_, err := session.Run(t.Context(), MCPProgram{Source: "x", Header: http.Header{"x-sandbox-id": {"victim"}}})
	require.NoError(t, err)
	assert.Equal(t, "Bearer secret", tokens.Load())
	assert.Equal(t, "victim", extra.Load())
	_, err = session.Run(t.Context(), MCPProgram{Source: "x"})
	require.NoError(t, err)
	assert.Empty(t, extra.Load(), "it goes along once")

	// A raw request goes without the session's token.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/mcp", nil)
	require.NoError(t, err)
	answer, _, err := session.Send(t.Context(), r)
	require.NoError(t, err)
	assert.NotEqual(t, http.StatusOK, answer.StatusCode)
	assert.Empty(t, tokens.Load())
}

func TestWhatTheServerRefusesIsAResult(t *testing.T) {
	type in struct {
		Code string `json:"code"`
	}
	s := open(t, MCP{Dial: to(serve(t, "run_go", "", func(*mcp.CallToolRequest, in) (*mcp.CallToolResult, error) {
		return nil, fmt.Errorf("no more for you: %s", strings.Repeat("x", 2*maxToolError))
	}))})
	r, err := s.Run(t.Context(), MCPProgram{Source: "x"})
	require.NoError(t, err)
	assert.True(t, r.Refused)
	assert.Contains(t, r.Message, "no more for you")
	assert.LessOrEqual(t, len(r.Message), maxToolError)
}

// The whole of our own server but the cluster.
func TestProgramsRunThroughOurOwnServer(t *testing.T) {
	cluster := fake.New(t)
	cluster.Start = func(name string) fake.Box {
		return fake.Box{Handler: fake.Runner(func(w http.ResponseWriter, r *http.Request) {
			q, err := wire.ReadRequest(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			res := wire.Result{Run: q.Run, Build: wire.Build{OK: q.Stdin != "broken", Output: "main.go:1: no"}, Stdout: name, ExitCode: 2}
			res.Started = res.Build.OK
			_ = json.NewEncoder(w).Encode(res)
		})}
	}
	front, err := router.New(router.Options{Resolver: router.Kube{Client: cluster.Client()}, Namespaces: []string{fake.Namespace}, Port: 8888, Dial: cluster.Dial})
	require.NoError(t, err)
	proxy := httptest.NewServer(front)
	defer proxy.Close()
	boxes, err := manager.New(manager.Options{Client: cluster.Client(), Namespace: fake.Namespace, Pool: "pool", Holder: "a",
		Timeouts: manager.Timeouts{Poll: 2 * time.Millisecond}})
	require.NoError(t, err)
	g, err := gateway.New(context.Background(), gateway.Options{Pool: boxes, Runner: gateway.Router{URL: proxy.URL, Namespace: fake.Namespace, Port: 8888}})
	require.NoError(t, err)
	up := httptest.NewServer(g.Handler(nil))
	defer up.Close()

	s := open(t, MCP{Dial: to(up)})
	r, err := s.Run(t.Context(), MCPProgram{Source: "package main\nfunc main() {}"})
	require.NoError(t, err)
	assert.Equal(t, MCPResult{Built: true, Stdout: cluster.Pods()[0], ExitCode: 2}, r)
	r, err = s.Run(t.Context(), MCPProgram{Source: "x", Stdin: "broken"})
	require.NoError(t, err)
	assert.Equal(t, MCPResult{ExitCode: -1, Stderr: "main.go:1: no"}, r)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "twice is no error")
	assert.Eventually(t, func() bool { return len(cluster.Claims()) == 0 }, 10*time.Second, time.Millisecond, "its sandbox is given back")
	require.NoError(t, g.Close(t.Context()))
}

// hostile answers every request in one way.
func hostile(t *testing.T, answer http.HandlerFunc) MCP {
	t.Helper()
	up := httptest.NewServer(answer)
	t.Cleanup(func() {
		up.CloseClientConnections()
		up.Close()
	})
	return MCP{Dial: to(up)}
}

func TestAHostileServerIsBoundedAndIsAnError(t *testing.T) {
	endless := func(w io.Writer, text string) {
		for {
			if _, err := io.WriteString(w, text); err != nil {
				return
			}
		}
	}
	for name, answer := range map[string]http.HandlerFunc{
		"it redirects": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://attacker.stockade.test/", http.StatusFound)
		},
		"it sends no JSON": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "\x1b[2J{")
		},
		"it sends JSON without end": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			endless(w, "[[[[[[[[[[[[[[[[")
		},
		"it sends events without end": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			endless(w, ": nothing\n\n")
		},
		"it sends an event without end": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			endless(w, "data: x")
		},
		"it sends headers without end": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 2*maxHead))
		},
		"it speaks another version": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}`)
		},
		"it says nothing": func(_ http.ResponseWriter, r *http.Request) {
			// Only then is it noticed that the client has gone.
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		},
		"it closes the door": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			began := time.Now()
			_, err := hostile(t, answer).Open(ctx)
			require.Error(t, err)
			assert.Less(t, time.Since(began), 20*time.Second)
		})
	}
}

func TestAListOfToolsWithoutEndIsNotRead(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ServerOptions{PageSize: 10})
	type in struct {
		Code string `json:"code"`
	}
	for i := range maxTools + 10 {
		mcp.AddTool(s, &mcp.Tool{Name: fmt.Sprintf("tool%d", i)}, func(context.Context, *mcp.CallToolRequest, in) (*mcp.CallToolResult, any, error) {
			return said(""), nil, nil
		})
	}
	up := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	defer up.Close()
	_, err := MCP{Dial: to(up)}.Open(t.Context())
	assert.ErrorContains(t, err, "more than")
}

// A server that hangs in a call, and in the goodbye.
func TestACallEndsWithItsTimeAndTheSessionAllTheSame(t *testing.T) {
	type in struct {
		Code string `json:"code"`
	}
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "run_go"}, func(context.Context, *mcp.CallToolRequest, in) (*mcp.CallToolResult, any, error) {
		<-stop
		return said(""), nil, nil
	})
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			<-stop
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(up.CloseClientConnections)
	session := open(t, MCP{Dial: to(up)})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := session.Run(ctx, MCPProgram{Source: "x"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	began := time.Now()
	require.Error(t, session.Close())
	assert.Less(t, time.Since(began), closeTimeout+2*time.Second)
	require.Error(t, session.Close(), "it is still not known to have ended")
}

// A goodbye that is not heard the first time is said again.
func TestAGoodbyeIsSaidAgain(t *testing.T) {
	type in struct {
		Code string `json:"code"`
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "run_go"}, func(context.Context, *mcp.CallToolRequest, in) (*mcp.CallToolResult, any, error) {
		return said(""), nil, nil
	})
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
	var heard, tokens atomic.Int32
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			if r.Header.Get("Authorization") == "Bearer secret" {
				tokens.Add(1)
			}
			if heard.Add(1) == 1 {
				c, _, err := http.NewResponseController(w).Hijack()
				if assert.NoError(t, err) {
					assert.NoError(t, c.Close())
				}
				return
			}
		}
		h.ServeHTTP(w, r)
	}))
	defer up.Close()
	session := open(t, MCP{Dial: to(up), Token: "secret"})
	require.NoError(t, session.Close())
	assert.Equal(t, int32(2), heard.Load())
	assert.Equal(t, int32(2), tokens.Load())
	for range s.Sessions() {
		assert.Fail(t, "the server still has the session")
	}
}

func TestAResultIsReadAsItIs(t *testing.T) {
	for name, c := range map[string]struct {
		doc  string
		want MCPResult
		bad  bool
	}{
		"ours": {`{"content":[{"type":"text","text":"shown"}],"structuredContent":{"run":"r","build":{"ok":true},"started":true,"exitCode":3,"stdout":"out","stderr":"err","violations":["output-limit"]}}`,
			MCPResult{Built: true, ExitCode: 3, Stdout: "out", Stderr: "err", Limits: []string{"output-limit"}}, false},
		"not built":        {`{"content":[],"structuredContent":{"build":{"ok":false,"output":"no"},"exitCode":-1}}`, MCPResult{ExitCode: -1, Stderr: "no"}, false},
		"another's":        {`{"content":[],"structuredContent":{"exit_code":1,"stdout":"x"}}`, MCPResult{Built: true, ExitCode: 1, Stdout: "x"}, false},
		"words":            {`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, MCPResult{Built: true, Stdout: "ab"}, false},
		"a refusal":        {`{"content":[{"type":"text","text":"no"}],"isError":true}`, MCPResult{Refused: true, Message: "no"}, false},
		"nothing":          {`{"content":[]}`, MCPResult{}, true},
		"another thing":    {`{"content":[],"structuredContent":{"answer":42}}`, MCPResult{}, true},
		"a list":           {`{"content":[],"structuredContent":[1,2]}`, MCPResult{}, true},
		"a code in letter": {`{"content":[],"structuredContent":{"exitCode":"0"}}`, MCPResult{}, true},
	} {
		var got mcp.CallToolResult
		require.NoError(t, json.Unmarshal([]byte(c.doc), &got), name)
		r, err := readResult(&got)
		assert.Equal(t, c.bad, err != nil, "%s: %v", name, err)
		assert.Equal(t, c.want, r, name)
	}
	_, err := readResult(nil)
	assert.Error(t, err)
}

func FuzzReadResult(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"x"}],"structuredContent":{"build":{"ok":true},"exitCode":0,"stdout":"x"}}`))
	f.Add([]byte(`{"content":[{"type":"image","data":"","mimeType":"x"}],"isError":true}`))
	f.Add([]byte(`{"content":null,"structuredContent":{"build":null,"violations":[]}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		var got mcp.CallToolResult
		if json.Unmarshal(doc, &got) != nil {
			return
		}
		r, err := readResult(&got)
		if err != nil {
			assert.Equal(t, MCPResult{}, r)
			return
		}
		assert.LessOrEqual(t, len(r.Message), maxToolError)
		if r.Refused {
			assert.False(t, r.Built)
		}
	})
}

func FuzzReadTool(f *testing.F) {
	f.Add("run_go", []byte(`{"type":"object","properties":{"code":{"type":"string"}},"required":["code"]}`))
	f.Add("x", []byte(`{"properties":{"code":{"type":["null","string"]},"args":{"type":"array"}},"required":["args"]}`))
	f.Fuzz(func(t *testing.T, name string, schema []byte) {
		var s any
		if json.Unmarshal(schema, &s) != nil {
			return
		}
		got, ok := readTool(&mcp.Tool{Name: name, InputSchema: s})
		if !ok {
			return
		}
		arguments, err := got.arguments(MCPProgram{Source: "package main"})
		require.NoError(t, err)
		assert.Equal(t, "package main", arguments[got.code])
	})
}
