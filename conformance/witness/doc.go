// SPDX-License-Identifier: Apache-2.0

// Package witness turns what was seen outside of the sandbox into statements:
// the range's log, Hubble's flows, the API server's state, and the node's
// cgroup numbers. Judging is pure; reading is behind small interfaces.
package witness
