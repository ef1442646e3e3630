// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// What the capture is called in the kernel. An earlier run's is recognised by
// it and replaced.
const (
	nftTable     = "stockade_range"
	nftChain     = "capture"
	routeTable   = 100
	rulePriority = 100
)

// ports are the transparent sockets' own; each listens on loopback, so that
// only TPROXY can lead to it.
type ports struct{ tcp4, udp4, tcp6, udp6 uint16 }

// bridge is one captured interface as it was when the capture was installed.
type bridge struct {
	name  string
	index int
	own   []netip.Prefix // the subnets that live on it
}

// capture is what brings the outside world's packets to our sockets.
type capture struct {
	bridges []bridge
	ports   ports
	ipv6    bool
	state   string // the file that remembers former sysctl values
}

// ipv6Enabled says whether the namespace's loopback has IPv6: without it there
// is no route to make ::/0 local, and nothing that could arrive.
func ipv6Enabled() bool {
	b, err := os.ReadFile("/proc/sys/net/ipv6/conf/lo/disable_ipv6")
	return err == nil && strings.TrimSpace(string(b)) == "0"
}

func findBridges(names []string) ([]bridge, error) {
	var out []bridge
	for _, name := range names {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return nil, fmt.Errorf("finding interface %s: %w (create the node network first; `ip link` lists what there is)", name, err)
		}
		b := bridge{name: name, index: l.Attrs().Index}
		addrs, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		if err != nil {
			return nil, fmt.Errorf("listing the addresses of %s: %w", name, err)
		}
		for _, a := range addrs {
			ip, ok := netip.AddrFromSlice(a.IP)
			ones, _ := a.Mask.Size()
			if ok && !ip.Unmap().IsLinkLocalUnicast() {
				b.own = append(b.own, netip.PrefixFrom(ip.Unmap(), ones).Masked())
			}
		}
		if len(b.own) == 0 {
			return nil, fmt.Errorf("finding interface %s: it has no address, so that no node can route to it", name)
		}
		out = append(out, b)
	}
	return out, nil
}

// install puts everything in place. It may be called over an earlier run's
// remains: every step replaces.
func (c *capture) install() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding the loopback interface: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("setting lo up: %w", err)
	}
	if err := c.setSysctls(); err != nil {
		return err
	}
	if err := c.installTable(); err != nil {
		return err
	}
	for _, family := range c.families() {
		if err := c.installRoutes(family, lo.Attrs().Index); err != nil {
			return err
		}
	}
	return nil
}

func (c *capture) families() []int {
	if c.ipv6 {
		return []int{netlink.FAMILY_V4, netlink.FAMILY_V6}
	}
	return []int{netlink.FAMILY_V4}
}

// installRoutes makes every destination local to packets from the bridges,
// but for the bridges' own subnets: nodes reach each other as before.
func (c *capture) installRoutes(family, lo int) error {
	whole := &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
	if family == netlink.FAMILY_V6 {
		whole = &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
	}
	if err := flushRoutes(family); err != nil {
		return err
	}
	routes := []netlink.Route{{LinkIndex: lo, Dst: whole, Type: unix.RTN_LOCAL, Scope: unix.RT_SCOPE_HOST}}
	for _, b := range c.bridges {
		for _, p := range b.own {
			if p.Addr().Is4() == (family == netlink.FAMILY_V4) {
				routes = append(routes, netlink.Route{Dst: ipNet(p), Type: unix.RTN_THROW})
			}
		}
	}
	for _, r := range routes {
		r.Table, r.Family = routeTable, family
		if err := netlink.RouteReplace(&r); err != nil {
			return fmt.Errorf("adding route %s to table %d: %w", r.Dst, routeTable, err)
		}
	}
	present, err := ourRules(family)
	if err != nil {
		return err
	}
	for _, b := range c.bridges {
		if slices.ContainsFunc(present, func(r netlink.Rule) bool { return r.IifName == b.name }) {
			continue
		}
		r := newRule(family, b.name)
		if err := netlink.RuleAdd(r); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("adding the rule for %s: %w", b.name, err)
		}
	}
	for i, r := range present {
		wanted := slices.ContainsFunc(c.bridges, func(b bridge) bool { return b.name == r.IifName })
		twice := slices.ContainsFunc(present[:i], func(o netlink.Rule) bool { return o.IifName == r.IifName })
		if wanted && !twice {
			continue
		}
		if err := netlink.RuleDel(newRule(family, r.IifName)); err != nil {
			return fmt.Errorf("deleting an old rule for %s: %w", r.IifName, err)
		}
	}
	return nil
}

func newRule(family int, iif string) *netlink.Rule {
	r := netlink.NewRule()
	r.Family, r.IifName, r.Table, r.Priority = family, iif, routeTable, rulePriority
	return r
}

// ourRules are those that we, now or before, have added.
func ourRules(family int) ([]netlink.Rule, error) {
	all, err := netlink.RuleList(family)
	if err != nil {
		return nil, fmt.Errorf("listing routing rules: %w", err)
	}
	return slices.DeleteFunc(all, func(r netlink.Rule) bool {
		return r.Table != routeTable || r.Priority != rulePriority || r.IifName == ""
	}), nil
}

