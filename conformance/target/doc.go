// SPDX-License-Identifier: Apache-2.0

// Package target is how code gets into a Pod: exec, bounded in time and bytes,
// and the delivery of the probe through one exec for a whole batch.
//
// What comes back is hostile. Nothing here trusts it, and nothing here judges
// it: the frames are decoded by package probe, and package verdict decides.
package target
