// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

// healthTime is how long a server may take that has work to do meanwhile: a runner
// builds a program.
const healthTime = 6 * time.Second

// AskServer asks a server how it is, as a client of it might.
func AskServer(ctx context.Context, name, addr string) verdict.Step {
	if addr == "" {
		return NoSite(name, "server")
	}
	c, err := Dial(ctx, "tcp", addr)
	if err != nil {
		return Denied(name, err)
	}
	defer c.Close() //nolint:errcheck // nothing is buffered
	return AskHealth(ctx, name, c, addr, "server")
}

// AskHealth asks whoever listens at the end of a connection how it is; who names
// what has to answer there.
func AskHealth(ctx context.Context, name string, c net.Conn, addr, who string) verdict.Step {
	_ = c.SetDeadline(time.Now().Add(healthTime)) // a closed connection fails below
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/healthz", nil)
	if err != nil {
		return Failed(name, verdict.Unknown, "%v", err)
	}
	answer, err := (&http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return c, nil },
	}).RoundTrip(req)
	if err != nil {
		return Failed(name, verdict.Unknown, "connected to %s, and no %s answered: %v", addr, who, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return Failed(name, verdict.Unknown, "connected to %s, and it is no %s that answered with status %d", addr, who, answer.StatusCode)
	}
	return Reached(name, "the %s at %s answered", who, addr)
}
