// SPDX-License-Identifier: Apache-2.0

// Package cli is the stockade command as a library.
//
// Every stream, the clock, the environment and everything that touches the
// machine or a cluster come in through [App], so that the whole command line is
// tested against the made-up parts of package cli/fake. The real parts are put
// together in wire_linux.go and nowhere else.
//
// Data goes to stdout, progress and errors to stderr. The exit codes are those
// of package verdict.
package cli
