// SPDX-License-Identifier: Apache-2.0

// Package filesystem attacks what a sandbox can write, and what it can see of
// the node's files.
package filesystem

import "github.com/stockade-dev/stockade/conformance/suite"

// Scenarios returns the family's scenarios.
func Scenarios() []suite.Scenario {
	return []suite.Scenario{writeOutsideTmp(), hostMounts(), tmpSize(), setuidProgram()}
}
