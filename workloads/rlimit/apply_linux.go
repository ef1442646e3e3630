// SPDX-License-Identifier: Apache-2.0

package rlimit

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

var resources = map[string]int{
	"nproc": unix.RLIMIT_NPROC, "nofile": unix.RLIMIT_NOFILE, "fsize": unix.RLIMIT_FSIZE,
	"core": unix.RLIMIT_CORE, "as": unix.RLIMIT_AS, "data": unix.RLIMIT_DATA,
}

// order sets the address space last: this program needs some itself until the
// very end.
func (l Limits) order() []string {
	all := slices.Sorted(maps.Keys(l))
	slices.SortStableFunc(all, func(a, b string) int { return rank(a) - rank(b) })
	return all
}

func rank(name string) int {
	if name == "as" || name == "data" {
		return 1
	}
	return 0
}

// Exec sets the limits, looks the program up on PATH and becomes it; it returns
// only an error. A hard limit that is lower already stays as it is: it cannot
// be raised, and is strict enough.
//
// Errors: the program is not there, or a limit cannot be set. Then nothing was
// started: code never runs with fewer limits than were asked for.
func Exec(l Limits, argv []string, env []string) error {
	if len(argv) == 0 {
		return errors.New("starting a run: no program was given")
	}
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("starting a run: %w", err)
	}
	for _, name := range l.order() {
		if err := set(name, l[name]); err != nil {
			return err
		}
	}
	// The address space is that of the new program from here on.
	if err := syscall.Exec(program, argv, env); err != nil {
		return &os.PathError{Op: "starting", Path: program, Err: err}
	}
	return nil
}

func set(name string, value uint64) error {
	resource, ok := resources[name]
	if !ok {
		return fmt.Errorf("setting %s: there is no such limit", name)
	}
	var now unix.Rlimit
	if err := unix.Getrlimit(resource, &now); err != nil {
		return fmt.Errorf("reading the limit %s: %w", name, err)
	}
	value = min(value, now.Max)
	// The Go runtime has raised the soft nofile, and would put back at the exec
	// what it found, unless somebody sets it by this very call.
	if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: value, Max: value}); err != nil {
		return fmt.Errorf("setting the limit %s to %d: %w", name, value, err)
	}
	return nil
}
