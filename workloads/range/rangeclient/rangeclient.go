// SPDX-License-Identifier: Apache-2.0

// Package rangeclient reads the range's log: the witness of what reached the
// outside. It imports the standard library only.
//
// That a nonce is absent from the log means something only if the log is
// complete for the time in question. So ask with a [Mark] taken before the
// attempt: [Client.Since] refuses with [ErrIncomplete] when the range was
// restarted, lost something or is not listening, and a nil error together with
// no events is then a statement.
package rangeclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Event is one line of the range's log. All strings come from a hostile
// network; the range bounds their length, the reader must escape them.
type Event struct {
	Seq  uint64    `json:"seq"` // counts from 1, without gaps
	Time time.Time `json:"time"`
	// Proto is tcp, udp, icmp, icmp6, or "ip/N" for other protocols.
	Proto string `json:"proto,omitempty"`
	Src   string `json:"src,omitempty"` // host:port, or a bare address
	Dst   string `json:"dst,omitempty"` // the destination that was meant
	// Service is what the range took it for: syn, stream, tls, http, dns,
	// metadata, udp, icmp, ip, or range for the range's own start and stop.
	Service string `json:"service"`
	SNI     string `json:"sni,omitempty"`
	Host    string `json:"host,omitempty"`
	Path    string `json:"path,omitempty"`
	Name    string `json:"name,omitempty"` // the DNS name asked for, the HTTP method, or the range's remark
	Status  int    `json:"status,omitempty"`
	// Nonces are the 32-digit hex strings found in what arrived.
	Nonces []string `json:"nonces,omitempty"`
	// Canaries are metadata tokens, handed out (service metadata) or seen
	// coming back (any other).
	Canaries []string `json:"canaries,omitempty"`
	Bytes    int      `json:"bytes,omitempty"` // received so far
}

// Health is the range's own word on whether it can be believed.
type Health struct {
	OK      bool      `json:"ok"`
	Problem string    `json:"problem,omitempty"` // why not OK
	Run     string    `json:"run"`               // differs after each start
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Seq     uint64    `json:"seq"` // of the newest event
	// Lost counts what may have arrived without being written down.
	Lost uint64 `json:"lost"`
	// Evicted is the newest sequence number with a nonce that memory no
	// longer holds; 0 means that nothing was evicted.
	Evicted uint64 `json:"evicted"`
	IPv6    bool   `json:"ipv6"`
	// GoProxyHost is the name of the Go module proxy that the range plays; ""
	// for none.
	GoProxyHost string `json:"goProxyHost,omitempty"`
}

// Mark is a position in the log, taken before an attempt.
type Mark struct {
	Seq  uint64
	Run  string
	Lost uint64
}

// ErrIncomplete is wrapped when the log cannot prove an absence.
var ErrIncomplete = errors.New("the range's log is incomplete")

// Limits of the API, which the range enforces and the client relies on.
const (
	MaxPage  = 1000     // events of one answer
	maxBody  = 64 << 20 // bytes of one answer
	maxPages = 200
)

// Client speaks to one range over its unix socket.
type Client struct{ http *http.Client }

// New returns a Client for the socket at path. It does not connect yet.
func New(socket string) *Client {
	var d net.Dialer
	return &Client{http: &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return d.DialContext(ctx, "unix", socket)
			},
			MaxIdleConns: 2, IdleConnTimeout: 30 * time.Second,
		},
	}}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Health asks the range how it is. An error means that there was no answer;
// see [Health.OK] for the answer itself.
func (c *Client) Health(ctx context.Context) (Health, error) {
	var h Health
	if err := c.get(ctx, "/healthz", &h); err != nil {
		return Health{}, fmt.Errorf("asking the range for its health: %w", err)
	}
	return h, nil
}

// Mark returns the present end of the log. It fails with [ErrIncomplete] when
// the range says that it cannot hear.
func (c *Client) Mark(ctx context.Context) (Mark, error) {
	h, err := c.Health(ctx)
	if err != nil {
		return Mark{}, err
	}
	if !h.OK {
		return Mark{}, fmt.Errorf("marking the log: %w: %s", ErrIncomplete, h.Problem)
	}
	return Mark{Seq: h.Seq, Run: h.Run, Lost: h.Lost}, nil
}

// Events returns every event that the range still holds with the nonce; all
// events for "". It proves presence only; see [Client.Since] for absence.
func (c *Client) Events(ctx context.Context, nonce string) ([]Event, error) {
	return c.events(ctx, 0, nonce)
}

// Since returns the events after m that carry the nonce. With every error it
// returns what it has: what arrived has arrived. When the log since m is not
// complete the error wraps [ErrIncomplete].
func (c *Client) Since(ctx context.Context, m Mark, nonce string) ([]Event, error) {
	events, err := c.events(ctx, m.Seq, nonce)
	if err != nil {
		return events, err
	}
	// Health comes second, so that a loss during the first call is seen.
	h, err := c.Health(ctx)
	switch {
	case err != nil:
		return events, err
	case !h.OK:
		err = fmt.Errorf("%w: %s", ErrIncomplete, h.Problem)
	case h.Run != m.Run:
		err = fmt.Errorf("%w: the range was restarted at %s", ErrIncomplete, h.Started.Format(time.RFC3339))
	case h.Lost != m.Lost:
		err = fmt.Errorf("%w: %d arrivals were not written down", ErrIncomplete, h.Lost-m.Lost)
	case h.Evicted > m.Seq:
		err = fmt.Errorf("%w: older events were evicted from memory", ErrIncomplete)
	}
	return events, err
}

// Await polls until an event after m carries the nonce, and returns the
// events so far; after ctx is done it returns ctx's error.
func (c *Client) Await(ctx context.Context, m Mark, nonce string) ([]Event, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		events, err := c.events(ctx, m.Seq, nonce)
		if err != nil || len(events) > 0 {
			return events, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for nonce %.8s at the range: %w", nonce, ctx.Err())
		case <-tick.C:
		}
	}
}

func (c *Client) events(ctx context.Context, since uint64, nonce string) ([]Event, error) {
	var all []Event
	for range maxPages {
		q := url.Values{"since": {strconv.FormatUint(since, 10)}}
		if nonce != "" {
			q.Set("nonce", nonce)
		}
		var page []Event
		if err := c.get(ctx, "/events?"+q.Encode(), &page); err != nil {
			return all, fmt.Errorf("reading the range's log: %w", err)
		}
		all = append(all, page...)
		if len(page) < MaxPage {
			return all, nil
		}
		if next := page[len(page)-1].Seq; next > since {
			since = next
			continue
		}
		return all, errors.New("reading the range's log: its sequence does not advance")
	}
	return all, fmt.Errorf("reading the range's log: %w: more than %d events", ErrIncomplete, maxPages*MaxPage)
}

// CA returns, in PEM, the certificate authority with which the range signs
// its TLS answers, for clients that insist on verification.
func (c *Client) CA(ctx context.Context) ([]byte, error) {
	body, err := c.fetch(ctx, "/ca.pem")
	if err != nil {
		return nil, fmt.Errorf("reading the range's CA: %w", err)
	}
	return body, nil
}

func (c *Client) get(ctx context.Context, path string, into any) error {
	body, err := c.fetch(ctx, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

func (c *Client) fetch(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://range"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w (is the range running? `stockade up` starts it)", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxBody:
		return nil, fmt.Errorf("the answer to %s passes %d bytes", path, maxBody)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answered %s: %.200q", path, resp.Status, body)
	}
	return body, nil
}
