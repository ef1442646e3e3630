// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	host NS = 100 + iota
	sealed
	node
	pod
	stranger
)

// cluster is a sound seal around one node with one Pod. The tests below are
// its broken twins.
func cluster() Facts {
	lo := Link{Name: "lo", Loopback: true}
	return Facts{
		Sealed: sealed,
		Host:   host,
		Namespaces: map[NS]Namespace{
			host: {Name: "host", Links: []Link{lo, {Name: "eth0"}},
				Routes: []Route{{Dst: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr("192.0.2.1"), Dev: "eth0", Table: 254}}},
			sealed: {Name: "stockade",
				Links: []Link{lo, {Name: "stockade0", Kind: "bridge"}, {Name: "veth1", Kind: "veth", Paired: true, Peer: node}},
				Routes: []Route{
					{Dst: netip.MustParsePrefix("172.30.0.0/24"), Dev: "stockade0", Table: 254},
					{Dst: netip.MustParsePrefix("0.0.0.0/0"), Dev: "lo", Table: 100, Local: true},
					{Dst: netip.MustParsePrefix("::/0"), Dev: "lo", Table: 100, Local: true},
				}},
			node: {Name: "node",
				Links: []Link{lo,
					{Name: "eth0", Kind: "veth", Paired: true, Peer: sealed},
					{Name: "cilium_host", Kind: "veth", Paired: true, Peer: node},
					{Name: "cilium_vxlan", Kind: "vxlan"},
					{Name: "tunl0", Kind: "ipip"},
					{Name: "lxc1", Kind: "veth", Paired: true, Peer: pod}},
				Routes: []Route{{Dst: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr("172.30.0.1"), Dev: "eth0", Table: 254}}},
			pod:      {Name: "pod", Links: []Link{lo, {Name: "eth0", Kind: "veth", Paired: true, Peer: node}}},
			stranger: {Name: "stranger", Links: []Link{lo, {Name: "veth9", Kind: "veth", Paired: true, Peer: host}}},
		},
	}
}

func TestASealedClusterIsSealed(t *testing.T) {
	require.NoError(t, Judge(cluster()))
}

func TestAnEmptyNamespaceIsSealed(t *testing.T) {
	f := cluster()
	f.Namespaces[sealed] = Namespace{Name: "stockade", Links: []Link{{Name: "lo", Loopback: true}}}
	require.NoError(t, Judge(f))
}

func TestNoOtherNamespaceOfTheMachineMatters(t *testing.T) {
	f := cluster()
	f.Namespaces[stranger] = Namespace{Name: "stranger", Links: []Link{{Name: "eth1"}, {Name: "wg0", Kind: "wireguard"}}}
	require.NoError(t, Judge(f))
}

func TestEveryBrokenTwinIsFound(t *testing.T) {
	link := func(ns NS, l Link) func(*Facts) {
		return func(f *Facts) {
			n := f.Namespaces[ns]
			n.Links = append(n.Links, l)
			f.Namespaces[ns] = n
		}
	}
	route := func(r Route) func(*Facts) {
		return func(f *Facts) {
			n := f.Namespaces[sealed]
			n.Routes = append(n.Routes, r)
			f.Namespaces[sealed] = n
		}
	}
	all4, all6 := netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")
	for _, tc := range []struct {
		name   string
		damage func(*Facts)
		want   Code
	}{
		{"no namespace", func(f *Facts) { f.Sealed = Unknown }, Absent},
		{"a namespace that is gone", func(f *Facts) { f.Sealed = 999 }, Absent},
		{"the machine's own namespace", func(f *Facts) { f.Sealed = host }, IsHost},
		{"a veth to the host", link(sealed, Link{Name: "leak", Kind: "veth", Paired: true, Peer: host}), ToHost},
		{"a veth from a node to the host", link(node, Link{Name: "leak", Kind: "veth", Paired: true, Peer: host}), ToHost},
		{"a veth from a Pod to the host", link(pod, Link{Name: "leak", Kind: "veth", Paired: true, Peer: host}), ToHost},
		{"a way over another namespace", link(sealed, Link{Name: "leak", Kind: "veth", Paired: true, Peer: stranger}), ToHost},
		{"a veth to nowhere known", link(sealed, Link{Name: "leak", Kind: "veth", Paired: true, Peer: Unknown}), ToUnknown},
		{"a veth whose end the kernel hides", link(node, Link{Name: "leak", Kind: "veth"}), ToUnknown},
		{"a veth to a namespace that was not read", link(sealed, Link{Name: "leak", Kind: "veth", Paired: true, Peer: 998}), ToUnknown},
		{"a network card", link(sealed, Link{Name: "eth0"}), Hardware},
		{"a network card in a node", link(node, Link{Name: "eth1"}), Hardware},
		{"a macvlan on the host's card", link(sealed, Link{Name: "mac0", Kind: "macvlan", Paired: true, Peer: host}), Hardware},
		{"an ipvlan in a node", link(node, Link{Name: "ipvl0", Kind: "ipvlan", Paired: true, Peer: host}), Hardware},
		{"a tun device", link(sealed, Link{Name: "tun0", Kind: "tuntap"}), Hardware},
		{"WireGuard", link(node, Link{Name: "wg0", Kind: "wireguard"}), Hardware},
		{"a kind nobody knows yet", link(sealed, Link{Name: "x0", Kind: "novel"}), Hardware},
		{"a vxlan made on the host", link(sealed, Link{Name: "vx0", Kind: "vxlan", Paired: true, Peer: host}), ToHost},
		{"an IPv4 default route", route(Route{Dst: all4, Via: netip.MustParseAddr("172.30.0.2"), Dev: "stockade0", Table: 254}), DefaultRoute},
		{"an IPv6 default route", route(Route{Dst: all6, Via: netip.MustParseAddr("fd00::2"), Dev: "stockade0", Table: 254}), DefaultRoute},
		{"a default route in another table", route(Route{Dst: all4, Dev: "stockade0", Table: 100}), DefaultRoute},
		{"a route through a gateway", route(Route{Dst: netip.MustParsePrefix("8.0.0.0/8"), Via: netip.MustParseAddr("172.30.0.9"), Dev: "stockade0", Table: 7}), Gateway},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := cluster()
			tc.damage(&f)
			err := Judge(f)
			var open *OpenError
			require.ErrorAs(t, err, &open)
			assert.True(t, open.Has(tc.want), "want %s, got: %v", tc.want, err)
			assert.ErrorContains(t, err, "stockade up", "the error names the remedy")
		})
	}
}

func TestRoutesThatLeadNowhereAreHarmless(t *testing.T) {
	f := cluster()
	n := f.Namespaces[sealed]
	n.Routes = append(n.Routes,
		Route{Dst: netip.MustParsePrefix("0.0.0.0/0"), Blocked: true, Table: 254},
		Route{Dst: netip.MustParsePrefix("::/0"), Blocked: true, Dev: "lo", Table: 254})
	f.Namespaces[sealed] = n
	require.NoError(t, Judge(f))
}

func TestAllOpeningsAreNamedAtOnce(t *testing.T) {
	f := cluster()
	n := f.Namespaces[sealed]
	n.Links = append(n.Links, Link{Name: "eth0"}, Link{Name: "leak", Kind: "veth", Paired: true, Peer: host})
	f.Namespaces[sealed] = n
	var open *OpenError
	require.ErrorAs(t, Judge(f), &open)
	assert.Len(t, open.Openings, 2)
}
