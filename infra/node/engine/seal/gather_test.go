// SPDX-License-Identifier: Apache-2.0

//go:build linux

package seal

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/stockade-dev/stockade/conformance/probe/mountinfo"
)

func TestNamespaceFilesAreFoundAmongMounts(t *testing.T) {
	const info = `22 1 0:21 / /proc rw - proc proc rw
301 22 0:4 net:[4026532281] /run/netns/stockade rw shared:9 - nsfs nsfs rw
302 22 0:4 mnt:[4026532282] /run/other rw - nsfs nsfs rw
303 22 0:4 net:[4026532283] /run/net\040ns/cni-1 rw - nsfs nsfs rw
broken
`
	assert.Equal(t, []string{"/run/netns/stockade", "/run/net ns/cni-1"}, netnsMounts(mountinfo.Parse(info)))
}

func TestRoutesKeepWhatTheJudgeNeeds(t *testing.T) {
	devs := map[int]string{1: "lo", 5: "stockade0"}
	_, eight, _ := net.ParseCIDR("8.0.0.0/8")
	for _, tc := range []struct {
		name   string
		in     netlink.Route
		family int
		want   Route
	}{
		{"the range's own", netlink.Route{Table: 100, Type: unix.RTN_LOCAL, LinkIndex: 1}, netlink.FAMILY_V4,
			Route{Table: 100, Dev: "lo", Dst: netip.MustParsePrefix("0.0.0.0/0"), Local: true}},
		{"an IPv6 default route", netlink.Route{Table: 254, Type: unix.RTN_UNICAST, LinkIndex: 5, Gw: net.ParseIP("fd00::1")}, netlink.FAMILY_V6,
			Route{Table: 254, Dev: "stockade0", Dst: netip.MustParsePrefix("::/0"), Via: netip.MustParseAddr("fd00::1")}},
		{"one with many next hops", netlink.Route{Table: 254, Type: unix.RTN_UNICAST, Dst: eight,
			MultiPath: []*netlink.NexthopInfo{{LinkIndex: 5, Gw: net.ParseIP("172.30.0.9")}}}, netlink.FAMILY_V4,
			Route{Table: 254, Dev: "stockade0", Dst: netip.MustParsePrefix("8.0.0.0/8"), Via: netip.MustParseAddr("172.30.0.9")}},
		{"one through a gateway of the other family", netlink.Route{Table: 254, Type: unix.RTN_UNICAST, Dst: eight, LinkIndex: 5,
			Via: &netlink.Via{AddrFamily: unix.AF_INET6, Addr: net.ParseIP("fe80::1")}}, netlink.FAMILY_V4,
			Route{Table: 254, Dev: "stockade0", Dst: netip.MustParsePrefix("8.0.0.0/8"), Via: netip.MustParseAddr("fe80::1")}},
		{"one that leads nowhere", netlink.Route{Table: 254, Type: unix.RTN_UNREACHABLE, LinkIndex: 1}, netlink.FAMILY_V6,
			Route{Table: 254, Dev: "lo", Dst: netip.MustParsePrefix("::/0"), Blocked: true}},
	} {
		t.Run(tc.name, func(t *testing.T) { assert.Equal(t, tc.want, convert(tc.in, tc.family, devs)) })
	}
}
