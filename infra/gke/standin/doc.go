// SPDX-License-Identifier: Apache-2.0

// Package standin is a Google cloud for tests: a Pulumi provider named gcp that
// keeps its resources in a file instead of a project. The real provider cannot
// be run without an account, so the engine talks to this one.
//
// Its fidelity is what is written down here, and no more:
//
//   - Names, types and required flags of properties are read from the Go SDK's
//     own source ([Schema]): an unknown or missing property is refused as the
//     provider would refuse it.
//   - What forces a replacement, which defaults the provider adds, what it
//     refuses before it asks Google, what Google refuses, and what Google
//     computes are tables and functions in this package, one set for each type
//     (kinds.go lists them). They were written by hand from public
//     documentation, and nothing here was compared with a live project. A type
//     that has no entry is refused: the stand-in knows nothing of it.
//   - Nothing takes time: there are no operations to wait for, no eventual
//     consistency, no permissions of the caller, no billing.
//
// So a program that passes here has its properties spelled right, its resources
// in an order that Google would accept, and survives errors in the middle. It
// does not mean that Google accepts it.
//
// [Cloud] holds the state and the journal and takes orders to fail ([Fault]);
// [Serve] offers it to an engine, which is attached by
// PULUMI_DEBUG_PROVIDERS=gcp:PORT. No program of ours links this package.
package standin
