// SPDX-License-Identifier: Apache-2.0

// Package seal shows that nothing in a network namespace can reach the world,
// without sending a packet to find out.
//
// A packet leaves a network namespace over one of its links only. So the proof
// is a walk over links: starting at the sealed namespace, every virtual link
// leads to another namespace (a node's, from there a Pod's), and all of them
// together must contain no link that ends anywhere else: no hardware, no link
// whose far end is the host's namespace or unknown. Gather reads the facts,
// Judge is a pure function over them.
//
// Two ways out are not links and not covered: a process inside may hold a
// socket that was opened in another namespace, and Unix sockets ignore network
// namespaces altogether. Both need a process outside that cooperates.
package seal
