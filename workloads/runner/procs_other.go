// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package runner

import (
	"context"
	"errors"
	"os/exec"
)

var errLinux = errors.New("running programs: sandboxes are Linux")

// Adopt exists on Linux only.
func Adopt() error { return errLinux }

func group(*exec.Cmd) {}

func killGroup(*exec.Cmd) error { return errLinux }

func sweep(context.Context) (int, error) { return 0, errLinux }
