// SPDX-License-Identifier: Apache-2.0

//go:build cluster && linux

package e2e

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/stockade-dev/stockade/conformance/e2e/uplink"
)

// The twin of the uplink test: in a namespace of its own, whose one link is a
// veth pair with both ends inside, the same capture with the same rules must
// see the packet that does go out. It cannot leave: the namespace has no route
// but the pair's own, and the test makes sure of that first.
func TestTheCaptureSeesAPacketThatDoesGoOut(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread dies with its namespace
	home, err := netns.Get()
	require.NoError(t, err)
	ns, err := netns.New()
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, netns.Set(home))
		assert.NoError(t, ns.Close())
	})
	require.NoError(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "up0"}, PeerName: "up1"}))
	for _, name := range []string{"up0", "up1"} {
		link, err := netlink.LinkByName(name)
		require.NoError(t, err)
		require.NoError(t, netlink.LinkSetUp(link))
		if name == "up0" {
			require.NoError(t, netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(203, 0, 113, 1), Mask: net.CIDRMask(24, 32)}}))
			// Without a neighbour entry there would be an ARP request only.
			require.NoError(t, netlink.NeighAdd(&netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT,
				IP: net.IPv4(203, 0, 113, 7), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 7}}))
		}
	}
	links, err := netlink.LinkList()
	require.NoError(t, err)
	for _, l := range links {
		require.Contains(t, []string{"lo", "up0", "up1"}, l.Attrs().Name, "the namespace has a way out")
	}

	tap, err := uplink.Open()
	require.NoError(t, err)
	defer func() { assert.NoError(t, tap.Close()) }()
	conn, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(203, 0, 113, 7), Port: 4500})
	require.NoError(t, err)
	defer func() { assert.NoError(t, conn.Close()) }()

	// The kernel notices a new link's carrier up to a second after it is up
	// and drops what is sent before, so one packet would not do.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	rules, hits, seen := clusterAndRange(), []string(nil), 0
	for len(hits) == 0 && ctx.Err() == nil {
		_, err = conn.Write([]byte("stockade"))
		require.NoError(t, err)
		once, end := context.WithTimeout(ctx, 200*time.Millisecond)
		more, n, err := uplink.Watch(once, tap, rules, 5)
		end()
		require.NoError(t, err)
		hits, seen = append(hits, more...), seen+n
	}
	assert.Positive(t, seen)
	assert.NotEmpty(t, hits)

	// With the rules of somewhere else it is silent: Match is what decides.
	assert.Empty(t, uplink.Rules{Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}.Match(uplink.Packet{Dst: netip.MustParseAddr("203.0.113.7")}))
}
