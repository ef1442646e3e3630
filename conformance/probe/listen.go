// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

// ListenScenario is the scenario name in a listener's frames, and
// ListenerMarker opens its answer: "STOCKADE-LISTENER <nonce>\n". Who reads
// the marker has truly reached the listener, and no stand-in on the way.
const (
	ListenScenario = "listen"
	ListenerMarker = "STOCKADE-LISTENER"
	// ListenFor is how long a listener lives when nobody ends it.
	ListenFor = time.Minute
)

// Listen answers every TCP connection to port, on all addresses, with the
// marker and the nonce. It reports on out, in frames, that it listens, and
// ends when in does, when ctx does, or after [ListenFor].
func Listen(ctx context.Context, port int, nonce string, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, ListenFor)
	defer cancel()
	enc := NewEncoder(out)
	frame := func(f Frame) error {
		f.Scenario, f.Nonce = ListenScenario, nonce
		return enc.Encode(f)
	}
	if err := frame(Frame{Kind: Begin}); err != nil {
		return err
	}
	step := verdict.Step{Name: "listen", Expect: verdict.MustWork, OK: true, Detail: strconv.Itoa(port)}
	// "tcp" is both families where the host has both.
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		step.OK, step.Class, step.Detail = false, verdict.Unknown, err.Error()
	}
	if ferr := frame(Frame{Kind: Step, Step: &step}); ferr != nil || err != nil {
		return fmt.Errorf("listening on port %d: %w", port, cmp.Or(err, ferr))
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		<-ctx.Done()
		_ = l.Close() // ends Accept
	})
	// The reader ends with the input or with the process.
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			break
		}
		wg.Go(func() { answer(c, nonce) })
	}
	cancel()
	wg.Wait()
	return frame(Frame{Kind: Done, Steps: 1})
}

// answer speaks first: a client needs to send nothing to know whom it reached.
func answer(c net.Conn, nonce string) {
	defer c.Close()                                         //nolint:errcheck // nothing is buffered
	_ = c.SetDeadline(time.Now().Add(time.Second))          // a client that stalls is cut off
	_, _ = fmt.Fprintf(c, "%s %s\n", ListenerMarker, nonce) // the client is gone if this fails
}
