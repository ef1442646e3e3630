// SPDX-License-Identifier: Apache-2.0

//go:build linux

package seal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/stockade-dev/stockade/conformance/probe/mountinfo"
)

// handle is an open network namespace.
type handle struct {
	ns   NS
	fd   netns.NsHandle
	name string
}

// Gather finds all network namespaces of the machine and reads their links and
// routes. sealedPath is the nsfs file of the sealed namespace. It needs root,
// sends nothing, and changes nothing.
func Gather(ctx context.Context, sealedPath string) (Facts, error) {
	f := Facts{Namespaces: map[NS]Namespace{}}
	open, err := openAll(ctx, sealedPath)
	defer func() {
		for _, h := range open {
			_ = h.fd.Close() // only read from
		}
	}()
	if err != nil {
		return f, err
	}
	if f.Sealed, err = Inode(sealedPath); err != nil && !errors.Is(err, os.ErrNotExist) {
		return f, err
	}
	f.Host = hostNS()
	for ns, h := range open {
		if err := context.Cause(ctx); err != nil {
			return f, fmt.Errorf("reading network namespaces: %w", err)
		}
		if f.Namespaces[ns], err = inspect(h, open); err != nil {
			return f, fmt.Errorf("reading network namespace %s: %w", h.name, err)
		}
	}
	return f, nil
}

// hostNS returns the namespace of the machine, or of the container that is this
// program's machine: process 1 lives there, and where that one is hardened
// against being looked at, the first kernel thread. If neither can be read the
// proof stands nevertheless, only its words get worse: a link that leads there
// then leads to an unknown namespace.
func hostNS() NS {
	for _, path := range []string{"/proc/1/ns/net", "/proc/2/ns/net"} {
		if ns, err := Inode(path); err == nil {
			return ns
		}
	}
	return Unknown
}

// Inode identifies the namespace behind an nsfs file.
func Inode(path string) (NS, error) {
	st, err := os.Stat(path)
	if err != nil {
		return Unknown, fmt.Errorf("reading the namespace %s: %w", path, err)
	}
	return NS(st.Sys().(*syscall.Stat_t).Ino), nil
}

// openAll opens one handle for each network namespace that a process lives in
// or a mount holds.
func openAll(ctx context.Context, sealedPath string) (map[NS]handle, error) {
	open := map[NS]handle{}
	take := func(path, name string) {
		// Whatever vanishes meanwhile is no longer there to lead anywhere.
		ns, err := Inode(path)
		if err != nil {
			return
		}
		if _, have := open[ns]; have {
			return
		}
		fd, err := netns.GetFromPath(path)
		if err != nil {
			return
		}
		// The name may have been reused between the two calls.
		var st unix.Stat_t
		if err := unix.Fstat(int(fd), &st); err != nil || NS(st.Ino) != ns || !isNamespace(int(fd)) {
			_ = fd.Close()
			return
		}
		open[ns] = handle{ns, fd, name}
	}
	take(sealedPath, filepath.Base(sealedPath))
	take("/proc/1/ns/net", "host")
	take("/proc/2/ns/net", "host")

	procs, err := os.ReadDir("/proc")
	if err != nil {
		return open, fmt.Errorf("listing processes: %w", err)
	}
	mountNamespaces := map[string]bool{}
	for _, p := range procs {
		if err := context.Cause(ctx); err != nil {
			return open, fmt.Errorf("looking for network namespaces: %w", err)
		}
		if _, err := strconv.Atoi(p.Name()); err != nil {
			continue
		}
		dir := filepath.Join("/proc", p.Name())
		take(filepath.Join(dir, "ns/net"), "of process "+p.Name())

		// A namespace may be held by a mount alone, a Pod's between two of its
		// containers for instance, and that mount be visible in a node only.
		mnt, err := os.Readlink(filepath.Join(dir, "ns/mnt"))
		if err != nil || mountNamespaces[mnt] {
			continue
		}
		mountNamespaces[mnt] = true
		mounts, err := mountinfo.Read(filepath.Join(dir, "mountinfo"))
		if err != nil {
			continue
		}
		for _, target := range netnsMounts(mounts) {
			take(filepath.Join(dir, "root", target), filepath.Base(target))
		}
	}
	return open, nil
}

