// SPDX-License-Identifier: Apache-2.0

//go:build linux

package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stockade-dev/stockade/infra/atomicfile"
)

// The gate is the only way into the seal, and it opens inwards only: a process
// outside listens on the machine's own loopback address and dials the cluster's
// API server from a thread inside. Nothing in the seal can begin a connection
// through it. Programs that cannot live in the seal, the Pulumi engine first,
// reach the API server by it.

// gateName names the gate's record and log beside those of the daemons.
const gateName = "gate"

// gateWatchEvery is how often the gate looks whether it is still the one that others
// are told of.
const gateWatchEvery = 2 * time.Second

// maxGateConns bounds what a runaway client can hold open.
const maxGateConns = 512

// gateAddressPath is written by the gate once it listens, and goes with the
// engine's other run-time files.
func (e *Engine) gateAddressPath() string { return e.path("run/gate.address") }

// gateWishPath outlives the gate: the next one listens on the same address if
// it is free, so that what was told to others stays true.
func (e *Engine) gateWishPath() string { return e.path("gate.address") }

// OpenGate starts the gate, unless it is open, and returns its address.
// argv is the command line of a program that calls [Engine.ServeGate]. The
// calling process must be outside of the seal.
func (e *Engine) OpenGate(ctx context.Context, argv []string) (string, error) {
	if address, err := e.GateAddress(); err != nil || address != "" {
		return address, err
	}
	if inside, err := e.Inside(); err != nil {
		return "", fmt.Errorf("opening the gate: %w", err)
	} else if inside {
		return "", errors.New("opening the gate: this process is inside the seal, and the gate has to stand outside")
	}
	if err := e.CloseGate(ctx); err != nil {
		return "", err
	}
	cmd, err := e.launch(gateName, outside, argv[0], argv[1:]...)
	if err != nil {
		return "", err
	}
	if err := e.await(ctx, gateName, cmd, func() error {
		_, err := os.Stat(e.gateAddressPath())
		return err
	}); err != nil {
		return "", err
	}
	return e.GateAddress()
}

// GateAddress returns host and port of the gate, or nothing where none is open.
func (e *Engine) GateAddress() (string, error) {
	r, err := readRecord(e.recordPath(gateName))
	if err != nil || !r.alive() {
		return "", err
	}
	address, err := os.ReadFile(e.gateAddressPath())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("finding the gate: %w", err)
	}
	return strings.TrimSpace(string(address)), nil
}

// CloseGate ends the gate. That there is none is no error.
func (e *Engine) CloseGate(ctx context.Context) error {
	r, err := readRecord(e.recordPath(gateName))
	if err != nil {
		return fmt.Errorf("closing the gate: %w", err)
	}
	if err := r.end(ctx, e.opts.Timeouts.Stop); err != nil {
		return fmt.Errorf("closing the gate: %w", err)
	}
	for _, path := range []string{e.gateAddressPath(), e.recordPath(gateName)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("closing the gate: %w", err)
		}
	}
	return nil
}

// ServeGate is the gate, until ctx ends, or until nobody is told of it any more:
// a gate whose record was lost could be closed by nobody. target returns host and
// port inside the seal; it is asked anew for every connection, because a cluster
// that was made again has another address. A target that cannot be reached ends
// that connection alone.
func (e *Engine) ServeGate(ctx context.Context, target func() (string, error)) error {
	listener, err := e.gateListener(ctx)
	if err != nil {
		return fmt.Errorf("opening the gate: %w", err)
	}
	address := []byte(listener.Addr().String() + "\n")
	if err := errors.Join(atomicfile.Write(e.gateWishPath(), address, 0o600), atomicfile.Write(e.gateAddressPath(), address, 0o600)); err != nil {
		return errors.Join(fmt.Errorf("opening the gate: %w", err), listener.Close())
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	var g errgroup.Group
	g.Go(func() error {
		defer end()
		e.watchGate(ctx, address)
		return nil
	})
	g.Go(func() error {
		defer end()
		return serveGate(ctx, listener, func(ctx context.Context) (net.Conn, error) {
			to, err := target()
			if err != nil {
				return nil, err
			}
			return e.dialWithin(ctx, to)
		})
	})
	return g.Wait()
}

// watchGate returns when ctx ends, or when the address that others are told is not
// this gate's any more.
func (e *Engine) watchGate(ctx context.Context, address []byte) {
	tick := time.NewTicker(gateWatchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		told, err := os.ReadFile(e.gateAddressPath())
		if errors.Is(err, fs.ErrNotExist) || err == nil && !bytes.Equal(told, address) {
			fmt.Fprintln(os.Stderr, "gate: nobody is told of this one any more")
			return
		}
	}
}

// gateListener listens where the last gate did, or anywhere when somebody else
// has that port now. Loopback only: nobody else's machine has business here.
func (e *Engine) gateListener(ctx context.Context) (net.Listener, error) {
	var l net.ListenConfig
	if wish, err := os.ReadFile(e.gateWishPath()); err == nil {
		host, port, err := net.SplitHostPort(strings.TrimSpace(string(wish)))
		if err == nil && host == "127.0.0.1" {
			if listener, err := l.Listen(ctx, "tcp4", net.JoinHostPort(host, port)); err == nil {
				return listener, nil
			}
		}
	}
	return l.Listen(ctx, "tcp4", "127.0.0.1:0")
}

// dialWithin connects from a thread inside the seal. A socket belongs to the
// namespace that it was made in, so the rest of the process need not go there.
func (e *Engine) dialWithin(ctx context.Context, address string) (conn net.Conn, err error) {
	// A name would be looked up on other threads, and outside.
	host, _, err := net.SplitHostPort(address)
	if err != nil || net.ParseIP(host) == nil {
		return nil, fmt.Errorf("dialling into the seal: %q is not an IP address with a port", address)
	}
	err = e.within(func() error {
		var d net.Dialer
		conn, err = d.DialContext(ctx, "tcp", address)
		return err
	})
	return conn, err
}

// serveGate joins every connection to one that dial makes.
func serveGate(ctx context.Context, listener net.Listener, dial func(context.Context) (net.Conn, error)) error {
	var g errgroup.Group
	g.SetLimit(maxGateConns)
	for {
		in, err := listener.Accept()
		if ctx.Err() != nil {
			return g.Wait()
		}
		if err != nil {
			return fmt.Errorf("accepting a connection: %w", errors.Join(err, g.Wait()))
		}
		g.Go(func() error {
			out, err := dial(ctx)
			if err != nil {
				_ = in.Close() // the client sees that, and what else there is to say goes to our log
				fmt.Fprintln(os.Stderr, "gate:", err)
				return nil
			}
			join(ctx, in, out)
			return nil
		})
	}
}

// join copies both ways until both sides have ended, or ctx does.
func join(ctx context.Context, a, b net.Conn) {
	stop := context.AfterFunc(ctx, func() { _, _ = a.Close(), b.Close() })
	defer stop()
	var g errgroup.Group
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		g.Go(func() error {
			_, err := io.Copy(pair[0], pair[1])
			if half, ok := pair[0].(*net.TCPConn); ok && err == nil {
				return half.CloseWrite() // the other direction may go on
			}
			return errors.Join(err, pair[0].Close(), pair[1].Close())
		})
	}
	_ = g.Wait() // a connection that breaks is its two ends' affair
	_, _ = a.Close(), b.Close()
}
