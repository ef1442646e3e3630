// SPDX-License-Identifier: Apache-2.0

// Package kind makes a real Kubernetes cluster inside the sealed engine: kind
// for the nodes, Cilium for the network, gVisor as a second runtime.
//
// It has two nodes, as a cluster on GKE with a sandbox pool has: one for the
// system, one with GKE's label and taint for gVisor Pods. What depends on the
// host (cgroup version, capabilities) is decided by pure functions over
// HostFacts and applied only where it is needed.
//
// The calling process must live in the seal (engine.Enter): kind talks to
// Docker, and Up to the API server, at addresses that exist only in there.
package kind
