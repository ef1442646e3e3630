// SPDX-License-Identifier: Apache-2.0

// Package admission attacks the front door: it asks the API server for
// sandboxes that the admission policy must not let exist, and for ordinary
// Pods on the nodes that are kept for sandboxes.
package admission

import "github.com/stockade-dev/stockade/conformance/suite"

// Scenarios returns the family's scenarios.
func Scenarios() []suite.Scenario {
	all := []suite.Scenario{nodeTaint(), rejectUpdate(), waysAround()}
	for _, r := range rules {
		all = append(all, r.scenario())
	}
	return all
}
