// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/workloads/gateway/auth"
	"github.com/stockade-dev/stockade/workloads/gateway/sandboxes"
	"github.com/stockade-dev/stockade/workloads/runner/wire"
)

func TestABudgetIsOfEachAndOfAll(t *testing.T) {
	b := newBudget(2, 3)
	assert.True(t, b.take("alice", 2))
	assert.False(t, b.take("alice", 1), "it is hers")
	assert.True(t, b.take("bob", 1))
	assert.False(t, b.take("bob", 1), "it is all")
	b.give("alice", 2)
	assert.True(t, b.take("bob", 1))
	b.give("bob", 2)
	assert.Empty(t, b.of, "who has nothing is forgotten")
	assert.Zero(t, b.total)
}

func TestWhatHasComeOfABodyCounts(t *testing.T) {
	g, err := New(t.Context(), Options{Pool: nothing{}, Runner: Router{}})
	require.NoError(t, err)
	var tokens strings.Builder
	for _, user := range []string{"alice", "bob", "carol"} {
		fmt.Fprintf(&tokens, "%s sha256:%x\n", user, sha256.Sum256([]byte(user)))
	}
	static, err := auth.ParseStatic(strings.NewReader(tokens.String()))
	require.NoError(t, err)
	const held = "Held"
	reading, read, end := make(chan struct{}), make(chan struct{}), make(chan struct{})
	h := auth.Middleware(static, slog.New(slog.DiscardHandler))(g.bounded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hold := r.Header.Get(held) != ""
		if hold {
			reading <- struct{}{}
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, "what the library says", http.StatusBadRequest)
			return
		}
		if hold {
			read <- struct{}{}
			<-end
		}
	})))
	send := func(user string, body io.Reader, hold string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, MCPPath, body)
		r.Header.Set("Authorization", "Bearer "+user)
		r.Header.Set("Mcp-Session-Id", "x")
		r.Header.Set(held, hold)
		r.ContentLength = maxBody // whatever comes
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	spaces := func(n int) io.Reader { return strings.NewReader(strings.Repeat(" ", n)) }
	code := func(user string) int { return send(user, spaces(1), "").Code }
	var wg sync.WaitGroup
	begin := func(user string, body io.Reader) {
		wg.Go(func() { assert.Equal(t, http.StatusOK, send(user, body, "yes").Code) })
		<-reading
	}

	// Nothing comes of these.
	var silent []*io.PipeWriter
	for _, user := range []string{"alice", "bob", "alice", "bob"} {
		r, w := io.Pipe()
		begin(user, r)
		silent = append(silent, w)
	}
	for _, user := range []string{"alice", "bob", "carol"} {
		assert.Equal(t, http.StatusOK, code(user), user)
	}

	begin("alice", spaces(userBytes))
	<-read
	refused := send("alice", spaces(1), "")
	assert.Equal(t, http.StatusTooManyRequests, refused.Code)
	assert.NotEmpty(t, refused.Header().Get("Retry-After"))
	assert.NotContains(t, refused.Body.String(), "library")
	assert.Equal(t, http.StatusOK, code("bob"))
	begin("bob", spaces(userBytes))
	<-read
	assert.Equal(t, http.StatusTooManyRequests, code("carol"))
	assert.EqualValues(t, allBytes, g.bodies.total, "what is refused takes nothing")
	close(end)
	for _, w := range silent {
		require.NoError(t, w.Close())
		<-read
	}
	wg.Wait()
	assert.Equal(t, http.StatusOK, code("carol"))
	assert.Zero(t, g.bodies.total)
}

// nothing is a pool without sandboxes.
type nothing struct{}

func (nothing) Take(context.Context, string) (*sandboxes.Sandbox, error) {
	return nil, sandboxes.ErrTooMany
}
func (nothing) Locate(context.Context, *sandboxes.Sandbox) ([]netip.Addr, error) {
	return nil, sandboxes.ErrLost
}
func (nothing) Renew(context.Context, *sandboxes.Sandbox) error   { return nil }
func (nothing) Release(context.Context, *sandboxes.Sandbox) error { return nil }
func (nothing) Collect(context.Context) (int, error)              { return 0, nil }
func (nothing) TTL() time.Duration                                { return time.Minute }

func TestACallOfWhoHungUpCountsAllTheSame(t *testing.T) {
	g, err := New(t.Context(), Options{Pool: nothing{}, Runner: Router{}})
	require.NoError(t, err)
	// As calls have it whose requests are over.
	in := Input{Files: []wire.File{{Path: "a.go", Content: "xxx"}}, Args: []string{"y"}, Stdin: "z"}
	assert.EqualValues(t, 9, in.size())
	require.True(t, g.calls.take("local", userBytes-in.size()+1))
	_, _, err = g.run(t.Context(), &mcp.CallToolRequest{}, in)
	require.ErrorIs(t, err, errTooMuch)
	assert.ErrorContains(t, err, "try again later")
	assert.Equal(t, userBytes-in.size()+1, g.calls.total, "what is refused takes nothing")
}

func TestNobodyHasLessThanNoSession(t *testing.T) {
	_, err := New(t.Context(), Options{Pool: nothing{}, Runner: Router{}, MaxSessions: -1})
	require.ErrorContains(t, err, "sessions")
}
