// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ErrUnsealed is wrapped when the namespace is not one in which the range may
// play the world: its rules would take the host's own traffic, or attack
// traffic could leave.
var ErrUnsealed = errors.New("this network namespace is not sealed")

// CheckSealed refuses the host's own namespace and any with a default route or
// an interface that may lead out. The engine's seal proof says more; this is
// the range's own last line.
func CheckSealed(expect string) error {
	// The files of /proc/PID/net have an inode of their own in each namespace.
	// /proc/1/ns/net would say it more directly, but may be read only with all
	// the capabilities that process 1 has.
	own, err := inode("/proc/thread-self/net/dev")
	if err != nil {
		return err
	}
	host, err := inode("/proc/1/net/dev")
	if err != nil {
		return fmt.Errorf("%w (is /proc mounted with hidepid?)", err)
	}
	if own == host {
		return fmt.Errorf("checking the seal: %w: it is that of process 1 (start the range inside of the engine's: `stockade up` does)", ErrUnsealed)
	}
	if expect != "" {
		if err := in(expect); err != nil {
			return err
		}
	}
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("listing interfaces: %w", err)
	}
	for _, l := range links {
		if why := leadsOut(l); why != "" {
			return fmt.Errorf("checking the seal: %w: interface %s is %s (take it out of the namespace)", ErrUnsealed, l.Attrs().Name, why)
		}
	}
	return checkRoutes()
}

// in refuses any namespace but that behind a path. Where the path is gone the engine
// has taken the seal down, and a range that it did not find must not outlive it.
func in(path string) error {
	want, err := inode(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("checking the seal: %w: %s is gone (`stockade up` makes it)", ErrUnsealed, path)
	}
	if err != nil {
		return err
	}
	own, err := inode("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	if own != want {
		return fmt.Errorf("checking the seal: %w: it is not %s", ErrUnsealed, path)
	}
	return nil
}

// inode identifies a namespace by a file of it, within one file system.
func inode(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, fmt.Errorf("looking at namespace %s: %w", path, &os.PathError{Op: "stat", Path: path, Err: err})
	}
	return st.Ino, nil
}

// leadsOut says why an interface may lead out of the namespace, or "". It is
// a list of what is allowed: bridges, veth pairs to containers, loopback, and
// whatever is down, such as the fallback tunnels of a new namespace.
func leadsOut(l netlink.Link) string {
	a := l.Attrs()
	up := a.RawFlags&unix.IFF_UP != 0
	switch {
	case a.RawFlags&unix.IFF_LOOPBACK != 0, !up:
		return ""
	}
	switch l.Type() {
	case "bridge", "veth", "dummy", "ifb":
		return ""
	}
	return "of type " + l.Type() + " and up"
}

func checkRoutes() error {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		if err != nil {
			if family == netlink.FAMILY_V6 && errors.Is(err, unix.EAFNOSUPPORT) {
				continue
			}
			return fmt.Errorf("listing routes: %w", err)
		}
		for _, r := range routes {
			whole := r.Dst == nil
			if !whole {
				ones, _ := r.Dst.Mask.Size()
				whole = ones == 0
			}
			if whole && r.Type == unix.RTN_UNICAST {
				return fmt.Errorf("checking the seal: %w: it has a default route (%s); remove it with `ip route del default`", ErrUnsealed, r.String())
			}
		}
	}
	return nil
}
