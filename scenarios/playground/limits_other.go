// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package playground

import (
	"context"
	"errors"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// Sandboxes are Linux; elsewhere the registry only has to build.
var errLinux = errors.New("resource limits are looked at on Linux only")

func readLimits(int) []limit { return []limit{{name: "everything", err: errLinux}} }

func raise(int, limit) error { return errLinux }

func openMany() verdict.Step { return probe.Denied("open more files than the limit", errLinux) }

func moveSoft(context.Context, *probe.Env) []verdict.Step {
	return []verdict.Step{probe.Denied("move a soft limit", errLinux)}
}
