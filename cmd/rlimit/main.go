// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command rlimit sets resource limits and becomes a program. It lies in the
// images of runs, linked statically.
//
//	rlimit nproc=128,nofile=256,fsize=32Mi,core=0,as=256Mi -- python3 -c ...
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/stockade-dev/stockade/workloads/rlimit"
)

// exitNotStarted is what a shell says of a program that it could not start.
const exitNotStarted = 126

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "rlimit:", err)
		os.Exit(exitNotStarted)
	}
}

func run(args []string) error {
	if len(args) < 3 || args[1] != "--" {
		return errors.New("usage: rlimit LIMIT=N,... -- PROGRAM [ARG...]")
	}
	limits, err := rlimit.Parse(args[0])
	if err != nil {
		return err
	}
	return rlimit.Exec(limits, args[2:], os.Environ())
}
