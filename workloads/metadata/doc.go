// SPDX-License-Identifier: Apache-2.0

// Package metadata plays Google's metadata server for sandboxes, which cannot
// reach the real one: it hands each run one short-lived access token, and has
// nothing else to give.
//
// A run is known by its sandbox's address, from when the gateway begins it until
// the gateway ends it, or its time is over. The token of a run is refused
// afterwards, by this server at once and by whoever asks it (see [Control]); at
// Google it lives on until it expires, which is why it is short-lived.
package metadata
