// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// claimedMemory is the text's own limit, in bytes. It stands in where neither the
// target declares one nor the profile says how much that may be: a missing limit
// must not make the attack harmless.
const claimedMemory = 512 * mib

// memoryRunaway accepts Killed alone, because that is the claim: the container
// is ended. The API server has to say that it was for its memory, and the node's
// cgroup has to show that the limit was reached, and never passed. What a killed
// sandbox itself said is worth little: it can end itself.
func memoryRunaway() suite.Scenario {
	return suite.Scenario{
		ID:    "resources.memory-runaway",
		Title: "Take more memory than the limit",
		About: "Allocates and touches memory in steps, up to twice the limit that is declared, or that may be where more is. The container has to be killed on the way. The " +
			"control allocates a quarter of the limit in the same sandbox first.",
		Claims:     []string{"AS-08"},
		Kind:       suite.Guarantee,
		Techniques: []string{"T1499"},
		Severity:   suite.High,
		Attack:     attackMemory,
		Control: suite.ControlSpec{At: suite.Sandbox, Act: allocateQuarter,
			Why: "A quarter of the limit can be had in the same sandbox, so it is the limit that stops the rest."},
		Accept: []verdict.Class{verdict.Killed},
		Witnesses: []suite.Witness{
			{Name: suite.Cgroup, Read: readMemory},
			{Name: suite.APIServer, Read: readKilled},
		},
		Exclusive: true,
		MayKill:   true,
		Timeout:   90 * time.Second,
		Mutants:   []string{"no-memory-limit", "memory-limit-raised"},
	}
}

func memoryLimit(s probe.Site) int64 {
	if s.MemoryLimit > 0 {
		return s.MemoryLimit
	}
	return claimedMemory
}

func attackMemory(ctx context.Context, env *probe.Env) []verdict.Step {
	limit := memoryLimit(env.Site)
	hold := &hoard{}
	defer hold.release()
	// A quarter above the limit is more than any accounting is late.
	over := hold.grow(ctx, limit+limit/4)
	over.Name = "hold a quarter more than the limit"
	env.Report(over) // at once: there may be no later
	if !over.OK {
		return nil
	}
	all := hold.grow(ctx, 2*limit)
	all.Name = "hold twice the limit"
	return []verdict.Step{all}
}

func allocateQuarter(ctx context.Context, env *probe.Env) []verdict.Step {
	hold := &hoard{}
	defer hold.release()
	step := hold.grow(ctx, memoryLimit(env.Site)/4)
	step.Name = "allocate a quarter of the limit"
	return []verdict.Step{step}
}

// hoard is memory that is held and has been written to.
type hoard struct {
	chunks [][]byte
	bytes  int64
}

const chunk = 16 * mib

// grow allocates until the hoard has want bytes. The step is OK when it has:
// running out of memory ends a Go program, so there is no other denial here
// than not coming back.
func (h *hoard) grow(ctx context.Context, want int64) verdict.Step {
	began := time.Now()
	page := os.Getpagesize()
	for h.bytes < want {
		if err := ctx.Err(); err != nil {
			return verdict.Step{Class: verdict.Unknown, Detail: fmt.Sprintf("out of time with %d MiB held", h.bytes/mib)}
		}
		c := make([]byte, chunk)
		// Every page is written, with something else each time: untouched, zero
		// and equal pages may cost the node nothing.
		for i := 0; i < len(c); i += page {
			c[i], c[i+1], c[i+2] = byte(i>>12)|1, byte(h.bytes>>24), byte(i>>20) //nolint:gosec // a chunk is whole pages
		}
		h.chunks = append(h.chunks, c)
		h.bytes += chunk
	}
	return verdict.Step{OK: true, Detail: fmt.Sprintf("%d MiB are held", h.bytes/mib), Millis: time.Since(began).Milliseconds()}
}

func (h *hoard) release() {
	runtime.KeepAlive(h.chunks)
	h.chunks, h.bytes = nil, 0
	debug.FreeOSMemory() // what follows in this sandbox needs the room
}

const (
	// slack is how far the node's own numbers may lie above a limit: charges are
	// made in batches for each CPU.
	slack = 1.1
	// reached is how much of a limit must have been taken to say that it was the
	// limit that stopped the attack. What ends far below has died of something
	// else, or by its own hand.
	reached = 0.9
)

// readMemory judges the highest use that the node saw.
func readMemory(r suite.Reading) verdict.Statement {
	s := verdict.Statement{Witness: suite.Cgroup}
	limit := float64(memoryLimit(r.Site))
	peak, ok := r.After["memory.max_usage_in_bytes"]
	if !ok {
		s.Detail = "the node shows no memory.max_usage_in_bytes for this Pod"
		return s
	}
	// The control alone takes a quarter of the limit; a peak below that was not
	// this Pod's. The attack has to show by more than that.
	s.Live = peak >= limit/4
	s.Breach = peak > limit*slack
	s.Detail = fmt.Sprintf("at most %.0f MiB of a limit of %.0f MiB were used", peak/mib, limit/mib)
	if set, ok := r.After["memory.limit_in_bytes"]; ok && set > limit {
		// No limit, or a larger one, is a missing control, whatever was taken.
		s.Breach = true
		s.Detail += fmt.Sprintf(", with %.0f MiB set on the node", set/mib)
	}
	s.Agrees = !s.Breach && peak >= limit*reached
	return s
}

// oomKilled is the runtime's reason for a container that the kernel killed
// because its cgroup was at the memory limit. The exit code is left out of it:
// a process may end with any it likes.
const oomKilled = "OOMKilled"

// readKilled judges what became of the container.
func readKilled(r suite.Reading) verdict.Statement {
	p := r.Pod
	s := verdict.Statement{Witness: suite.APIServer, Live: p.Phase != "",
		Detail: fmt.Sprintf("phase %s, exit code %d, reason %q, %d restarts", p.Phase, p.ExitCode, p.ExitReason, p.Restarts)}
	s.Agrees = p.ExitReason == oomKilled
	if p.EvictedFor != "" {
		// Eviction comes when the node is short already: that is pressing on it.
		s.Agrees = false
		s.Detail += ", evicted: " + p.EvictedFor
	}
	return s
}
