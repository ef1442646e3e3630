// SPDX-License-Identifier: Apache-2.0

// Package probe is what an attack may use inside a sandbox, and the way its
// observations come out: plans in, length-framed, nonce-marked frames out.
//
// It is linked into one static binary that is put into the sandbox, so it
// imports the standard library, x/sys and verdict only. Everything that
// crosses it from a sandbox is hostile: see [Decoder].
package probe
