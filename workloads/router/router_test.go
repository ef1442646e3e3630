// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"
)

// table resolves out of a map; the zero address stands for an API server that
// does not answer.
type table map[Target]netip.Addr

func (m table) Resolve(_ context.Context, t Target) (netip.Addr, error) {
	addr, ok := m[t]
	if !ok {
		return netip.Addr{}, ErrNotFound
	}
	if !addr.IsValid() {
		return netip.Addr{}, errors.New("no answer")
	}
	return addr, nil
}

var (
	box  = Target{Namespace: "ns", ID: "box", UID: "u-1"}
	down = Target{Namespace: "ns", ID: "down"}
	odd  = Target{Namespace: "ns", ID: "odd"}
)

// newRouter returns a router in front of one sandbox, and how often something
// was dialed.
func newRouter(t *testing.T, inside http.Handler) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	sandbox := httptest.NewServer(inside)
	t.Cleanup(sandbox.Close)
	dialed := &atomic.Int32{}
	r, err := New(Options{
		Resolver:   table{box: netip.MustParseAddr("10.0.0.7"), down: {}, odd: netip.MustParseAddr("169.254.169.254")},
		Namespaces: []string{"ns"}, Port: 8888, MaxRequest: 1000, MaxAnswer: 1000,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialed.Add(1)
			assert.Equal(t, "10.0.0.7:8888", addr)
			return (&net.Dialer{}).DialContext(ctx, network, sandbox.Listener.Addr().String())
		},
	})
	require.NoError(t, err)
	front := httptest.NewServer(r)
	t.Cleanup(front.Close)
	return front, dialed
}

func good() http.Header {
	return http.Header{IDHeader: {"box"}, NamespaceHeader: {"ns"}, UIDHeader: {"u-1"}, PortHeader: {"8888"}}
}

func send(t *testing.T, front *httptest.Server, method, path, body string, h http.Header) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, front.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header = h
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return res.StatusCode, "cut: " + err.Error(), res.Header
	}
	return res.StatusCode, string(text), res.Header
}

func TestARequestReachesTheSandboxWithoutItsCallersHeaders(t *testing.T) {
	var seen http.Header
	front, _ := newRouter(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Location", "http://elsewhere.example.com")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, r.Method+" "+r.URL.String()+" "+string(body))
	}))
	h := good()
	h.Set("Authorization", "Bearer secret")
	h.Set("Cookie", "secret")
	h.Set("X-Forwarded-For", "1.2.3.4")
	h.Set("Content-Type", "application/json")
	code, text, answer := send(t, front, http.MethodPost, "/v1/run?a=b", "body", h)
	assert.Equal(t, http.StatusTeapot, code)
	assert.Equal(t, "POST /v1/run?a=b body", text)
	for name := range seen {
		assert.Contains(t, []string{"Content-Type", "Content-Length", "Accept-Encoding", "User-Agent", "Connection"}, name)
	}
	assert.Empty(t, answer.Values("Set-Cookie"))
	assert.Empty(t, answer.Values("Location"))
}

func TestHeadersThatAreNotPlainAreRefused(t *testing.T) {
	front, dialed := newRouter(t, http.NotFoundHandler())
	for what, spoil := range map[string]func(http.Header){
		"no id":              func(h http.Header) { h.Del(IDHeader) },
		"a name with dots":   func(h http.Header) { h.Set(IDHeader, "box.evil.example.com") },
		"an address":         func(h http.Header) { h.Set(IDHeader, "169.254.169.254") },
		"a path":             func(h http.Header) { h.Set(IDHeader, "box/../x") },
		"upper case":         func(h http.Header) { h.Set(IDHeader, "Box") },
		"a long name":        func(h http.Header) { h.Set(IDHeader, strings.Repeat("a", 64)) },
		"two ids":            func(h http.Header) { h[IDHeader] = []string{"box", "other"} },
		"another namespace":  func(h http.Header) { h.Set(NamespaceHeader, "kube-system") },
		"two namespaces":     func(h http.Header) { h[NamespaceHeader] = []string{"ns", "kube-system"} },
		"another port":       func(h http.Header) { h.Set(PortHeader, "22") },
		"no port":            func(h http.Header) { h.Set(PortHeader, "08888") },
		"an address of ours": func(h http.Header) { h.Set(PodIPHeader, "10.0.0.7") },
		"metadata":           func(h http.Header) { h.Set(PodIPHeader, "169.254.169.254") },
		"an unknown header":  func(h http.Header) { h.Set("X-Sandbox-Host", "evil.example.com") },
		"an odd uid":         func(h http.Header) { h.Set(UIDHeader, "../..") },
	} {
		h := good()
		spoil(h)
		code, _, _ := send(t, front, http.MethodGet, "/", "", h)
		assert.Equal(t, http.StatusBadRequest, code, what)
	}
	assert.Zero(t, dialed.Load(), "nothing is dialed for a request that is refused")
}

