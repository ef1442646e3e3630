// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

// Part says which of a scenario's actions to run.
type Part string

// The parts of a scenario.
const (
	Attack  Part = "attack"
	Control Part = "control"
)

// Order is one attempt to make.
type Order struct {
	Scenario string            `json:"scenario"`
	Part     Part              `json:"part"`
	Nonce    string            `json:"nonce"`
	Timeout  time.Duration     `json:"timeout"` // nanoseconds
	Params   map[string]string `json:"params,omitempty"`
}

// Plan is what the probe reads from its standard input: one JSON document.
type Plan struct {
	Site   Site    `json:"site"`
	Orders []Order `json:"orders"`
	// Parallel is how many orders may run at once; 0 means 1.
	Parallel int `json:"parallel,omitempty"`
	// Hold says that the sender keeps standard input open for as long as it
	// listens: the end of the input then cancels the plan, so that a lost exec
	// leaves no attack running in the sandbox.
	Hold bool `json:"hold,omitempty"`
}

// Lookup finds the action of a scenario's part.
type Lookup func(scenario string, part Part) (Action, bool)

// Run reads a plan from in, executes it, and writes frames to out. It returns
// when every order has ended or ctx is done.
func Run(ctx context.Context, in io.Reader, out io.Writer, find Lookup) error {
	var plan Plan
	dec := json.NewDecoder(in)
	if err := dec.Decode(&plan); err != nil {
		return fmt.Errorf("reading the plan: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if plan.Hold {
		// It ends with the input, or with the process.
		go func() {
			_, _ = io.Copy(io.Discard, io.MultiReader(dec.Buffered(), in))
			cancel()
		}()
	}
	enc := NewEncoder(out)
	slots := make(chan struct{}, max(plan.Parallel, 1))
	var wg sync.WaitGroup
	for _, o := range plan.Orders {
		select {
		case <-ctx.Done():
			wg.Wait()
			return ctx.Err()
		case slots <- struct{}{}:
		}
		wg.Go(func() {
			defer func() { <-slots }()
			execute(ctx, plan.Site, o, enc, find)
		})
	}
	wg.Wait()
	return nil
}

// execute runs one order. A write error is not reported: the other end is
// gone, and the missing completion frame says so.
func execute(ctx context.Context, site Site, o Order, enc *Encoder, find Lookup) {
	sent, closed := 0, false
	var mu sync.Mutex
	send := func(s verdict.Step) {
		mu.Lock()
		defer mu.Unlock()
		// A step after the completion frame would look like a forgery, and end
		// the whole batch.
		if closed || sent >= MaxStepsPer {
			return
		}
		sent++
		_ = enc.Encode(Frame{Kind: Step, Scenario: o.Scenario, Nonce: o.Nonce, Step: &s})
	}
	_ = enc.Encode(Frame{Kind: Begin, Scenario: o.Scenario, Nonce: o.Nonce})
	act, ok := find(o.Scenario, o.Part)
	if !ok {
		send(verdict.Step{Name: "find the action", Class: verdict.ToolMissing,
			Detail: fmt.Sprintf("this probe has no %s of %s", o.Part, o.Scenario)})
	} else {
		timeout := o.Timeout
		if timeout <= 0 {
			timeout = 10 * time.Second
		}
		actx, cancel := context.WithTimeout(ctx, timeout)
		steps := bounded(actx, act, &Env{Nonce: o.Nonce, Part: o.Part, Site: site, Params: o.Params, Report: send})
		cancel()
		mu.Lock()
		room := MaxStepsPer - sent
		mu.Unlock()
		for _, s := range fit(steps, room) {
			send(s)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	closed = true
	_ = enc.Encode(Frame{Kind: Done, Scenario: o.Scenario, Nonce: o.Nonce, Steps: sent})
}

// fit cuts steps to what there is room for. A cut must not look like the end:
// the last step says what is missing, and is no evidence.
func fit(steps []verdict.Step, room int) []verdict.Step {
	if len(steps) <= room {
		return steps
	}
	keep := max(room-1, 0)
	return append(steps[:keep:keep], verdict.Step{Name: "report every step", Class: verdict.Unknown,
		Detail: fmt.Sprintf("%d of %d steps did not fit", len(steps)-keep, len(steps))})
}

// grace is how long an action may take to return after its time is up.
const grace = 2 * time.Second

// bounded runs an action that may not heed its context: one that hangs in a
// system call must not keep the batch from ending.
func bounded(ctx context.Context, act Action, env *Env) []verdict.Step {
	done := make(chan []verdict.Step, 1)
	go func() { done <- guarded(ctx, act, env) }()
	select {
	case steps := <-done:
		return steps
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case steps := <-done:
		return steps
	case <-late.C:
		return []verdict.Step{{Name: "end in time", Class: verdict.Unknown,
			Detail: "the action did not return within " + grace.String() + " of its deadline"}}
	}
}

// guarded turns a panic of an action into a step that is no evidence: one
// broken attack must not take the batch with it.
func guarded(ctx context.Context, act Action, env *Env) (steps []verdict.Step) {
	defer func() {
		if p := recover(); p != nil {
			steps = append(steps, verdict.Step{Name: "run the action", Class: verdict.Unknown,
				Detail: fmt.Sprintf("panic: %v\n%s", p, debug.Stack())})
		}
	}()
	return act(ctx, env)
}

// Collect turns a stream of frames into attempts, one for each order, in the
// orders' order. Frames with a nonce or a scenario that no order has, or after
// a completion, end the collection: somebody else is talking, and may have been
// all along, so that no attempt of such a stream counts as complete. A stream
// that was only cut off keeps what was complete before. The error says why the
// stream ended early, if it did; incomplete attempts carry its text.
func Collect(r io.Reader, orders []Order, now func() time.Time) ([]verdict.Attempt, error) {
	attempts := make([]verdict.Attempt, len(orders))
	index := make(map[string]int, len(orders))
	for i, o := range orders {
		attempts[i] = verdict.Attempt{Nonce: o.Nonce}
		index[o.Nonce] = i
	}
	err := collect(NewDecoder(r), orders, attempts, index, now)
	cut := errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) // the latter between a head and its body
	forged := errors.Is(err, ErrHostile) && !cut
	for i := range attempts {
		attempts[i].Complete = attempts[i].Complete && !forged
		if !attempts[i].Complete && attempts[i].Error == "" {
			attempts[i].Error = "the stream ended without a completion frame"
			if err != nil {
				attempts[i].Error = err.Error()
			}
		}
	}
	return attempts, err
}

func collect(dec *Decoder, orders []Order, attempts []verdict.Attempt, index map[string]int, now func() time.Time) error {
	for {
		f, err := dec.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		i, known := index[f.Nonce]
		if !known || orders[i].Scenario != f.Scenario {
			return fmt.Errorf("reading frames: %w: a nonce that was not given out", ErrHostile)
		}
		a := &attempts[i]
		if a.Complete {
			return fmt.Errorf("reading frames: %w: a frame after the completion of %s", ErrHostile, f.Scenario)
		}
		switch f.Kind {
		case Begin:
			if !a.Start.IsZero() {
				return fmt.Errorf("reading frames: %w: %s began twice", ErrHostile, f.Scenario)
			}
			a.Start, a.End = now(), now()
		case Step:
			if a.Start.IsZero() || len(a.Steps) >= MaxStepsPer {
				return fmt.Errorf("reading frames: %w: a step out of place in %s", ErrHostile, f.Scenario)
			}
			a.Steps = append(a.Steps, *f.Step)
			a.End = now()
		case Done:
			a.End = now()
			if f.Steps != len(a.Steps) || a.Start.IsZero() {
				return fmt.Errorf("reading frames: %w: %d of %d steps of %s arrived", ErrHostile, len(a.Steps), f.Steps, f.Scenario)
			}
			a.Complete = true
		}
	}
}
