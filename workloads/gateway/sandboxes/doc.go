// SPDX-License-Identifier: Apache-2.0

// Package sandboxes gives each session a sandbox of its own out of a warm pool,
// at most so many to a user, and takes it back.
//
// The API server is the lock. A user has numbered slots, and a slot's
// SandboxClaim has a name that follows from user and number alone: whoever
// creates it has the slot, and everybody else, in this process or in another
// replica, is told that it exists. A claim is deleted in the foreground, so that
// its name is taken until the sandbox's Pod is gone.
//
// A server may die at any time. Its claims carry a time to end (the Agent
// Sandbox controller acts on it), which a living server moves on while the
// session lasts, and the name of who holds them, by which a restarted server
// finds what its predecessor left.
package sandboxes
