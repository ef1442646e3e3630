// SPDX-License-Identifier: Apache-2.0

// Package sandbox deploys what runs inside a cluster, on kind and on GKE alike:
// the Agent Sandbox controller with its admission policy, templates and warm
// pools, and the servers in front of them. The objects are those of package
// overlays, the very ones that `stockade up` applies, so that both ways lead to
// the same cluster; the real Kubernetes provider makes them, waits for them and
// sees when they drift.
package sandbox
