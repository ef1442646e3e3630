// SPDX-License-Identifier: Apache-2.0

// Package fake plays the cluster for tests of the gateway: an API server that
// knows SandboxClaims and Sandboxes and speaks HTTP, so that the real client is
// what is tested, with a controller behind it that gives each claim a sandbox
// in this process. No program links it.
package fake
