// SPDX-License-Identifier: Apache-2.0

// Package resources attacks the node through what a sandbox may use up:
// memory, processor time, processes, its disk.
//
// A limit is judged from two sides. The attack says what it got, and the node's
// cgroup numbers say what was taken; inside a sandbox neither clocks nor
// counters are to be believed.
package resources

import "github.com/stockade-dev/stockade/conformance/suite"

// Scenarios returns the family's scenarios.
func Scenarios() []suite.Scenario {
	return []suite.Scenario{memoryRunaway(), cpuRunaway(), processBomb(), declaredLimits()}
}

const mib = 1 << 20
