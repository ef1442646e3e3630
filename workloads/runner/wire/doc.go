// SPDX-License-Identifier: Apache-2.0

// Package wire is the language between the gateway and the runner: one request
// with the files of a Go program, one answer with what became of it.
//
// Both sides distrust each other. A request was written by a model, and an
// answer comes out of a sandbox in which model-written code has run, so that
// each is bounded, strict, and checked before anybody acts on it.
package wire
