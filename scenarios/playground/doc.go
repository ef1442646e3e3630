// SPDX-License-Identifier: Apache-2.0

// Package playground attacks an execution service that starts a Pod for every
// program of a stranger's: the door of its namespace, what a run has around it,
// and what the service itself may do.
//
// Left out, and why:
//   - A user id that two runs share on the node's side: the Pods of two runs
//     share no file, so that there is nothing to find from inside. That the ids
//     differ is what playground.own-uid shows.
//   - Memory outside of the address space: under gVisor a process has none.
package playground

import (
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

// Scenarios returns the family's scenarios.
func Scenarios() []suite.Scenario {
	all := []suite.Scenario{
		networkOff(), defaultDenyEgress(), egressDrops(), egressPolicy(), defaultDenyIngress(), ingressPolicy(), podQuota(),
		workspaceSize(), workspaceProgram(), raiseLimits(), runLimits(),
		ownUID(), memoryError(), executionRights(), servicePolicy(), serviceFromStranger(), runtimeSocket(), everyPod(), waysAround(), forbiddenPods(), forbiddenComponents(),
	}
	for _, r := range rules {
		all = append(all, r.scenario())
	}
	return all
}

// object is short for an object's shape.
type object = manifest.Object