// nsfsMagic is the file system type of namespace files (linux/magic.h).
const nsfsMagic = 0x6e736673

func isNamespace(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && st.Type == nsfsMagic
}

// netnsMounts returns the mount points of network namespaces.
func netnsMounts(mounts []mountinfo.Mount) []string {
	var targets []string
	for _, m := range mounts {
		if strings.HasPrefix(m.Root, "net:[") {
			targets = append(targets, m.Point)
		}
	}
	return targets
}

// inspect reads one namespace over a netlink socket of its own.
func inspect(h handle, all map[NS]handle) (Namespace, error) {
	n := Namespace{Name: h.name}
	nl, err := netlink.NewHandleAt(h.fd, unix.NETLINK_ROUTE)
	if err != nil {
		return n, fmt.Errorf("opening netlink: %w", err)
	}
	defer nl.Close() //nolint:errcheck // it was only asked

	// Namespaces know each other by small numbers which differ in each.
	byID := map[int]NS{}
	for ns, other := range all {
		if id, err := nl.GetNetNsIdByFd(int(other.fd)); err == nil && id >= 0 {
			byID[id] = ns
		}
	}
	links, err := nl.LinkList()
	if err != nil {
		return n, fmt.Errorf("listing links: %w", err)
	}
	devs := map[int]string{}
	for _, l := range links {
		a := l.Attrs()
		devs[a.Index] = a.Name
		link := Link{Name: a.Name, Loopback: a.Flags&net.FlagLoopback != 0}
		// netlink's name for a link without a kind.
		if kind := l.Type(); kind != "device" {
			link.Kind = kind
		}
		switch {
		case a.NetNsID >= 0:
			link.Paired, link.Peer = true, byID[a.NetNsID]
		case a.ParentIndex != 0 && a.ParentIndex != a.Index:
			link.Paired, link.Peer = true, h.ns
		}
		n.Links = append(n.Links, link)
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := nl.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return n, fmt.Errorf("listing routes: %w", err)
		}
		for _, r := range routes {
			n.Routes = append(n.Routes, convert(r, family, devs))
		}
	}
	return n, nil
}

// gateway returns the next hop, which may be of the other family (RTA_VIA).
func gateway(gw net.IP, via netlink.Destination) net.IP {
	if v, ok := via.(*netlink.Via); ok && gw == nil {
		return v.Addr
	}
	return gw
}

func convert(r netlink.Route, family int, devs map[int]string) Route {
	out := Route{Table: r.Table, Dev: devs[r.LinkIndex], Dst: netip.PrefixFrom(netip.IPv4Unspecified(), 0)}
	if family == netlink.FAMILY_V6 {
		out.Dst = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	if r.Dst != nil {
		addr, _ := netip.AddrFromSlice(r.Dst.IP)
		bits, _ := r.Dst.Mask.Size()
		out.Dst = netip.PrefixFrom(addr.Unmap(), bits)
	}
	gw := gateway(r.Gw, r.Via)
	for _, hop := range r.MultiPath {
		// One hop stands for all: any gateway is an opening.
		if gw == nil && hop != nil {
			gw = gateway(hop.Gw, hop.Via)
			out.Dev = devs[hop.LinkIndex]
		}
	}
	if addr, ok := netip.AddrFromSlice(gw); ok {
		out.Via = addr.Unmap()
	}
	switch r.Type {
	case unix.RTN_LOCAL, unix.RTN_BROADCAST, unix.RTN_ANYCAST, unix.RTN_MULTICAST:
		out.Local = true
	case unix.RTN_BLACKHOLE, unix.RTN_UNREACHABLE, unix.RTN_PROHIBIT, unix.RTN_THROW:
		out.Blocked = true
	}
	return out
}
