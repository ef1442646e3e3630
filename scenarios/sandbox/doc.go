// SPDX-License-Identifier: Apache-2.0

// Package sandbox shows what the Agent Sandbox controller does and does not do
// for a sandbox: its network policy, its warm pool, what a claim may change of it,
// and that honest code works.
package sandbox

import "github.com/stockade-dev/stockade/conformance/suite"

// Scenarios returns the family's scenarios.
func Scenarios() []suite.Scenario {
	return []suite.Scenario{bareSandboxNetwork(), policyEnforced(), egressPolicy(), defaultEgressPolicy(), ingressPolicy(), forbiddenPods(), claimEnvironment(), claimVolume(), warmClaim(), coffeeTotals()}
}

// The names and kinds that every target uses (package overlays).
const (
	templateName = "budget-sandbox"
	poolName     = "budget-pool"

	coreAPI       = "v1"
	agentsAPI     = "agents.x-k8s.io/v1beta1"
	extensionsAPI = "extensions.agents.x-k8s.io/v1beta1"
	networkingAPI = "networking.k8s.io/v1"
)
