// SPDX-License-Identifier: Apache-2.0

// Package faketarget has carriers without a cluster, honest and lying, for
// tests: what a sandbox could answer is what these answer.
package faketarget

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// Program is what a Pod does with an exec of the probe: in is what the probe
// would read, after its own delivery.
type Program func(ctx context.Context, pod target.Pod, mode string, args []string, in io.Reader, out io.Writer) (int, error)

// Carrier is a fake of [target.Carrier]. Programs are looked up by Pod name.
type Carrier struct {
	mu       sync.Mutex
	Programs map[string]Program
	// Calls are the modes that were executed, as "pod mode".
	Calls []string
}

// Set gives a Pod another program.
func (c *Carrier) Set(pod string, p Program) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Programs == nil {
		c.Programs = map[string]Program{}
	}
	c.Programs[pod] = p
}

// Exec implements [target.Carrier].
func (c *Carrier) Exec(ctx context.Context, pod target.Pod, argv []string, s target.Streams) (int, error) {
	mode, args, size, err := read(argv)
	if err != nil {
		return 127, nil
	}
	c.mu.Lock()
	p := c.Programs[pod.Name]
	c.Calls = append(c.Calls, pod.Name+" "+mode)
	c.mu.Unlock()
	if p == nil {
		return 0, &target.TransportError{Pod: pod, Err: errors.New("no such Pod")}
	}
	if _, err := io.CopyN(io.Discard, s.Stdin, size); err != nil {
		return 96, nil
	}
	return p(ctx, pod, mode, args, s.Stdin, s.Stdout)
}

// read understands both ways in which package target starts the probe.
func read(argv []string) (mode string, args []string, size int64, err error) {
	if len(argv) >= 2 && argv[0] == target.Preloaded {
		return argv[1], argv[2:], 0, nil
	}
	if len(argv) < 7 || argv[0] != "/bin/sh" {
		return "", nil, 0, fmt.Errorf("reading %q: not a delivery", argv)
	}
	blocks, err1 := strconv.ParseInt(argv[4], 10, 64)
	block, err2 := strconv.ParseInt(argv[5], 10, 64)
	return argv[6], argv[7:], blocks * block, errors.Join(err1, err2)
}

// Honest runs the real probe in this process, with a registry's actions.
func Honest(find probe.Lookup) Program {
	return func(ctx context.Context, _ target.Pod, mode string, args []string, in io.Reader, out io.Writer) (int, error) {
		switch mode {
		case "run":
			if err := probe.Run(ctx, in, out, find); err != nil {
				return 1, nil
			}
			return 0, nil
		case "listen":
			enc := probe.NewEncoder(out)
			nonce := args[1]
			_ = enc.Encode(probe.Frame{Kind: probe.Begin, Scenario: probe.ListenScenario, Nonce: nonce})
			_ = enc.Encode(probe.Frame{Kind: probe.Step, Scenario: probe.ListenScenario, Nonce: nonce, Step: &verdict.Step{OK: true}})
			_, _ = io.Copy(io.Discard, in)
			return 0, nil
		case "cgroup":
			_ = json.NewEncoder(out).Encode(probe.Sample{Values: map[string]float64{"cpuacct.usage": 1}})
			_, _ = io.Copy(io.Discard, in)
			_ = json.NewEncoder(out).Encode(probe.Sample{Values: map[string]float64{"cpuacct.usage": 2}})
			return 0, nil
		}
		return 1, nil
	}
}

// Lie answers a plan with whatever says gives for it.
func Lie(says func(plan probe.Plan, out io.Writer) (int, error)) Program {
	return func(_ context.Context, _ target.Pod, _ string, _ []string, in io.Reader, out io.Writer) (int, error) {
		var plan probe.Plan
		if err := json.NewDecoder(in).Decode(&plan); err != nil {
			return 1, nil
		}
		return says(plan, out)
	}
}

// Denied writes the frames of an order that was denied, as the probe does.
func Denied(out io.Writer, o probe.Order, class verdict.Class) {
	enc := probe.NewEncoder(out)
	_ = enc.Encode(probe.Frame{Kind: probe.Begin, Scenario: o.Scenario, Nonce: o.Nonce})
	_ = enc.Encode(probe.Frame{Kind: probe.Step, Scenario: o.Scenario, Nonce: o.Nonce, Step: &verdict.Step{Name: "try", Class: class}})
	_ = enc.Encode(probe.Frame{Kind: probe.Done, Scenario: o.Scenario, Nonce: o.Nonce, Steps: 1})
}

