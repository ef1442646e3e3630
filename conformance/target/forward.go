// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// ForwardTo returns a dialer to a ready Pod behind a Service, through the API
// server's port-forward. The first connection chooses a Pod by chance; the others
// go to the same one for as long as it is there, because what lives in one process
// (a session) is not found in another. The Pod sees its own loopback as the client,
// so no network policy applies. All connections share one tunnel to the API server,
// which is closed a moment after the last of them.
func ForwardTo(c *rest.Config, cs kubernetes.Interface, namespace, service, port string) func(context.Context) (net.Conn, error) {
	f := &forward{config: c, client: cs, namespace: namespace, service: service, port: port}
	f.upgrade = f.open
	return f.dial
}

type forward struct {
	config                   *rest.Config
	client                   kubernetes.Interface
	namespace, service, port string
	// upgrade opens a connection to the API server; a field for tests.
	upgrade func(ctx context.Context) (httpstream.Connection, error)

	mu     sync.Mutex
	pod    string
	number int32
	conn   httpstream.Connection
	users  int
	serial int
}

// dial opens one connection, and the tunnel for it where there is none.
func (f *forward) dial(ctx context.Context) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pod == "" {
		var err error
		if f.pod, f.number, err = f.choose(ctx); err != nil {
			return nil, err
		}
	}
	if f.conn != nil {
		select {
		case <-f.conn.CloseChan():
			f.drop()
		default:
		}
	}
	// A connection that was lost may not know it yet.
	for fresh := f.conn == nil; ; fresh = true {
		if f.conn == nil {
			conn, err := f.upgrade(ctx)
			if err != nil {
				err = fmt.Errorf("forwarding to Pod %s/%s: %w", f.namespace, f.pod, because(ctx, err))
				f.forget(ctx)
				return nil, err
			}
			f.conn, f.users = conn, 0
		}
		c, err := f.stream()
		if err == nil {
			return c, nil
		}
		f.drop()
		if fresh {
			return nil, fmt.Errorf("forwarding to Pod %s/%s: %w", f.namespace, f.pod, err)
		}
	}
}

// forget gives up a Pod that is gone. One that cannot be asked about is kept: it
// may be the API server that is away.
func (f *forward) forget(ctx context.Context) {
	pod, err := f.client.CoreV1().Pods(f.namespace).Get(ctx, f.pod, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed) {
		f.pod = ""
	}
}

func (f *forward) drop() {
	_ = f.conn.Close() // it is of no more use
	f.conn, f.users = nil, 0
}

// tunnelIdle is how long a tunnel without connections stays open: the next
// connection often follows soon.
const tunnelIdle = 2 * time.Second

// choose picks a ready Pod behind the Service, and the number of its port.
func (f *forward) choose(ctx context.Context) (pod string, port int32, err error) {
	slices, err := f.client.DiscoveryV1().EndpointSlices(f.namespace).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + f.service})
	if err != nil {
		return "", 0, fmt.Errorf("reading the endpoints of Service %s/%s: %w", f.namespace, f.service, err)
	}
	type choice struct {
		pod  string
		port int32
	}
	var all []choice
	for _, s := range slices.Items {
		for _, p := range s.Ports {
			if p.Port == nil || p.Name == nil || *p.Name != f.port {
				continue
			}
			for _, e := range s.Endpoints {
				ready := e.Conditions.Ready // none said is yes, says the API
				if e.TargetRef != nil && e.TargetRef.Kind == "Pod" && (ready == nil || *ready) {
					all = append(all, choice{e.TargetRef.Name, *p.Port})
				}
			}
		}
	}
	if len(all) == 0 {
		return "", 0, fmt.Errorf("reading the endpoints of Service %s/%s: no Pod is ready at the port %q", f.namespace, f.service, f.port)
	}
	c := all[rand.IntN(len(all))] //nolint:gosec // any will do
	return c.pod, c.port, nil
}

