// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Program runc-wrapper is runc for hosts that lack privileges; see package
// ociwrap. The engine builds it and registers it as Docker's default runtime
// only where it is needed.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/stockade-dev/stockade/infra/node/engine/ociwrap"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "runc-wrapper: %v\n", err)
		os.Exit(1)
	}
}

// run does not return when all goes well: the process becomes runc, so that
// its parent sees runc's exit code and signals reach runc.
func run() error {
	have, err := ociwrap.ReadPrivileges()
	if err != nil {
		return err
	}
	if err := ociwrap.Adapt(ociwrap.ParseArgs(os.Args[1:]), have); err != nil {
		return err
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return fmt.Errorf("looking for runc: %w; install the package runc", err)
	}
	args := append([]string{"runc"}, os.Args[1:]...)
	if err := syscall.Exec(runc, args, os.Environ()); err != nil {
		return fmt.Errorf("running %s: %w", runc, err)
	}
	return nil
}
