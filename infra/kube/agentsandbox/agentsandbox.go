// SPDX-License-Identifier: Apache-2.0

// Package agentsandbox has the names of Agent Sandbox's API, for whoever takes its
// objects without their Go types.
package agentsandbox

import "k8s.io/apimachinery/pkg/runtime/schema"

var (
	core       = schema.GroupVersion{Group: "agents.x-k8s.io", Version: "v1beta1"}
	extensions = schema.GroupVersion{Group: "extensions.agents.x-k8s.io", Version: "v1beta1"}
)

// The kinds.
var (
	Sandbox  = core.WithKind("Sandbox")
	Claim    = extensions.WithKind("SandboxClaim")
	WarmPool = extensions.WithKind("SandboxWarmPool")
	Template = extensions.WithKind("SandboxTemplate")
)

// The resources, by which the API server is asked for objects of these kinds.
var (
	Sandboxes = core.WithResource("sandboxes")
	Claims    = extensions.WithResource("sandboxclaims")
	WarmPools = extensions.WithResource("sandboxwarmpools")
)