func TestASandboxThatIsNotThereIsNotDialed(t *testing.T) {
	front, dialed := newRouter(t, http.NotFoundHandler())
	h := good()
	h.Set(UIDHeader, "u-2")
	code, _, _ := send(t, front, http.MethodGet, "/", "", h)
	assert.Equal(t, http.StatusNotFound, code, "the name alone is another session's by now")
	for id, want := range map[string]int{"nobody": http.StatusNotFound, "down": http.StatusServiceUnavailable, "odd": http.StatusServiceUnavailable} {
		code, _, _ := send(t, front, http.MethodGet, "/", "", http.Header{IDHeader: {id}})
		assert.Equal(t, want, code, id)
	}
	assert.Zero(t, dialed.Load(), "not even where the API server says that a Pod has the metadata server's address")
}

func TestNoRedirectIsFollowedOrPassedOn(t *testing.T) {
	for _, code := range []int{301, 302, 303, 307, 308} {
		front, dialed := newRouter(t, http.RedirectHandler("http://169.254.169.254/", code))
		got, text, h := send(t, front, http.MethodGet, "/", "", good())
		assert.Equal(t, http.StatusBadGateway, got)
		assert.NotContains(t, text, "169.254")
		assert.Empty(t, h.Get("Location"))
		assert.Equal(t, int32(1), dialed.Load())
	}
}

func TestTheRouterIsNoOpenProxy(t *testing.T) {
	front, dialed := newRouter(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Host+r.URL.Path)
	}))
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", front.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET http://evil.example.com/x HTTP/1.1\r\nHost: evil.example.com\r\nX-Sandbox-ID: box\r\nX-Sandbox-UID: u-1\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	text, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.Contains(t, string(text), "10.0.0.7:8888/x", "the host of the URL goes nowhere")
	assert.Equal(t, int32(1), dialed.Load())

	for _, method := range []string{http.MethodConnect, http.MethodDelete, http.MethodTrace, "PRI"} {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.Method, req.Header = method, good()
		w := httptest.NewRecorder()
		front.Config.Handler.ServeHTTP(w, req)
		assert.Equal(t, http.StatusMethodNotAllowed, w.Code, method)
	}
}

func TestUpgradesAreNotPassed(t *testing.T) {
	front, _ := newRouter(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Empty(t, r.Header.Get("Upgrade"))
		w.Header().Set("Upgrade", "x")
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(http.StatusSwitchingProtocols)
	}))
	h := good()
	h.Set("Connection", "Upgrade")
	h.Set("Upgrade", "websocket")
	code, _, _ := send(t, front, http.MethodGet, "/", "", h)
	assert.Equal(t, http.StatusBadGateway, code)
}

func TestBodiesAreBounded(t *testing.T) {
	front, _ := newRouter(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		_, _ = io.WriteString(w, strings.Repeat("x", 5000))
	}))
	_, text, _ := send(t, front, http.MethodGet, "/", "", good())
	assert.Contains(t, text, "cut")
	code, _, _ := send(t, front, http.MethodPost, "/", strings.Repeat("x", 5000), good())
	assert.Equal(t, http.StatusBadGateway, code)
}

func TestTheRouterSaysThatItIsThere(t *testing.T) {
	front, dialed := newRouter(t, http.NotFoundHandler())
	code, _, _ := send(t, front, http.MethodGet, "/healthz", "", http.Header{})
	assert.Equal(t, http.StatusOK, code)
	assert.Zero(t, dialed.Load())
}

func TestSettingsAreChecked(t *testing.T) {
	for _, o := range []Options{
		{}, {Resolver: table{}}, {Resolver: table{}, Namespaces: []string{"ns"}},
		{Resolver: table{}, Namespaces: []string{"n.s"}, Port: 1}, {Resolver: table{}, Namespaces: []string{"ns"}, Port: 70000},
	} {
		_, err := New(o)
		assert.Error(t, err)
	}
}

func FuzzTarget(f *testing.F) {
	r, err := New(Options{Resolver: table{}, Namespaces: []string{"ns", "other"}, Port: 8888})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("box", "ns", "8888", "u-1", "X-Sandbox-Pod-IP", "10.0.0.1")
	f.Add("a.b", "", "", "", "x-sandbox-id", "b")
	f.Fuzz(func(t *testing.T, id, ns, port, uid, name, value string) {
		h := http.Header{}
		h.Set(IDHeader, id)
		h.Set(NamespaceHeader, ns)
		h.Set(PortHeader, port)
		h.Set(UIDHeader, uid)
		h.Add(name, value)
		got, err := r.target(h)
		if err != nil {
			return
		}
		if len(validation.IsDNS1123Label(got.ID)) > 0 || !slices.Contains(r.o.Namespaces, got.Namespace) ||
			port != "" && port != "8888" || strings.ContainsAny(got.UID, "/.:%") || h.Get(PodIPHeader) != "" {
			t.Fatalf("%v was taken for %+v", h, got)
		}
	})
}
