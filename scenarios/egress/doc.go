// SPDX-License-Identifier: Apache-2.0

// Package egress tries to get a packet out of the sandbox, to every kind of
// place and by every protocol that code without privileges can speak.
//
// A network policy denies by silence: Cilium drops the packet, and so does
// every other engine in its default setting. So Dropped is what these
// scenarios accept, and a refusal or a reset is not: somebody beyond the policy
// has answered then, and the verdict is Inconclusive until a person has looked.
// Because a policy's silence looks like that of a dead network, each attack is
// made twice, beside a Pod without a policy that is answered in the same
// window, and wherever it is possible two witnesses must confirm it: the range
// that the nonce never arrived, and the flow log that the policy dropped it. The
// range can only look for nonces, and a sandbox may leave them out; so the flow
// log is asked for every place of an attack, by address, port and protocol.
//
// A UDP send succeeds whatever becomes of the datagram; there an answer is the
// aim, and the range tells whether one got out unanswered.
//
// Left out, and why: SCTP, GRE and other IP protocols need a raw socket, which
// gVisor denies without CAP_NET_RAW (kernel.exotic-socket-families). The first
// seconds of a Pod's life need an attack in the template's own command, and
// wait for a way to put one there.
package egress

import (
	"net"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// Scenarios returns the family's scenarios.
func Scenarios() []suite.Scenario {
	return []suite.Scenario{
		tcpPublic(), tlsPublic(), udpPublic(), ipv6Public(), icmp(),
		dnsForeignResolver(), dnsTunnel(), dnsLinkLocal(), clusterDNS(),
		apiServer(), kubelet(), privateRanges(), siblingSandbox(),
		defaultPolicyPublic(), defaultPolicyPrivate(),
	}
}

// dropped is what a policy's denial looks like from inside.
var dropped = []verdict.Class{verdict.Dropped}

// over gives places a protocol, as [suite.Flow] spells it; without one it is
// TCP. A place that the site does not have is left out.
func over(proto string, all ...string) []string {
	var out []string
	for _, a := range all {
		if a != "" {
			out = append(out, a+"/"+proto)
		}
	}
	return out
}

// eitherWay gives each place over UDP and over TCP.
func eitherWay(all ...string) []string { return append(over("udp", all...), all...) }

// ports are the same address at other ports; none for a site without it.
func ports(addr string, others ...string) []string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil
	}
	out := []string{addr}
	for _, p := range others {
		out = append(out, net.JoinHostPort(host, p))
	}
	return out
}
