// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/workloads/gateway/sandboxes"
	"github.com/stockade-dev/stockade/workloads/router"
	"github.com/stockade-dev/stockade/workloads/runner/wire"
)

// ErrLost says that a sandbox is of no more use: it is gone, or could not be
// cleaned, or what answers there is no runner.
var ErrLost = errors.New("running a program: the sandbox is lost")

var errBusy = errors.New("running a program: the sandbox is busy")

// Timeouts of a call through the router.
const (
	// callTimeout is longer than the longest build and run together.
	callTimeout = 5 * time.Minute
	// A runner is busy for a moment after a call that was given up.
	busyTimeout = 10 * time.Second
	busyPause   = 100 * time.Millisecond
)

// Router runs programs in sandboxes by way of the sandbox router.
type Router struct {
	URL       string // without a path
	Namespace string // the sandboxes'
	Port      int    // the runners'
	// HTTP replaces the client in tests; its redirects are never followed.
	HTTP *http.Client
}

// Run implements [Runner].
func (r Router) Run(ctx context.Context, b *sandboxes.Sandbox, q wire.Request) (wire.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	body, err := q.Encode()
	if err != nil {
		return wire.Result{}, fmt.Errorf("running a program: %w", err)
	}
	for deadline := time.Now().Add(busyTimeout); ; {
		res, err := r.call(ctx, b, q.Run, body)
		if !errors.Is(err, errBusy) || time.Now().After(deadline) {
			return res, err
		}
		t := time.NewTimer(busyPause)
		select {
		case <-ctx.Done():
			t.Stop()
			return wire.Result{}, context.Cause(ctx)
		case <-t.C:
		}
	}
}

// call asks for the turn and comes with it.
func (r Router) call(ctx context.Context, b *sandboxes.Sandbox, run string, body []byte) (wire.Result, error) {
	var turn string
	err := r.ask(ctx, b, http.MethodGet, wire.RunPath, nil, func(answer io.Reader) (err error) {
		turn, err = wire.ReadTurn(answer)
		return err
	})
	if err != nil {
		return wire.Result{}, err
	}
	var res wire.Result
	path := wire.RunPath + "?" + url.Values{wire.TurnParam: {turn}}.Encode()
	err = r.ask(ctx, b, http.MethodPost, path, body, func(answer io.Reader) (err error) {
		res, err = wire.ReadResult(answer, run)
		return err
	})
	return res, err
}

// ask makes one request and has its answer read. Every header of it is made here:
// nothing that a client of the gateway sent is among them.
func (r Router) ask(ctx context.Context, b *sandboxes.Sandbox, method, path string, body []byte, read func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, method, r.URL+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("running a program: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(router.IDHeader, b.Name)
	req.Header.Set(router.UIDHeader, b.UID)
	req.Header.Set(router.NamespaceHeader, r.Namespace)
	req.Header.Set(router.PortHeader, strconv.Itoa(r.Port))
	res, err := r.client().Do(req)
	if err != nil {
		return fmt.Errorf("asking the router: %w", err)
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
		err := read(res.Body)
		if err != nil && ctx.Err() == nil {
			// Whatever speaks there has been taken over, or is broken.
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
		return err
	case http.StatusConflict:
		return errBusy
	case http.StatusNotFound, http.StatusGone, http.StatusBadGateway:
		return fmt.Errorf("%w: %s", ErrLost, r.why(res))
	}
	return fmt.Errorf("running a program: %s", r.why(res))
}

func (r Router) client() *http.Client {
	c := http.Client{Transport: direct}
	if r.HTTP != nil {
		c = *r.HTTP
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}

// direct asks no proxy: the environment's is meant for the world outside.
var direct = &http.Transport{MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: 90 * time.Second}

// why is the beginning of an answer that is none, for the log.
func (r Router) why(res *http.Response) string {
	text, _ := io.ReadAll(io.LimitReader(res.Body, 300))
	return res.Status + ": " + strings.TrimSpace(wire.Clean(string(text)))
}
