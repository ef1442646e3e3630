// SPDX-License-Identifier: Apache-2.0

// Package prove shows what Held is worth: it weakens one control at a time and
// demands that the scenarios that guard it say Breached.
//
// A mutant counts as killed only if the weakening was read back from the cluster,
// honest code still ran in the mutant, and a round of the scenario's attack then said
// Breached. A mutant that did not take effect, or that broke more than its control, is
// void: a scenario that fails on rubble proves nothing.
package prove
