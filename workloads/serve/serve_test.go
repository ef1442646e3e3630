// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

func TestServersStopTogether(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := 0
	quiet := Server{Addr: "127.0.0.1:0", Handler: http.NotFoundHandler(), Log: slog.New(slog.DiscardHandler)}
	told := quiet
	told.Stop = func(context.Context) error { stopped++; return nil }
	require.NoError(t, HTTP(ctx, quiet, told))
	assert.Equal(t, 1, stopped)

	told.Stop = func(context.Context) error { return errors.New("something is left") }
	require.ErrorContains(t, HTTP(ctx, quiet, told), "something is left")
}

func TestAnAddressHasSoManyConnectionsAndTheNewestOfThem(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &fair{Listener: inner, most: 2, open: map[string][]*counted{}}
	srv := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
	var g errgroup.Group
	g.Go(func() error { return srv.Serve(l) })
	t.Cleanup(func() {
		assert.NoError(t, srv.Close())
		assert.ErrorIs(t, g.Wait(), http.ErrServerClosed)
		assert.Empty(t, l.open)
	})
	dial := func() net.Conn {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", inner.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	answers := func(c net.Conn) bool {
		require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return false
		}
		n, err := c.Read(make([]byte, 1024))
		return n > 0 && err == nil
	}
	first, second := dial(), dial()
	require.True(t, answers(first))
	require.True(t, answers(second))
	third := dial()
	require.True(t, answers(third))
	assert.False(t, answers(first), "the oldest had to go")
	assert.True(t, answers(second))
	require.NoError(t, second.Close())
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.open["127.0.0.1"]) == 1
	}, 10*time.Second, time.Millisecond)
	assert.True(t, answers(dial()))
	assert.True(t, answers(third), "there was room")
}

func TestAnAddressThatIsTakenIsAnError(t *testing.T) {
	bad := Server{Addr: "256.0.0.1:0", Handler: http.NotFoundHandler(), Log: slog.New(slog.DiscardHandler)}
	require.ErrorContains(t, HTTP(t.Context(), bad), "serving")
}

func TestAClusterThatIsNotThereIsAnError(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, path := range []string{"", filepath.Join(t.TempDir(), "none")} {
		_, err := Kube(path)
		assert.ErrorContains(t, err, "finding the cluster")
	}
}
