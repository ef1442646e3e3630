// SPDX-License-Identifier: Apache-2.0

package target

import (
	"bytes"
	"context"
	_ "embed" // the delivery script
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

//go:embed deliver.sh
var script string

// Delivery runs the probe in Pods.
type Delivery struct {
	Carrier Carrier
	// Probe is the static binary, which is uploaded anew in each exec: nothing
	// of it is left in the sandbox afterwards.
	Probe []byte
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Preloaded is where images of ours have the probe.
const Preloaded = "/probe"

// block is dd's block size in bytes, to a multiple of which the upload is
// padded. Zeros after an ELF file mean nothing.
const block = 64 << 10

// exitNoPlace is the script's word for "the program did not arrive".
const exitNoPlace = 96

// Batch is one exec of a plan in a Pod.
type Batch struct {
	Pod  Pod
	Plan probe.Plan
	// Preloaded says that the Pod's image has the probe at [Preloaded].
	Preloaded bool
}

// Ending is how an exec ended, seen from outside.
type Ending struct {
	Code int   // exit code, when Err is nil
	Err  error // transport or decoding error
}

// ErrDelivery means that the probe could not be started in the Pod.
var ErrDelivery = errors.New("no place in the Pod can hold and start the probe (tried TMPDIR, /tmp, /workspace, /dev/shm, /var/tmp, HOME, the working folder, and memory by way of python3)")

// Run executes a batch and returns one attempt for each order, in the orders'
// order. It has no error of its own: what is missing is missing from the
// attempts, and the ending says why.
func (d *Delivery) Run(ctx context.Context, b Batch) ([]verdict.Attempt, Ending) {
	now := d.Now
	if now == nil {
		now = time.Now
	}
	b.Plan.Hold = true
	plan, err := json.Marshal(b.Plan)
	if err != nil {
		return unsent(b.Plan.Orders, err), Ending{Err: fmt.Errorf("encoding the plan: %w", err)}
	}
	var attempts []verdict.Attempt
	var collected error
	run := Call{Pod: b.Pod, Preloaded: b.Preloaded, Mode: "run", input: plan}
	end := d.stream(ctx, ctx, run, func(r io.Reader) error {
		attempts, collected = probe.Collect(r, b.Plan.Orders, now)
		return collected
	})
	if end.Err == nil && collected != nil {
		end.Err = collected
	}
	for i := range attempts {
		a := &attempts[i]
		// The probe never says so much: as in [probe.Collect], nothing of the
		// stream is worth anything.
		if a.Complete && errors.Is(end.Err, ErrTooMuch) {
			a.Complete, a.Error = false, "the stream is not the probe's"
		}
		if !a.Complete {
			a.Error = why(a.Error, end)
		}
	}
	return attempts, end
}

func unsent(orders []probe.Order, err error) []verdict.Attempt {
	out := make([]verdict.Attempt, len(orders))
	for i, o := range orders {
		out[i] = verdict.Attempt{Nonce: o.Nonce, Error: err.Error()}
	}
	return out
}

func why(text string, end Ending) string {
	if end.Err != nil {
		return text + "; " + end.Err.Error()
	}
	return fmt.Sprintf("%s; the exec ended with code %d", text, end.Code)
}

// Call is a call of the probe in a Pod.
type Call struct {
	Pod Pod
	// Preloaded says that the Pod's image has the probe at [Preloaded].
	Preloaded bool
	// Mode and Args are the probe's words: "listen", and its port and nonce.
	Mode string
	Args []string

	input []byte // what it reads first
}

// Session is a call that goes on until it is ended from here.
type Session struct {
	hold, cut context.CancelFunc
	done      chan struct{}
	end       Ending
}

// Start makes a call, with the probe's standard output going to read, until
// [Session.End] is called or ctx is done.
func (d *Delivery) Start(ctx context.Context, c Call, read func(io.Reader) error) *Session {
	ctx, cut := context.WithCancel(ctx)
	held, hold := context.WithCancel(ctx)
	s := &Session{hold: hold, cut: cut, done: make(chan struct{})}
	var g errgroup.Group
	g.Go(func() error {
		defer close(s.done)
		s.end = d.stream(ctx, held, c, read)
		return nil
	})
	return s
}

// End asks the session to end, by ending its input, and cuts it off when it
// does not within grace.
func (s *Session) End(grace time.Duration) Ending {
	s.hold()
	late := time.AfterFunc(grace, s.cut)
	defer late.Stop()
	<-s.done
	s.cut()
	return s.end
}

// Listener is a probe that serves a port until it is ended.
type Listener struct {
	*Session
	Nonce string
}

// Ended says whether the session has ended by itself.
func (s *Session) Ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// Listen starts a listener, which lives as long as ctx, and returns once it
// reported that it listens, or wait is done.
func (d *Delivery) Listen(ctx, wait context.Context, pod Pod, preloaded bool, port int, nonce string) (*Listener, error) {
	ready := make(chan error, 1)
	c := Call{Pod: pod, Preloaded: preloaded, Mode: "listen", Args: []string{strconv.Itoa(port), nonce}}
	s := d.Start(ctx, c, func(r io.Reader) error {
		return listening(probe.NewDecoder(r), nonce, ready)
	})
	var err error
	select {
	case err = <-ready:
		if err == nil {
			return &Listener{Session: s, Nonce: nonce}, nil
		}
	case <-s.done:
		if err = s.end.Err; err == nil {
			err = fmt.Errorf("it ended with code %d", s.end.Code)
		}
	case <-wait.Done():
		err = context.Cause(wait)
	}
	s.End(0)
	return nil, fmt.Errorf("listening on port %d in Pod %s: %w", port, pod, err)
}

// listening reads a listener's frames to the end, and says once that it is up.
func listening(dec *probe.Decoder, nonce string, ready chan<- error) error {
	for {
		f, err := dec.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if f.Nonce != nonce || f.Scenario != probe.ListenScenario {
			return fmt.Errorf("reading a listener's frames: %w: a nonce that was not given out", probe.ErrHostile)
		}
		if f.Kind != probe.Step {
			continue
		}
		err = nil
		if !f.Step.OK {
			err = fmt.Errorf("the port cannot be had: %s", f.Step.Detail)
		}
		select {
		case ready <- err:
		default:
		}
	}
}

// stream makes a call, holds the probe's standard input open until hold is done,
// and gives its standard output to read, whose error ends the exec: after a frame
// that the probe would not send there is nothing left to learn.
func (d *Delivery) stream(ctx, hold context.Context, c Call, read func(io.Reader) error) Ending {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	argv, in, err := d.command(c)
	if err != nil {
		_ = read(strings.NewReader("")) // so that the attempts exist
		return Ending{Err: err}
	}
	hold, release := context.WithCancel(hold)
	defer release()
	held := &holding{r: in, ctx: hold}
	pr, pw := io.Pipe()
	stderr := &tail{max: 512}
	var end Ending
	var g errgroup.Group
	g.Go(func() error {
		code, err := d.Carrier.Exec(ctx, c.Pod, argv, Streams{Stdin: held, Stdout: pw, Stderr: stderr})
		end = Ending{Code: code, Err: err}
		return pw.Close()
	})
	g.Go(func() error {
		if err := read(pr); err != nil {
			cancel(err)
		}
		// Whatever else comes is swallowed until the exec has ended.
		_, _ = io.Copy(io.Discard, pr)
		return nil
	})
	_ = g.Wait() // both always return nil
	if end.Err == nil && end.Code != 0 {
		if text := strings.TrimSpace(stderr.String()); end.Code == exitNoPlace || end.Code == 126 || end.Code == 127 {
			end.Err = fmt.Errorf("starting the probe in Pod %s: exit code %d: %w: %.200q", c.Pod, end.Code, ErrDelivery, text)
		}
	}
	return end
}

// command returns the argv and the standard input of a call.
func (d *Delivery) command(c Call) ([]string, io.Reader, error) {
	if c.Preloaded {
		return append([]string{Preloaded, c.Mode}, c.Args...), bytes.NewReader(c.input), nil
	}
	if len(d.Probe) == 0 {
		return nil, nil, errors.New("delivering the probe: there is none; build it with `go build ./cmd/probe`")
	}
	blocks := (len(d.Probe) + block - 1) / block
	pad := make([]byte, blocks*block-len(d.Probe))
	argv := append([]string{"/bin/sh", "-c", script, "stockade", strconv.Itoa(blocks), strconv.Itoa(block), c.Mode}, c.Args...)
	return argv, io.MultiReader(bytes.NewReader(d.Probe), bytes.NewReader(pad), bytes.NewReader(c.input)), nil
}

// holding is a reader that does not end with its content, but with its
// context: the probe takes the end of its input for "nobody listens".
type holding struct {
	r   io.Reader
	ctx context.Context //nolint:containedctx // Read has no other way to end
}

func (h *holding) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	if n > 0 || (err != nil && !errors.Is(err, io.EOF)) {
		return n, nil
	}
	if err == nil {
		return 0, nil
	}
	<-h.ctx.Done()
	return 0, io.EOF
}
