// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// apiServer plays the API server for port-forwards: it knows one Service, and
// connects to a place of this machine for every Pod. It speaks SPDY only, as an
// old one does, so that the fallback is what is tested.
type apiServer struct {
	t       *testing.T
	backend string
	pods    []string // ready ones
	tunnels atomic.Int32
	open    atomic.Int32 // tunnels, now
	refuse  atomic.Bool  // to connect to the Pod
	down    atomic.Bool
	gone    atomic.Bool // the Pods are

	mu    sync.Mutex
	conns []httpstream.Connection
	asked []string
}

func newAPIServer(t *testing.T, backend string, pods ...string) (*apiServer, *rest.Config, kubernetes.Interface) {
	t.Helper()
	a := &apiServer{t: t, backend: backend, pods: pods}
	up := httptest.NewServer(a)
	t.Cleanup(func() {
		up.CloseClientConnections()
		up.Close()
	})
	config := &rest.Config{Host: up.URL, QPS: -1}
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return a, config, client
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case a.down.Load():
		w.WriteHeader(http.StatusServiceUnavailable)
	case strings.HasSuffix(r.URL.Path, "/endpointslices"):
		a.slices(w)
	case strings.HasSuffix(r.URL.Path, "/portforward") && r.Method == http.MethodPost:
		a.forward(w, r)
	case strings.HasSuffix(r.URL.Path, "/portforward"):
		w.WriteHeader(http.StatusBadRequest) // a WebSocket: not here
	case strings.Contains(r.URL.Path, "/pods/"):
		if a.gone.Load() {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound})
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "x"}})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (a *apiServer) slices(w http.ResponseWriter) {
	name, other, number := "mcp", "metrics", int32(8080)
	yes, no := true, false
	s := discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{{Name: &other, Port: new(int32)}, {Name: &name, Port: &number}}}
	for _, p := range a.pods {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &yes},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: p}})
	}
	s.Endpoints = append(s.Endpoints,
		discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: &no}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "starting"}},
		discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: &yes}})
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(discoveryv1.EndpointSliceList{TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSliceList"},
		Items: []discoveryv1.EndpointSlice{s}})
}

// forward does what a kubelet does with the two streams of a connection.
func (a *apiServer) forward(w http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return
	}
	a.tunnels.Add(1)
	a.open.Add(1)
	defer a.open.Add(-1)
	var mu sync.Mutex
	failures := map[string]httpstream.Stream{}
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		id := s.Headers().Get(corev1.PortForwardRequestIDHeader)
		mu.Lock()
		defer mu.Unlock()
		if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
			failures[id] = s
			return nil
		}
		go a.serve(s, failures[id])
		return nil
	})
	if conn == nil {
		return
	}
	a.mu.Lock()
	a.conns = append(a.conns, conn)
	a.asked = append(a.asked, r.URL.Path)
	a.mu.Unlock()
	<-conn.CloseChan()
}

func (a *apiServer) serve(data, failure httpstream.Stream) {
	defer failure.Close()
	defer data.Close()
	if a.refuse.Load() || data.Headers().Get(corev1.PortHeader) != strconv.Itoa(8080) {
		_, _ = fmt.Fprint(failure, "connection refused")
		return
	}
	c, err := net.Dial("tcp", a.backend)
	if err != nil {
		_, _ = fmt.Fprint(failure, err)
		return
	}
	defer c.Close()
	go func() {
		_, _ = io.Copy(c, data)
		_ = c.Close()
	}()
	_, _ = io.Copy(data, c)
}

// cut ends all tunnels, as an API server does that is restarted.
func (a *apiServer) cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.conns {
		_ = c.Close()
	}
	a.conns = nil
}

// echo is a server that says everything again.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String()
}

func talk(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	require.NoError(t, err)
	got := make([]byte, len(text))
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	assert.Equal(t, text, string(got))
}

