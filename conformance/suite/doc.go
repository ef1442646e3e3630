// SPDX-License-Identifier: Apache-2.0

// Package suite holds the declarations: what a claim, a scenario, a mutant and
// a profile are, the registry of all of them, and their selection.
//
// It imports the standard library, verdict and probe only. The same registry
// is linked into the runner and into the static probe that goes into the
// sandbox.
package suite
