// SPDX-License-Identifier: Apache-2.0

// Package program is the frame of the programs that serve: how they are told to
// stop, what they make of their arguments, and what their exit codes mean. It
// needs the standard library only, for one of them runs in the sandbox.
package program

import (
	"context"
	"flag"
	"fmt"
	"os/signal"
	"syscall"
)

// The exit codes.
const (
	Served = 0 // and stopped, because it was told to
	Failed = 1
	Usage  = 2
)

// UntilSignal calls run with a context that ends with the first SIGINT or
// SIGTERM, and returns its exit code for main to exit with.
func UntilSignal(run func(context.Context) int) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return run(ctx)
}

// Parse reads args, which are flags and nothing else. What is wrong with them has
// been said on the output of fs when it returns an error.
func Parse(fs *flag.FlagSet, args []string) error {
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		err := fmt.Errorf("%q is no flag; see %s -h", fs.Arg(0), fs.Name())
		_, _ = fmt.Fprintf(fs.Output(), "%s: %v\n", fs.Name(), err)
		return err
	}
	return nil
}