// open asks the API server for a tunnel to the Pod: over a WebSocket, and over
// SPDY where a proxy on the way does not let WebSockets through. Neither takes a
// context.
func (f *forward) open(ctx context.Context) (httpstream.Connection, error) {
	url := f.client.CoreV1().RESTClient().Post().
		Resource("pods").Namespace(f.namespace).Name(f.pod).SubResource("portforward").URL()
	ws, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, f.config)
	if err != nil {
		return nil, fmt.Errorf("preparing a WebSocket: %w", err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(f.config)
	if err != nil {
		return nil, fmt.Errorf("preparing SPDY: %w", err)
	}
	dialer := portforward.NewFallbackDialerForStreaming(ws, spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url),
		func(err error) bool { return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) })
	type outcome struct {
		conn httpstream.Connection
		err  error
	}
	done := make(chan outcome)
	var g errgroup.Group // whose end is the outcome's being taken
	g.Go(func() error {
		conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		select {
		case done <- outcome{conn, err}:
		case <-ctx.Done():
			if conn != nil {
				_ = conn.Close() // nobody waits for it any more
			}
		}
		return nil
	})
	select {
	case o := <-done:
		return o.conn, o.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// stream opens one connection in the tunnel: a stream for the data, and one on
// which the other end says what went wrong.
func (f *forward) stream() (net.Conn, error) {
	f.serial++
	h := http.Header{}
	h.Set(corev1.PortHeader, strconv.Itoa(int(f.number)))
	h.Set(corev1.PortForwardRequestIDHeader, strconv.Itoa(f.serial))
	h.Set(corev1.StreamType, corev1.StreamTypeError)
	failure, err := f.conn.CreateStream(h)
	if err != nil {
		return nil, fmt.Errorf("opening a stream: %w", err)
	}
	_ = failure.Close() // this end has nothing to say on it
	h = h.Clone()
	h.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := f.conn.CreateStream(h)
	if err != nil {
		_ = failure.Reset()
		return nil, fmt.Errorf("opening a stream: %w", err)
	}
	f.users++
	conn := f.conn
	c := &forwarded{Stream: data, to: forwardAddr(fmt.Sprintf("%s/%s:%d", f.namespace, f.pod, f.number)),
		done: func() {
			_, _ = data.Reset(), failure.Reset()
			conn.RemoveStreams(data, failure)
			f.left(conn)
		}}
	c.watch.Go(func() error {
		// Its end comes with that of the data.
		if text, _ := io.ReadAll(io.LimitReader(failure, maxToolError)); len(text) > 0 {
			c.fail(fmt.Errorf("forwarding to %s: %.200q", c.to, text))
		}
		return nil
	})
	return c, nil
}

// left ends the tunnel after the last connection in it.
func (f *forward) left(conn httpstream.Connection) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn != conn {
		return
	}
	if f.users--; f.users > 0 {
		return
	}
	time.AfterFunc(tunnelIdle, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.conn == conn && f.users == 0 {
			f.drop()
		}
	})
}

// forwarded is one connection.
type forwarded struct {
	httpstream.Stream
	to    forwardAddr
	watch errgroup.Group

	once sync.Once
	done func()

	mu  sync.Mutex
	err error
}

// forwardAddr names what a connection leads to.
type forwardAddr string

// Network and String implement [net.Addr].
func (forwardAddr) Network() string  { return "portforward" }
func (a forwardAddr) String() string { return string(a) }

func (c *forwarded) fail(err error) {
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	_ = c.Close() // whoever reads is woken
}

// Read prefers the other end's word to the mere end of the stream.
func (c *forwarded) Read(p []byte) (int, error) {
	n, err := c.Stream.Read(p)
	if err == nil || n > 0 {
		return n, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	if !errors.Is(err, io.EOF) {
		err = fmt.Errorf("reading from %s: %w", c.to, err)
	}
	return 0, err
}

// Close ends the connection in both directions.
func (c *forwarded) Close() error {
	c.once.Do(c.done)
	return nil
}

// LocalAddr and RemoteAddr implement [net.Conn].
func (c *forwarded) LocalAddr() net.Addr  { return forwardAddr("api-server") }
func (c *forwarded) RemoteAddr() net.Addr { return c.to }

// The streams know no deadlines; HTTP's client needs none.

// SetDeadline implements [net.Conn].
func (*forwarded) SetDeadline(time.Time) error { return os.ErrNoDeadline }

// SetReadDeadline implements [net.Conn].
func (*forwarded) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// SetWriteDeadline implements [net.Conn].
func (*forwarded) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }
