// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package kernel

import "errors"

// The probe is only ever built for Linux; the runner links the same registry
// on every system, and runs none of its actions.

var errLinuxOnly = errors.New("only the Linux probe can do this")

func uname() (string, string, error) { return "", "", errLinuxOnly }
func kernelLog() (string, error)     { return "", errLinuxOnly }
func nodeCalls() []call              { return nil }
func sockets() []socket              { return nil }
func peek(string) (string, error)    { return "", errLinuxOnly }
func openOnly(string, bool) error    { return errLinuxOnly }
func noNewPrivs() (bool, error)      { return false, errLinuxOnly }
func becomeRoot() error              { return errLinuxOnly }
func status(string) (string, error)  { return "", errLinuxOnly }
