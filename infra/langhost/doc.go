// SPDX-License-Identifier: Apache-2.0

// Package langhost is a language host for Pulumi: the process through which the
// engine starts a program, over gRPC. It runs the program that Pulumi.yaml names
// in runtime.options.binary, built before, and does nothing else.
//
// It exists because Pulumi's own host for Go, pulumi-language-go, is no module
// that can be had from a Go proxy: it comes with Pulumi's installation. Where
// that is used, so is its host, which honours the same option; this one is put
// on the PATH by `stockade pulumi` alone.
package langhost
