// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package rangehost

import (
	"context"
	"errors"
)

// ErrUnsealed is wrapped when the namespace is not sealed.
var ErrUnsealed = errors.New("this network namespace is not sealed")

// errPlatform is what a system without network namespaces gets.
var errPlatform = errors.New("starting the range: it needs Linux network namespaces (run it inside of the engine's Linux VM)")

// SpawnConfig says how to run a range as a background process.
type SpawnConfig struct {
	NetNS  string
	Argv   []string
	Env    []string
	Stderr string
}

// Serve needs Linux.
func Serve(context.Context, Config, func(Ready)) error { return errPlatform }

// Spawn needs Linux.
func Spawn(context.Context, SpawnConfig) (Ready, error) { return Ready{}, errPlatform }

// Terminate needs Linux.
func Terminate(context.Context, string) error { return errPlatform }