func flushRoutes(family int) error {
	routes, err := netlink.RouteListFiltered(family, &netlink.Route{Table: routeTable}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return fmt.Errorf("listing table %d: %w", routeTable, err)
	}
	for _, r := range routes {
		if r.Dst == nil { // the library reads 0/0 as nil and does not take it back
			r.Dst = &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
			if family == netlink.FAMILY_V6 {
				r.Dst = &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
			}
		}
		if err := netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("deleting route %s of table %d: %w", r.Dst, routeTable, err)
		}
	}
	return nil
}

// installTable replaces our nftables table in one transaction.
func (c *capture) installTable() error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("opening nftables: %w", err)
	}
	t := &nftables.Table{Name: nftTable, Family: nftables.TableFamilyINet}
	conn.AddTable(t)
	conn.DelTable(t) // adding first makes the deletion succeed in any case
	conn.AddTable(t)
	base := conn.AddChain(&nftables.Chain{
		Name: nftChain, Table: t, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityMangle,
	})
	for _, b := range c.bridges {
		chain := conn.AddChain(&nftables.Chain{Name: "from_" + b.name, Table: t})
		for _, match := range c.exceptions() {
			conn.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: append(match, &expr.Verdict{Kind: expr.VerdictReturn})})
		}
		for _, take := range c.takes() {
			conn.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: take})
		}
		conn.AddRule(&nftables.Rule{Table: t, Chain: base, Exprs: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: append([]byte(b.name), make([]byte, 16-len(b.name))...)},
			&expr.Verdict{Kind: expr.VerdictJump, Chain: chain.Name},
		}})
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("installing nftables table %s: %w (the kernel needs nf_tables with tproxy and fib)", nftTable, err)
	}
	return nil
}

// exceptions match what is not for the outside world.
func (c *capture) exceptions() [][]expr.Any {
	var out [][]expr.Any
	for _, kind := range []uint32{unix.RTN_LOCAL, unix.RTN_BROADCAST, unix.RTN_ANYCAST, unix.RTN_MULTICAST} {
		out = append(out, []expr.Any{
			&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.NativeEndian.AppendUint32(nil, kind)},
		})
	}
	prefixes := []netip.Prefix{netip.MustParsePrefix("fe80::/10")}
	for _, o := range c.bridges {
		prefixes = append(prefixes, o.own...)
	}
	for _, p := range prefixes {
		out = append(out, destinedTo(p))
	}
	return out
}

func destinedTo(p netip.Prefix) []expr.Any {
	family, offset, size := byte(unix.NFPROTO_IPV4), uint32(16), uint32(4)
	if p.Addr().Is6() {
		family, offset, size = unix.NFPROTO_IPV6, 24, 16
	}
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{family}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: size, Mask: ipNet(p).Mask, Xor: make([]byte, size)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Addr().AsSlice()},
	}
}

// takes hand TCP and UDP of all ports to our sockets.
func (c *capture) takes() [][]expr.Any {
	take := func(family, proto byte, addr netip.Addr, port uint16) []expr.Any {
		return []expr.Any{
			&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{family}},
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{proto}},
			&expr.Immediate{Register: 1, Data: addr.AsSlice()},
			&expr.Immediate{Register: 2, Data: binary.BigEndian.AppendUint16(nil, port)},
			&expr.TProxy{Family: family, TableFamily: byte(nftables.TableFamilyINet), RegAddr: 1, RegPort: 2},
			&expr.Verdict{Kind: expr.VerdictAccept},
		}
	}
	v4, v6 := netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()
	out := [][]expr.Any{
		take(unix.NFPROTO_IPV4, unix.IPPROTO_TCP, v4, c.ports.tcp4),
		take(unix.NFPROTO_IPV4, unix.IPPROTO_UDP, v4, c.ports.udp4),
	}
	if c.ipv6 {
		out = append(out,
			take(unix.NFPROTO_IPV6, unix.IPPROTO_TCP, v6, c.ports.tcp6),
			take(unix.NFPROTO_IPV6, unix.IPPROTO_UDP, v6, c.ports.udp6))
	}
	return out
}

// check says what of the capture is missing: somebody may have flushed it, or
// re-created the bridge.
func (c *capture) check() error {
	for _, b := range c.bridges {
		l, err := netlink.LinkByName(b.name)
		if err != nil {
			return fmt.Errorf("finding interface %s: %w", b.name, err)
		}
		if l.Attrs().Index != b.index {
			return fmt.Errorf("checking interface %s: it was re-created; restart the range", b.name)
		}
	}
	for _, family := range c.families() {
		rules, err := ourRules(family)
		if err != nil {
			return err
		}
		if len(rules) != len(c.bridges) {
			return fmt.Errorf("checking the capture: %d of %d routing rules are there; restart the range", len(rules), len(c.bridges))
		}
		routes, err := netlink.RouteListFiltered(family, &netlink.Route{Table: routeTable, Type: unix.RTN_LOCAL}, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_TYPE)
		if err != nil {
			return fmt.Errorf("listing table %d: %w", routeTable, err)
		}
		if len(routes) == 0 {
			return fmt.Errorf("checking the capture: table %d has no local route; restart the range", routeTable)
		}
	}
	for name, want := range c.sysctls() {
		got, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if errors.Is(err, fs.ErrNotExist) && optional(name) {
			continue
		}
		if err != nil || strings.TrimSpace(string(got)) != want {
			return fmt.Errorf("checking the capture: sysctl %s is no longer %s; restart the range", name, want)
		}
	}
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("opening nftables: %w", err)
	}
	t := &nftables.Table{Name: nftTable, Family: nftables.TableFamilyINet}
	for _, b := range c.bridges {
		rules, err := conn.GetRules(t, &nftables.Chain{Name: "from_" + b.name, Table: t})
		if err != nil || len(rules) != len(c.exceptions())+len(c.takes()) {
			return fmt.Errorf("checking the capture: nftables table %s is not as installed; restart the range", nftTable)
		}
	}
	return nil
}

