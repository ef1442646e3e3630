// SPDX-License-Identifier: Apache-2.0

//go:build linux

package engine

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// gate serves one on loopback, to a dialler of the test's, for as long as the
// test lasts, and returns its address.
func gate(t *testing.T, dial func(context.Context) (net.Conn, error)) string {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	var g errgroup.Group
	g.Go(func() error { return serveGate(ctx, listener, dial) })
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, g.Wait())
	})
	return listener.Addr().String()
}

func TestTheGateCarriesBothDirectionsAndTheEndOfEach(t *testing.T) {
	inner, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	var server errgroup.Group
	server.Go(func() error {
		c, err := inner.Accept()
		if err != nil {
			return err
		}
		asked, err := io.ReadAll(c) // ends because the client closes its half
		return errors.Join(err, func() error { _, err := c.Write(append([]byte("you said "), asked...)); return err }(), c.Close())
	})
	address := gate(t, func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", inner.Addr().String())
	})
	c, err := net.Dial("tcp4", address)
	require.NoError(t, err)
	_, err = c.Write([]byte("hello"))
	require.NoError(t, err)
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	answer, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.Equal(t, "you said hello", string(answer))
	require.NoError(t, c.Close())
	require.NoError(t, server.Wait())
}

func TestATargetThatIsGoneEndsThatConnectionAlone(t *testing.T) {
	address := gate(t, func(context.Context) (net.Conn, error) { return nil, errors.New("no cluster") })
	for range 2 {
		c, err := net.Dial("tcp4", address)
		require.NoError(t, err, "the gate goes on listening")
		_, err = io.ReadAll(c)
		assert.NoError(t, err, "closed, not left hanging")
		require.NoError(t, c.Close())
	}
}

func TestTheGateDialsNoNames(t *testing.T) {
	e, err := New(Options{Home: t.TempDir()})
	require.NoError(t, err)
	for _, address := range []string{"example.com:443", "10.0.0.1", ""} {
		_, err := e.dialWithin(t.Context(), address)
		assert.ErrorContains(t, err, "not an IP address", address)
	}
}

func TestTheGateStaysWhereItWasIfItCan(t *testing.T) {
	e, err := New(Options{Home: t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(e.dir, 0o755))
	first, err := e.gateListener(t.Context())
	require.NoError(t, err)
	wish := first.Addr().String()
	require.NoError(t, os.WriteFile(e.gateWishPath(), []byte(wish+"\n"), 0o600))

	second, err := e.gateListener(t.Context())
	require.NoError(t, err, "the port is taken: another one has to do")
	assert.NotEqual(t, wish, second.Addr().String())
	require.NoError(t, errors.Join(first.Close(), second.Close()))

	third, err := e.gateListener(t.Context())
	require.NoError(t, err)
	assert.Equal(t, wish, third.Addr().String())
	require.NoError(t, third.Close())
}

func TestAGateFileCannotMoveTheGateOffTheMachine(t *testing.T) {
	e, err := New(Options{Home: t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(e.dir, 0o755))
	require.NoError(t, os.WriteFile(e.gateWishPath(), []byte("0.0.0.0:0\n"), 0o600))
	l, err := e.gateListener(t.Context())
	require.NoError(t, err)
	assert.True(t, l.Addr().(*net.TCPAddr).IP.IsLoopback())
	require.NoError(t, l.Close())
}

func TestAGateThatNobodyIsToldOfEnds(t *testing.T) {
	e, err := New(Options{Home: t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(e.path("run"), 0o755))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- e.ServeGate(ctx, func() (string, error) { return "", errors.New("no cluster") }) }()
	require.Eventually(t, func() bool { _, err := os.Stat(e.gateAddressPath()); return err == nil }, 10*time.Second, 10*time.Millisecond)
	select {
	case err := <-ended:
		t.Fatal("it ended while others are told of it", err)
	case <-time.After(gateWatchEvery + gateWatchEvery/4):
	}
	require.NoError(t, os.RemoveAll(e.path("run"))) // with its record, which is lost
	require.NoError(t, <-ended)
	assert.NoError(t, ctx.Err())
}
