// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/workloads/gateway"
	"github.com/stockade-dev/stockade/workloads/runner/wire"
)

// post sends a message outside of any session, and returns the answer without
// its body.
func (s *system) post(url, user string, body io.Reader) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, url, body)
	require.NoError(s.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Authorization", "Bearer token-of-"+user)
	res, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	_, _ = io.Copy(io.Discard, res.Body)
	require.NoError(s.t, res.Body.Close())
	return res
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`

func TestAUserHasSoManySessionsAndNoMore(t *testing.T) {
	s := newSystem(t, cannedRunner(0, nil))
	s.sessions = 2
	url, _ := s.replica("a", "alice", "bob")
	// What begins no session takes none.
	for range 3 {
		s.post(url, "alice", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		s.post(url, "alice", strings.NewReader("nonsense"))
	}
	first := s.mustConnect(url, "alice")
	// A place is given back a moment after the answer.
	require.Eventually(t, func() bool {
		return s.post(url, "alice", strings.NewReader(initialize)).StatusCode == http.StatusOK
	}, 10*time.Second, 5*time.Millisecond)

	refused := s.post(url, "alice", strings.NewReader(initialize))
	assert.Equal(t, http.StatusTooManyRequests, refused.StatusCode)
	assert.NotEmpty(t, refused.Header.Get("Retry-After"))
	assert.Empty(t, refused.Header.Get("Mcp-Session-Id"))
	_, err := call(t.Context(), first, gateway.Input{Code: "x"})
	require.NoError(t, err, "the sessions that there are go on")
	require.NoError(t, s.mustConnect(url, "bob").Close(), "another user has others")

	require.NoError(t, first.Close())
	require.Eventually(t, func() bool {
		return s.post(url, "alice", strings.NewReader(initialize)).StatusCode == http.StatusOK
	}, 10*time.Second, 5*time.Millisecond, "a session that was ended counts for nothing")
}

func TestASilentSessionDoesNotCountForEver(t *testing.T) {
	s := newSystem(t, cannedRunner(0, nil))
	s.sessions, s.silence = 1, 50*time.Millisecond
	url, _ := s.replica("a", "alice")
	require.Equal(t, http.StatusOK, s.post(url, "alice", strings.NewReader(initialize)).StatusCode)
	require.Eventually(t, func() bool {
		return s.post(url, "alice", strings.NewReader(initialize)).StatusCode == http.StatusOK
	}, 10*time.Second, 5*time.Millisecond)
}

func TestBodiesAreBoundedForAUserAndForAll(t *testing.T) {
	s := newSystem(t, cannedRunner(0, nil))
	url, _ := s.replica("a", "alice", "bob")
	// A body that does not end.
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		// It may be this one that finds no room.
		for code := http.StatusTooManyRequests; code == http.StatusTooManyRequests; {
			r, w := io.Pipe()
			wg.Go(func() {
				_, _ = io.WriteString(w, strings.Repeat(" ", 7<<20)) // fails where nobody reads
				<-end
				_ = w.Close()
			})
			code = s.post(url, "alice", r).StatusCode
		}
	})
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	status := func(user string) int { return s.post(url, user, strings.NewReader(ping)).StatusCode }
	is := func(user string, want int) {
		t.Helper()
		require.Eventually(t, func() bool { return status(user) == want }, 10*time.Second, 5*time.Millisecond, user)
	}
	largest := func(user string) *http.Response {
		return s.post(url, user, strings.NewReader(strings.Repeat(" ", 2*wire.MaxRequest)))
	}
	require.Eventually(t, func() bool {
		res := largest("alice")
		return res.StatusCode == http.StatusTooManyRequests && res.Header.Get("Retry-After") != ""
	}, 10*time.Second, 5*time.Millisecond)
	assert.Equal(t, http.StatusBadRequest, largest("bob").StatusCode, "it was read")
	close(end)
	wg.Wait()
	for _, user := range []string{"alice", "bob"} {
		is(user, http.StatusOK)
	}
}

func TestWhatIsAnnouncedAndDoesNotComeTakesNoRoom(t *testing.T) {
	s := newSystem(t, cannedRunner(0, nil))
	url, _ := s.replica("a", "alice", "bob", "carol")
	host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), gateway.MCPPath)
	for _, user := range []string{"alice", "bob"} {
		for _, size := range []int{2 * wire.MaxRequest, 2 * wire.MaxRequest, wire.MaxRequest} {
			c, err := net.Dial("tcp", host)
			require.NoError(t, err)
			defer c.Close()
			_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer token-of-%s\r\nContent-Type: application/json\r\n"+
				"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", gateway.MCPPath, host, user, size)
			require.NoError(t, err)
			// That it goes on is said when the body is being read.
			line, err := bufio.NewReader(c).ReadString('\n')
			require.NoError(t, err)
			assert.Contains(t, line, "100 Continue")
		}
	}
	for _, user := range []string{"alice", "bob", "carol"} {
		assert.Equal(t, http.StatusOK, s.post(url, user, strings.NewReader(initialize)).StatusCode, user)
	}
}

func TestLargeProgramsAfterEachOtherAreNotTooMuch(t *testing.T) {
	s := newSystem(t, cannedRunner(0, nil))
	url, _ := s.replica("a", "alice")
	session := s.mustConnect(url, "alice")
	large := gateway.Input{Files: []wire.File{{Path: "main.go", Content: strings.Repeat("x", 3<<20)}}}
	for range 6 {
		_, err := call(t.Context(), session, large)
		require.NoError(t, err)
	}
	require.NoError(t, session.Close())
}

func TestABodyOfManyValuesIsNotRead(t *testing.T) {
	s := newSystem(t, cannedRunner(0, nil))
	url, _ := s.replica("a", "alice")
	ping := func(values string) int {
		return s.post(url, "alice", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"x":[`+values+`0]}}}`)).StatusCode
	}
	assert.Equal(t, http.StatusOK, ping(strings.Repeat("0,", 100)))
	for _, value := range []string{`"",`, "{},", "[],", `"\\",`} {
		assert.Equal(t, http.StatusBadRequest, ping(strings.Repeat(value, 100_000)), value)
	}
	// What is in a string is the program's.
	assert.Equal(t, http.StatusOK, ping(`"`+strings.Repeat(`[{,\"`, 100_000)+`",`))

	session := s.mustConnect(url, "alice")
	var many []wire.File
	for i := range wire.MaxFiles - 1 {
		many = append(many, wire.File{Path: fmt.Sprintf("f%d.txt", i), Content: "[,{"})
	}
	_, err := call(t.Context(), session, gateway.Input{Files: append(many, wire.File{Path: "main.go", Content: "package main"})})
	require.NoError(t, err, "as many files as are taken")
	require.NoError(t, session.Close())
}
