// SPDX-License-Identifier: Apache-2.0

// Package rangehost plays the whole outside world inside a sealed network
// namespace and writes down whatever reaches it: the witness of an egress
// that really happened, and, through rangeclient, of one that did not.
//
// Packets that arrive on a node bridge for an address that is not the
// namespace's own are taken by three means together: a policy routing rule
// makes every destination local, an nftables TPROXY rule hands TCP and UDP of
// any port to one transparent socket each, and a packet socket sees what has
// no ports (and each TCP SYN, so that a connect counts even when nothing
// follows). The destination that was meant is kept throughout, and the event
// is in the log before the answer leaves.
//
// Everything from the network is hostile: each reader is bounded in bytes and
// in time, connections are capped, and what could not be written down is
// counted in [rangeclient.Health.Lost], so that overload never reads as
// absence.
package rangehost
