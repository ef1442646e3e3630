// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ErrNotFound says that there is no such sandbox, or none that is in use.
var ErrNotFound = errors.New("finding a sandbox: there is none of that name and uid in use")

// Resolver finds where a sandbox is. Its errors are [ErrNotFound], or that of
// asking.
type Resolver interface {
	Resolve(ctx context.Context, t Target) (netip.Addr, error)
}

// Timeouts bound everything that the router waits for.
type Timeouts struct {
	Resolve time.Duration // the API server; default 10 s
	Dial    time.Duration // the sandbox's port; default 5 s
	// Answer is how long a sandbox may take for its whole answer. It has to be
	// longer than the longest build and run. Default 5 min.
	Answer time.Duration
}

// Options say what the router serves.
type Options struct {
	Resolver   Resolver
	Namespaces []string // those of sandboxes; the first is meant when none is named
	Port       int      // the sandboxes' server port
	// MaxRequest and MaxAnswer bound bodies, in bytes; default 8 MiB each.
	MaxRequest, MaxAnswer int64
	Timeouts              Timeouts
	// Dial replaces the network in tests.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	Log  *slog.Logger // nil is silent
}

// Router is the proxy. It is safe for concurrent use.
type Router struct {
	o         Options
	transport *http.Transport
}

// New returns a router.
func New(o Options) (*Router, error) {
	if o.Resolver == nil || len(o.Namespaces) == 0 {
		return nil, errors.New("setting up the router: it needs a resolver and a namespace")
	}
	for _, ns := range o.Namespaces {
		if msgs := validation.IsDNS1123Label(ns); len(msgs) > 0 {
			return nil, fmt.Errorf("setting up the router: the namespace %q is none: %s", ns, msgs[0])
		}
	}
	if o.Port < 1 || o.Port > 65535 {
		return nil, fmt.Errorf("setting up the router: the port %d is none", o.Port)
	}
	for _, f := range []struct {
		to *time.Duration
		or time.Duration
	}{{&o.Timeouts.Resolve, 10 * time.Second}, {&o.Timeouts.Dial, 5 * time.Second}, {&o.Timeouts.Answer, 5 * time.Minute}} {
		if *f.to == 0 {
			*f.to = f.or
		}
	}
	for _, n := range []*int64{&o.MaxRequest, &o.MaxAnswer} {
		if *n == 0 {
			*n = 8 << 20
		}
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: o.Timeouts.Dial}).DialContext
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Router{o: o, transport: &http.Transport{
		// Never a proxy out of the environment: what goes to a sandbox goes
		// there and nowhere else.
		Proxy:                  nil,
		DialContext:            o.Dial,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		// An address may be another sandbox's a moment later: a connection
		// serves one request.
		DisableKeepAlives: true,
	}}, nil
}

// requestHeaders and answerHeaders are what passes, in each direction. What a
// caller authenticates with is not among it, nor what names a sandbox.
var (
	requestHeaders = []string{"Accept", "Content-Type"}
	answerHeaders  = []string{"Content-Type"}
)

// ServeHTTP passes a request on to the sandbox that its headers name. Errors of
// the router itself are JSON, {"detail": …}, as those of upstream's: 400 for
// headers that name nothing, 404 for a sandbox that is not there, 502 for one
// that does not answer, 503 when the API server does not.
func (r *Router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.URL.Path == "/healthz" && req.Header.Get(IDHeader) == "" {
		w.WriteHeader(http.StatusOK)
		return
	}
	// CONNECT and upgrades would make a tunnel of which nobody sees the inside.
	if req.Method != http.MethodGet && req.Method != http.MethodPost {
		w.Header().Set("Allow", "GET, POST")
		fail(w, http.StatusMethodNotAllowed, "only GET and POST are passed on")
		return
	}
	t, err := r.target(req.Header)
	if err != nil {
		r.o.Log.Warn("refused", "err", err)
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(req.Context(), r.o.Timeouts.Answer)
	defer cancel()
	addr, err := r.resolve(ctx, t)
	switch {
	case errors.Is(err, ErrNotFound):
		fail(w, http.StatusNotFound, "there is no such sandbox in use")
		return
	case err != nil:
		r.o.Log.Error("not resolved", "sandbox", t.ID, "err", err)
		fail(w, http.StatusServiceUnavailable, "the sandbox cannot be looked up now")
		return
	}
	if err := r.pass(ctx, w, req, addr); err != nil {
		r.o.Log.Warn("no answer", "sandbox", t.ID, "err", err)
		fail(w, http.StatusBadGateway, "the sandbox does not answer")
	}
}

func (r *Router) resolve(ctx context.Context, t Target) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeouts.Resolve)
	defer cancel()
	addr, err := r.o.Resolver.Resolve(ctx, t)
	if err != nil {
		return netip.Addr{}, err
	}
	// The API server's word, but no Pod can be at any of these.
	addr = addr.Unmap()
	if !addr.IsValid() || addr.IsLoopback() || addr.IsUnspecified() || addr.IsMulticast() ||
		addr.IsLinkLocalUnicast() || addr.IsInterfaceLocalMulticast() {
		return netip.Addr{}, fmt.Errorf("finding a sandbox: %s is no Pod's address", addr)
	}
	return addr, nil
}

var errRedirect = errors.New("passing a request on: the sandbox wants to send its caller elsewhere")

// pass sends the request to the sandbox. Once it has written the beginning of an
// answer it returns no error: the caller sees a body that ends too soon.
func (r *Router) pass(ctx context.Context, w http.ResponseWriter, req *http.Request, addr netip.Addr) error {
	// Built anew: what is not named here does not pass. The path goes as the
	// caller wrote it, the host and the scheme of the caller's URL nowhere.
	to := &url.URL{Scheme: "http", Host: net.JoinHostPort(addr.String(), strconv.Itoa(r.o.Port)),
		Path: req.URL.Path, RawPath: req.URL.RawPath, RawQuery: req.URL.RawQuery}
	out, err := http.NewRequestWithContext(ctx, req.Method, to.String(), http.MaxBytesReader(w, req.Body, r.o.MaxRequest))
	if err != nil {
		return fmt.Errorf("passing a request on: %w", err)
	}
	out.ContentLength = req.ContentLength
	for _, name := range requestHeaders {
		if v := req.Header.Get(name); v != "" {
			out.Header.Set(name, v)
		}
	}
	out.Header.Set("User-Agent", "kode-gopher-router")
	// The transport alone follows no redirect.
	res, err := r.transport.RoundTrip(out)
	if err != nil {
		return fmt.Errorf("passing a request on: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode >= 300 && res.StatusCode < 400 {
		return errRedirect
	}
	for _, name := range answerHeaders {
		if v := res.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(res.StatusCode)
	n, err := io.Copy(w, io.LimitReader(res.Body, r.o.MaxAnswer+1))
	if err != nil || n > r.o.MaxAnswer {
		r.o.Log.Warn("an answer was cut", "bytes", n, "err", err)
		// Nothing else tells the caller that this was not the end.
		panic(http.ErrAbortHandler)
	}
	return nil
}

func fail(w http.ResponseWriter, code int, detail string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"detail": detail})
}