func TestConnectionsToAPodShareATunnelThatEndsWithThem(t *testing.T) {
	a, config, client := newAPIServer(t, echo(t), "a", "b")
	dial := ForwardTo(config, client, "ns", "svc", "mcp")
	var all []net.Conn
	for i := range 5 {
		c, err := dial(t.Context())
		require.NoError(t, err)
		talk(t, c, fmt.Sprintf("connection %d", i))
		all = append(all, c)
	}
	assert.Equal(t, int32(1), a.tunnels.Load())
	assert.Contains(t, all[0].RemoteAddr().String(), "ns/")
	assert.Error(t, all[0].SetDeadline(time.Now()), "it says that it has none")
	for _, c := range all {
		require.NoError(t, c.Close())
		require.NoError(t, c.Close(), "twice is no error")
	}
	c, err := dial(t.Context())
	require.NoError(t, err)
	talk(t, c, "at once")
	require.NoError(t, c.Close())
	assert.Equal(t, int32(1), a.tunnels.Load(), "the tunnel was still there")
	assert.Eventually(t, func() bool { return a.open.Load() == 0 }, 5*tunnelIdle, 10*time.Millisecond, "nobody needs it any more")
	c, err = dial(t.Context())
	require.NoError(t, err)
	talk(t, c, "again")
	require.NoError(t, c.Close())
	assert.Equal(t, int32(2), a.tunnels.Load(), "the first one had ended")
	a.mu.Lock()
	defer a.mu.Unlock()
	assert.Equal(t, a.asked[0], a.asked[1], "the Pod is kept")
}

func TestAnAPIServerThatRestartsCostsTheConnectionsOnly(t *testing.T) {
	a, config, client := newAPIServer(t, echo(t), "a", "b")
	dial := ForwardTo(config, client, "ns", "svc", "mcp")
	c, err := dial(t.Context())
	require.NoError(t, err)
	talk(t, c, "before")
	a.down.Store(true)
	a.cut()
	_, err = io.ReadAll(c)
	assert.NoError(t, err, "it is a stream that has ended")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err = dial(ctx)
	require.Error(t, err)
	a.down.Store(false)
	c, err = dial(t.Context())
	require.NoError(t, err)
	talk(t, c, "after")
	require.NoError(t, c.Close())
	a.mu.Lock()
	defer a.mu.Unlock()
	assert.Equal(t, a.asked[0], a.asked[1], "it was the API server that was away, and not the Pod")
}

func TestAPodThatIsGoneIsGivenUp(t *testing.T) {
	a, config, client := newAPIServer(t, echo(t), "a")
	dial := ForwardTo(config, client, "ns", "svc", "mcp")
	c, err := dial(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.Close())
	f := &forward{config: config, client: client, namespace: "ns", service: "svc", port: "mcp", pod: "a"}
	f.forget(t.Context())
	assert.Equal(t, "a", f.pod, "it is there")
	a.gone.Store(true)
	f.forget(t.Context())
	assert.Empty(t, f.pod)
}

func TestWhatThePodSaysOfAFailureIsTheError(t *testing.T) {
	a, config, client := newAPIServer(t, echo(t), "a")
	a.refuse.Store(true)
	c, err := ForwardTo(config, client, "ns", "svc", "mcp")(t.Context())
	require.NoError(t, err)
	assert.Eventually(t, func() bool {
		_, err := c.Read(make([]byte, 1))
		return err != nil && strings.Contains(err.Error(), "connection refused")
	}, 5*time.Second, time.Millisecond)
	require.NoError(t, c.Close())
}

func TestOnlyReadyPodsOfTheNamedPortAreReached(t *testing.T) {
	_, config, client := newAPIServer(t, echo(t))
	_, err := ForwardTo(config, client, "ns", "svc", "mcp")(t.Context())
	assert.ErrorContains(t, err, "no Pod is ready")
	_, config, client = newAPIServer(t, echo(t), "a")
	_, err = ForwardTo(config, client, "ns", "svc", "other")(t.Context())
	assert.ErrorContains(t, err, "no Pod is ready")
}

func TestATunnelThatDoesNotComeEndsWithTheContext(t *testing.T) {
	stop := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/endpointslices") {
			(&apiServer{t: t, pods: []string{"a"}}).slices(w)
			return
		}
		<-stop
	}))
	t.Cleanup(func() {
		close(stop)
		silent.Close()
	})
	config := &rest.Config{Host: silent.URL, QPS: -1}
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = ForwardTo(config, client, "ns", "svc", "mcp")(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// A whole session through a tunnel.
func TestHTTPGoesThroughATunnel(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s", r.Method, r.URL.Path)
	}))
	defer up.Close()
	_, config, client := newAPIServer(t, up.Listener.Addr().String(), "a")
	dial := ForwardTo(config, client, "ns", "svc", "mcp")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/x", nil)
			if !assert.NoError(t, err) {
				return
			}
			answer, body, err := Send(t.Context(), dial, r)
			if assert.NoError(t, err) {
				assert.Equal(t, http.StatusOK, answer.StatusCode)
				assert.Equal(t, "GET /x", string(body))
			}
		})
	}
	wg.Wait()
}
