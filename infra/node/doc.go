// SPDX-License-Identifier: Apache-2.0

// Package node makes everything a local cluster runs out of source: the
// third-party programs from their Go modules, the kind node image, and the
// images inside the cluster. No image registry and no running Docker engine is
// needed, only the Go module proxy and a Debian mirror.
//
// Build is the entry point. Its results lie under STOCKADE_HOME:
//
//	bin/<component>-<key>/       programs, one folder a component
//	images/debian/<tree>-<key>.tar   Debian file systems, as image layers
//	images/<archive>-<key>.tar   docker archives, each with a .json beside it
//
// A key is a hash of everything that goes in, so a finished result is found by
// its name alone, and a change of one input rebuilds only what depends on it.
// Results appear under their final name by rename: whatever carries another
// name is the rest of a build that was killed, and the next build removes it.
// Prune removes results whose inputs are no longer current.
package node
