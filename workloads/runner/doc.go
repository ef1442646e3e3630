// SPDX-License-Identifier: Apache-2.0

// Package runner builds and runs Go programs inside a sandbox, one at a time,
// on requests that reach it through the sandbox router.
//
// It runs as the same user as the programs, with nothing worth stealing: what
// contains a program is the sandbox around both. The runner's own part is that
// one call leaves nothing behind for the next but what lies in the folder
// "persist": no file, no process. When it cannot be sure of that it says so, and
// refuses every further call, so that its caller takes another sandbox.
//
// Two folders of the scratch stay as well, the go command's build cache and its
// modules. A program may write there: it can fill them, and it can replace what a
// later call of its session is built from. It has no part in another session,
// which has another sandbox.
package runner
