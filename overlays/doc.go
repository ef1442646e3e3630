// SPDX-License-Identifier: Apache-2.0

// Package overlays holds the manifests that Stockade puts on a cluster, and
// renders them: the Agent Sandbox controller with its admission policy, the
// hardened reference, the seed's own template, kode-gopher, the playground, the
// control Pods, and the mutants, each of which weakens exactly one control.
//
// Nothing here talks to a cluster. The controller's own manifests are no part
// of this repository; [ModuleFS] finds them in the pinned Go module.
package overlays
