// SPDX-License-Identifier: Apache-2.0

package rangeclient

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What the client makes of the real API is tested beside that, in rangehost.
// Here it meets a range that misbehaves.
func fake(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Second}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	c := New(socket)
	t.Cleanup(c.Close)
	return c
}

func TestARangeThatIsNotThereIsAnErrorWithARemedy(t *testing.T) {
	_, err := New(filepath.Join(t.TempDir(), "none")).Health(t.Context())
	require.ErrorContains(t, err, "stockade up")
}

func TestASequenceThatDoesNotAdvanceIsAnError(t *testing.T) {
	page := "[" + repeat(`{"seq":1,"service":"udp"}`, MaxPage) + "]"
	c := fake(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(page))
	})
	_, err := c.Since(t.Context(), Mark{Seq: 1}, "")
	assert.ErrorContains(t, err, "does not advance")
}

func TestWhatWasReadBeforeAnErrorIsReturned(t *testing.T) {
	page := "["
	for i := range MaxPage {
		page += fmt.Sprintf(`{"seq":%d,"service":"udp"},`, i+1)
	}
	page = page[:len(page)-1] + "]"
	reads := 0
	c := fake(t, func(w http.ResponseWriter, r *http.Request) {
		if reads++; reads > 1 {
			http.Error(w, "no more", http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte(page))
	})
	events, err := c.Since(t.Context(), Mark{}, "")
	require.ErrorContains(t, err, "500")
	assert.Len(t, events, MaxPage)
}

func TestARefusalIsAnErrorAndNotAnAbsence(t *testing.T) {
	c := fake(t, func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusBadRequest) })
	_, err := c.Events(t.Context(), "bad")
	assert.ErrorContains(t, err, "400")
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	c := fake(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("[]")) })
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
	defer cancel()
	_, err := c.Await(ctx, Mark{}, "0123456789abcdef0123456789abcdef")
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

func repeat(s string, n int) string {
	out := s
	for range n - 1 {
		out += "," + s
	}
	return out
}