// Lies are what a hostile sandbox may send instead of the truth. None of them
// may ever end in Held.
func Lies() map[string]Program {
	frame := func(o probe.Order, kind probe.Kind, nonce string, steps int) []byte {
		f := probe.Frame{Kind: kind, Scenario: o.Scenario, Nonce: nonce, Steps: steps}
		if kind == probe.Step {
			f.Step = &verdict.Step{Name: "try", Class: verdict.Dropped}
		}
		var b bytes.Buffer
		_ = probe.NewEncoder(&b).Encode(f)
		return b.Bytes()
	}
	each := func(says func(o probe.Order, out io.Writer)) Program {
		return Lie(func(plan probe.Plan, out io.Writer) (int, error) {
			for _, o := range plan.Orders {
				says(o, out)
			}
			return 0, nil
		})
	}
	const foreign = "00000000000000000000000000000000"
	return map[string]Program{
		"says nothing at all": each(func(probe.Order, io.Writer) {}),
		"says it is done and tells no step": each(func(o probe.Order, out io.Writer) {
			_, _ = out.Write(slices.Concat(frame(o, probe.Begin, o.Nonce, 0), frame(o, probe.Done, o.Nonce, 0)))
		}),
		"never says that it is done": each(func(o probe.Order, out io.Writer) {
			_, _ = out.Write(slices.Concat(frame(o, probe.Begin, o.Nonce, 0), frame(o, probe.Step, o.Nonce, 0)))
		}),
		"is done without having begun": each(func(o probe.Order, out io.Writer) {
			_, _ = out.Write(frame(o, probe.Done, o.Nonce, 0))
		}),
		"counts more steps than it sent": each(func(o probe.Order, out io.Writer) {
			_, _ = out.Write(slices.Concat(frame(o, probe.Begin, o.Nonce, 0), frame(o, probe.Step, o.Nonce, 0), frame(o, probe.Done, o.Nonce, 5)))
		}),
		"uses a nonce of its own": each(func(o probe.Order, out io.Writer) {
			_, _ = out.Write(slices.Concat(frame(o, probe.Begin, foreign, 0), frame(o, probe.Step, foreign, 0), frame(o, probe.Done, foreign, 1)))
		}),
		"speaks for another scenario": each(func(o probe.Order, out io.Writer) {
			o.Scenario = "other.scenario"
			Denied(out, o, verdict.Dropped)
		}),
		"is cut off in the middle of a frame": each(func(o probe.Order, out io.Writer) {
			var b bytes.Buffer
			Denied(&b, o, verdict.Dropped)
			_, _ = out.Write(b.Bytes()[:b.Len()-3])
		}),
		"announces a frame of 4 GB": each(func(_ probe.Order, out io.Writer) {
			_, _ = out.Write(binary.BigEndian.AppendUint32([]byte("SKF1"), 0xffffffff))
		}),
		"sends garbage": each(func(_ probe.Order, out io.Writer) {
			_, _ = out.Write(bytes.Repeat([]byte("\x1b[31mHELD\x1b[0m "), 1000))
		}),
		"makes up a class": each(func(o probe.Order, out io.Writer) { Denied(out, o, "blocked-for-sure") }),
		"reports a transport error as its own": each(func(o probe.Order, out io.Writer) {
			Denied(out, o, verdict.TransportError)
		}),
		"talks without end": func(ctx context.Context, pod target.Pod, _ string, _ []string, _ io.Reader, out io.Writer) (int, error) {
			return endless(ctx, pod, out, []byte("STOCKADE "))
		},
		"sends frames without end": Lie(func(plan probe.Plan, out io.Writer) (int, error) {
			o := plan.Orders[0]
			_, _ = out.Write(frame(o, probe.Begin, o.Nonce, 0))
			for range probe.MaxFrames + 10 {
				if _, err := out.Write(frame(o, probe.Step, o.Nonce, 0)); err != nil {
					break
				}
			}
			return 0, nil
		}),
		"hangs": func(ctx context.Context, pod target.Pod, _ string, _ []string, _ io.Reader, _ io.Writer) (int, error) {
			<-ctx.Done()
			return 0, &target.TransportError{Pod: pod, Err: context.Cause(ctx)}
		},
		"loses the exec": func(_ context.Context, pod target.Pod, _ string, _ []string, _ io.Reader, _ io.Writer) (int, error) {
			return 0, &target.TransportError{Pod: pod, Err: errors.New("connection reset")}
		},
		"has no place for the probe": func(context.Context, target.Pod, string, []string, io.Reader, io.Writer) (int, error) {
			return 96, nil
		},
		"adds a frame after the end": each(func(o probe.Order, out io.Writer) {
			Denied(out, o, verdict.Dropped)
			Denied(out, o, verdict.Dropped)
		}),
		"answers, and then talks too much": func(ctx context.Context, pod target.Pod, mode string, args []string, in io.Reader, out io.Writer) (int, error) {
			code, err := each(func(o probe.Order, out io.Writer) { Denied(out, o, verdict.Dropped) })(ctx, pod, mode, args, in, out)
			if err == nil {
				err = &target.TransportError{Pod: pod, Err: target.ErrTooMuch}
			}
			return code, err
		},
	}
}

// endless writes until the exec is ended from the other side, as a program in
// a real Pod would go on for as long as it is read.
func endless(ctx context.Context, pod target.Pod, out io.Writer, text []byte) (int, error) {
	stop := time.NewTimer(10 * time.Second)
	defer stop.Stop()
	for {
		select {
		case <-ctx.Done():
			return 0, &target.TransportError{Pod: pod, Err: context.Cause(ctx)}
		case <-stop.C:
			return 0, errors.New("nobody stopped the endless talker")
		default:
			_, _ = out.Write(text)
		}
	}
}
