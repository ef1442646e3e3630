// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package probe

import (
	"context"
	"errors"
	"net"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

// The probe itself is only ever built for Linux; the runner links the same
// registry on every system, and runs none of its actions.

var errLinuxOnly = errors.New("only the Linux probe can do this")

func dialMapped(context.Context, string) (net.Conn, error) { return nil, errLinuxOnly }

// Ping needs Linux.
func Ping(_ context.Context, _ *Env, name, _ string, _ bool) verdict.Step {
	return Failed(name, verdict.ToolMissing, "%v", errLinuxOnly)
}
