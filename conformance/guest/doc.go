// SPDX-License-Identifier: Apache-2.0

// Package guest makes a target of a user's own SandboxTemplate, for the time of
// one run: it reads the file, asks the cluster whether the template can work
// there before anything is created, and deploys it in a namespace of its own
// that is in the run's ledger before it exists.
//
// The cluster's admission policy stays in force. A template that it refuses has
// no Pods to attack, so its run is Inconclusive and says which rule it was.
package guest