// remove undoes install; what is gone already is no error.
func (c *capture) remove() error {
	var errs []error
	for _, family := range c.families() {
		rules, err := ourRules(family)
		errs = append(errs, err)
		for _, r := range rules {
			if err := netlink.RuleDel(newRule(family, r.IifName)); err != nil && !errors.Is(err, unix.ENOENT) {
				errs = append(errs, fmt.Errorf("deleting the rule for %s: %w", r.IifName, err))
			}
		}
		errs = append(errs, flushRoutes(family))
	}
	conn, err := nftables.New()
	if err != nil {
		return errors.Join(append(errs, fmt.Errorf("opening nftables: %w", err))...)
	}
	t := &nftables.Table{Name: nftTable, Family: nftables.TableFamilyINet}
	conn.AddTable(t)
	conn.DelTable(t)
	if err := conn.Flush(); err != nil {
		errs = append(errs, fmt.Errorf("deleting nftables table %s: %w", nftTable, err))
	}
	return errors.Join(append(errs, c.restoreSysctls())...)
}

// sysctls are the settings that packets of the outside world need. Sources
// may have no route back (rp_filter). A node must not talk us into a default
// route (accept_ra). And br_netfilter must be off: it runs the TPROXY rule
// while the frame is still in the bridge, and the socket that the rule chose
// is forgotten on the way up (skb_orphan in ip_rcv). All are the namespace's
// own, so that nodes and host keep theirs.
func (c *capture) sysctls() map[string]string {
	m := map[string]string{
		"net/ipv4/conf/all/rp_filter":         "0",
		"net/bridge/bridge-nf-call-iptables":  "0",
		"net/bridge/bridge-nf-call-ip6tables": "0",
	}
	for _, b := range c.bridges {
		m["net/ipv4/conf/"+b.name+"/rp_filter"] = "0"
		if c.ipv6 {
			m["net/ipv6/conf/"+b.name+"/accept_ra"] = "0"
		}
	}
	return m
}

// optional sysctls exist only where their module is loaded.
func optional(name string) bool { return strings.HasPrefix(name, "net/bridge/") }

// setSysctls notes the former values in a file first: a run that is killed
// cannot restore them, its successor can.
func (c *capture) setSysctls() error {
	former, err := c.formerSysctls()
	if err != nil {
		return err
	}
	for name := range c.sysctls() {
		if _, known := former[name]; known {
			continue
		}
		v, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if errors.Is(err, fs.ErrNotExist) && optional(name) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading a sysctl: %w", err)
		}
		former[name] = strings.TrimSpace(string(v))
	}
	b, err := json.Marshal(former)
	if err != nil {
		return fmt.Errorf("noting sysctls: %w", err)
	}
	if err := os.WriteFile(c.state, b, 0o600); err != nil {
		return fmt.Errorf("noting sysctls: %w", err)
	}
	for name, v := range c.sysctls() {
		err := writeSysctl(name, v)
		if err != nil && (!errors.Is(err, fs.ErrNotExist) || !optional(name)) {
			return fmt.Errorf("setting a sysctl: %w (the range needs root)", err)
		}
	}
	return nil
}

// writeSysctl opens without O_CREATE, which procfs answers with EACCES for
// what does not exist.
func writeSysctl(name, value string) error {
	f, err := os.OpenFile(filepath.Join("/proc/sys", name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func (c *capture) formerSysctls() (map[string]string, error) {
	former := map[string]string{}
	b, err := os.ReadFile(c.state)
	if errors.Is(err, fs.ErrNotExist) {
		return former, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading former sysctls: %w", err)
	}
	if err := json.Unmarshal(b, &former); err != nil {
		// Torn by a kill; the values below are then the ones to keep.
		return map[string]string{}, nil //nolint:nilerr // see above
	}
	return former, nil
}

func (c *capture) restoreSysctls() error {
	former, err := c.formerSysctls()
	if err != nil {
		return err
	}
	var errs []error
	for name, v := range former {
		// Names come from a file: none but ours is written.
		if _, ours := c.sysctls()[name]; !ours {
			continue
		}
		if err := writeSysctl(name, v); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("restoring a sysctl: %w", err))
		}
	}
	if err := os.Remove(c.state); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
