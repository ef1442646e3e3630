// SPDX-License-Identifier: Apache-2.0

//go:build linux

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/stockade-dev/stockade/infra/procstat"
)

// record identifies a process for good. A process id alone is reused, after a
// reboot almost surely.
type record struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot, field 22 of /proc/PID/stat
	Boot  string `json:"boot"`  // /proc/sys/kernel/random/boot_id
}

func newRecord(pid int) (record, error) {
	stat, err := procstat.Read(pid)
	if err != nil {
		return record{}, fmt.Errorf("identifying process %d: %w", pid, err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return record{}, fmt.Errorf("identifying process %d: %w", pid, err)
	}
	return record{pid, stat.Start, strings.TrimSpace(string(boot))}, nil
}

// alive reports whether the very process of the record still runs. A zombie
// does not run: it only waits for a parent that may never look.
func (r record) alive() bool {
	if r.PID <= 0 {
		return false
	}
	now, err := newRecord(r.PID)
	if err != nil || now != r {
		return false
	}
	stat, err := procstat.Read(r.PID)
	return err == nil && stat.State != "Z" && stat.State != "X"
}

func readRecord(path string) (record, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, nil
	}
	if err != nil {
		return record{}, fmt.Errorf("reading a process record: %w", err)
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		// Half a file is what a crash leaves; nobody can be told by it.
		return record{}, nil //nolint:nilerr // see above
	}
	return r, nil
}

func (r record) write(path string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing a process record: %w", err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("writing a process record: %w", err)
	}
	return nil
}

// signal sends a signal to the very process of the record. That it is gone is no
// error.
func (r record) signal(sig syscall.Signal) error {
	// The handle is taken first: from then on the number cannot change hands.
	p, err := os.FindProcess(r.PID)
	if err != nil {
		return fmt.Errorf("ending process %d: %w", r.PID, err)
	}
	defer p.Release() //nolint:errcheck // a handle only
	if !r.alive() {
		return nil
	}
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending process %d: %w", r.PID, err)
	}
	return nil
}

// end asks the process to end and kills it when it takes longer than grace. A
// context that has ended before asks nobody.
func (r record) end(ctx context.Context, grace time.Duration) error {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if !r.alive() {
			return nil
		}
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("ending process %d: %w", r.PID, err)
		}
		if err := r.signal(sig); err != nil {
			return err
		}
		wait, cancel := context.WithTimeout(ctx, grace)
		err := poll(wait, func() (bool, error) { return !r.alive(), nil })
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for process %d to end: %w", r.PID, context.Cause(ctx))
		}
	}
	return fmt.Errorf("ending process %d: it outlived SIGKILL by %s; it may hang in the kernel, and only a reboot helps then", r.PID, grace)
}

// poll calls done until it is true, fails, or the context ends.
func poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
