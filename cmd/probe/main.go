// SPDX-License-Identifier: Apache-2.0

// Command probe is put into a sandbox to attack it from inside, and is the
// main process of the control Pods. It is linked statically and needs nothing
// of the place it runs in.
//
//	probe run [--unlink PATH]           plan on stdin, frames on stdout
//	probe listen [--unlink PATH] PORT NONCE
//	probe cgroup ROOT POD-UID INTERVAL  samples of a Pod's cgroups, until stdin ends
//	probe idle                          reap children, wait for the end
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/scenarios/all"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: probe run|listen PORT NONCE|cgroup ROOT POD-UID INTERVAL|idle")

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	mode, args := args[0], args[1:]
	// Delivery put the program into a file of its own; once it runs, the file
	// is not needed any more, and must not be found by anybody.
	if len(args) >= 2 && args[0] == "--unlink" {
		if err := os.Remove(args[1]); err != nil {
			return fmt.Errorf("removing the delivered program: %w", err)
		}
		args = args[2:]
	}
	switch {
	case mode == "run" && len(args) == 0:
		return probe.Run(ctx, in, out, all.Registry.Find)
	case mode == "listen" && len(args) == 2:
		port, err := strconv.ParseUint(args[0], 10, 16)
		if err != nil {
			return fmt.Errorf("reading the port: %w", err)
		}
		return probe.Listen(ctx, int(port), args[1], in, out)
	case mode == "cgroup" && len(args) == 3:
		every, err := time.ParseDuration(args[2])
		if err != nil || every <= 0 {
			return fmt.Errorf("reading the interval %q: a positive duration is needed", args[2])
		}
		return probe.WatchCgroup(ctx, args[0], args[1], every, in, out)
	case mode == "idle" && len(args) == 0:
		probe.Idle(ctx)
		return nil
	}
	return errUsage
}
