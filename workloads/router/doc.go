// SPDX-License-Identifier: Apache-2.0

// Package router is the one door to the sandboxes: a reverse proxy that takes
// where a request goes out of X-Sandbox-* headers, with the contract of the
// Agent Sandbox project's own sandbox-router, so that clients of that one fit.
//
// It is stricter, since there is one caller and one kind of sandbox. It serves
// namespaces and a port that it was told of; it takes no address from a caller
// (X-Sandbox-Pod-IP is refused) but asks the API server; a sandbox that nobody
// has claimed is not there; and of a request's and an answer's headers only
// those pass that it knows. It follows no redirect, and passes none on.
package router
