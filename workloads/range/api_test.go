// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/workloads/range/rangeclient"
)

// serveAPI runs the real API on a unix socket, as the client expects it.
func serveAPI(t *testing.T, l *eventLog, problem *string) *rangeclient.Client {
	t.Helper()
	api := newAPI(l, []byte("PEM"), func() rangeclient.Health {
		h := rangeclient.Health{OK: *problem == "", Problem: *problem}
		l.state(&h)
		return h
	})
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	require.NoError(t, err)
	go func() { _ = api.Serve(ln) }()
	t.Cleanup(func() { _ = api.Close() })
	return rangeclient.New(socket)
}

func TestAnAbsenceIsAStatementOnlyOverACompleteLog(t *testing.T) {
	l, _ := newTestLog(t)
	problem := ""
	c := serveAPI(t, l, &problem)
	mark, err := c.Mark(t.Context())
	require.NoError(t, err)

	events, err := c.Since(t.Context(), mark, testNonce)
	require.NoError(t, err)
	assert.Empty(t, events)

	l.append(rangeclient.Event{Service: "udp", Nonces: []string{testNonce}})
	events, err = c.Since(t.Context(), mark, testNonce)
	require.NoError(t, err)
	assert.Len(t, events, 1)
	got, err := c.Await(t.Context(), mark, testNonce)
	require.NoError(t, err)
	assert.Equal(t, events, got)

	l.lose(2)
	_, err = c.Since(t.Context(), mark, testNonce)
	require.ErrorIs(t, err, rangeclient.ErrIncomplete)
	assert.ErrorContains(t, err, "2 arrivals")

	mark, err = c.Mark(t.Context())
	require.NoError(t, err)
	l.run = "another"
	_, err = c.Since(t.Context(), mark, testNonce)
	require.ErrorIs(t, err, rangeclient.ErrIncomplete)

	mark, err = c.Mark(t.Context())
	require.NoError(t, err)
	l.evicted = mark.Seq + 1
	_, err = c.Since(t.Context(), mark, testNonce)
	require.ErrorIs(t, err, rangeclient.ErrIncomplete)

	problem = "deaf"
	_, err = c.Since(t.Context(), mark, testNonce)
	require.ErrorContains(t, err, "deaf")
	_, err = c.Mark(t.Context())
	require.ErrorIs(t, err, rangeclient.ErrIncomplete)
}

func TestTheClientReadsAllPages(t *testing.T) {
	l, _ := newTestLog(t)
	problem := ""
	for range 2*rangeclient.MaxPage + 7 {
		l.append(rangeclient.Event{Service: "syn"})
	}
	events, err := serveAPI(t, l, &problem).Events(t.Context(), "")
	require.NoError(t, err)
	assert.Len(t, events, 2*rangeclient.MaxPage+7)
}

func TestTheAPIRefusesWhatWouldReadAsAbsent(t *testing.T) {
	l, _ := newTestLog(t)
	api := newAPI(l, nil, func() rangeclient.Health { return rangeclient.Health{} }).Handler
	for _, q := range []string{"?nonce=ABC", "?nonce=" + testNonce + "0", "?since=-1", "?since=x"} {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/events"+q, nil))
		assert.Equal(t, http.StatusBadRequest, w.Code, q)
	}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/events", nil))
	assert.Equal(t, "[]\n", w.Body.String(), "no events are an empty list, not null")
	w = httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/events", nil))
	assert.Equal(t, http.StatusMethodNotAllowed, w.Code)
}
