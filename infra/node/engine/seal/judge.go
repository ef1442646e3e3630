// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// NS identifies a network namespace by the inode number of its nsfs file.
type NS uint64

// Unknown stands for a namespace that could not be identified.
const Unknown NS = 0

// Facts is what Judge decides on.
type Facts struct {
	Sealed NS // the namespace whose seal is in question
	Host   NS // the namespace the machine itself lives in

	// Namespaces holds every network namespace that was found.
	Namespaces map[NS]Namespace
}

// Namespace is one network namespace as seen from inside.
type Namespace struct {
	Name   string // for messages
	Links  []Link
	Routes []Route // all tables, both families
}

// Link is a network interface.
type Link struct {
	Name string
	// Kind is the kernel's link kind (veth, bridge, vxlan, ...), empty for
	// hardware and for the loopback device.
	Kind     string
	Loopback bool
	// Paired says that the link has another end or a link below it.
	Paired bool
	// Peer is where that other end is.
	Peer NS
}

// Route is a routing table entry.
type Route struct {
	Table   int
	Dst     netip.Prefix // 0.0.0.0/0 or ::/0 for a default route
	Local   bool         // delivers to this very namespace
	Blocked bool         // blackhole, unreachable, prohibit, throw
	Via     netip.Addr   // gateway, invalid when there is none
	Dev     string
}

// Code says what kind of opening was found.
type Code string

const (
	// Absent says that the namespace that should be sealed does not exist.
	Absent Code = "absent"
	// IsHost says that the sealed namespace is the machine's own.
	IsHost Code = "is-host"
	// Hardware says that a physical device, or a kind of link whose far end
	// cannot be told, is within reach.
	Hardware Code = "hardware"
	// ToHost says that a link leads into the machine's own namespace.
	ToHost Code = "to-host"
	// ToUnknown says that a link leads into a namespace that could not be
	// identified.
	ToUnknown Code = "to-unknown"
	// DefaultRoute says that the sealed namespace has a route to everywhere that
	// is not delivered locally.
	DefaultRoute Code = "default-route"
	// Gateway says that the sealed namespace has a route through a gateway.
	Gateway Code = "gateway"
)

// Opening is one way out.
type Opening struct {
	Code      Code
	Namespace string
	Detail    string // the link or route
}

func (o Opening) String() string {
	return fmt.Sprintf("%s in namespace %s (%s)", o.Detail, o.Namespace, o.Code)
}

// OpenError says that the seal is not proved, and what is open.
type OpenError struct{ Openings []Opening }

func (e *OpenError) Error() string {
	parts := make([]string, len(e.Openings))
	for i, o := range e.Openings {
		parts[i] = o.String()
	}
	return "the seal is open: " + strings.Join(parts, "; ") +
		"; run `stockade down` and `stockade up` to make a new one"
}

// Has reports whether an opening of the given code was found.
func (e *OpenError) Has(code Code) bool {
	return slices.ContainsFunc(e.Openings, func(o Opening) bool { return o.Code == code })
}

// closedKinds are the link kinds that end where they begin unless Paired says
// otherwise. Everything else counts as open: a tun device ends in some
// process, WireGuard sends from the namespace it was made in, and what the
// future brings is not for us to guess.
var closedKinds = map[string]bool{
	"bridge": true,
	"dummy":  true,
	"veth":   true,
	"vxlan":  true, // its outer packets take the namespace's own routes
	"ifb":    true,
}

// restingKinds are tunnels that the kernel puts into every new namespace when
// their module is loaded. Their outer packets take the namespace's own routes
// as well.
var restingKinds = map[string]bool{
	"ipip": true, "sit": true, "ip6tnl": true, "gre": true, "gretap": true,
	"ip6gre": true, "ip6gretap": true, "erspan": true, "vti": true, "vti6": true,
}

// Judge returns nil when nothing in the sealed namespace, and in the
// namespaces behind it, leads anywhere else. Otherwise it returns an
// *OpenError with all that is open.
func Judge(f Facts) error {
	start, ok := f.Namespaces[f.Sealed]
	switch {
	case f.Sealed == Unknown || !ok:
		return &OpenError{[]Opening{opening(Absent, "?", "no such namespace")}}
	case f.Sealed == f.Host:
		return &OpenError{[]Opening{opening(IsHost, start.Name, "the machine's own network")}}
	}
	open := start.routesOut()
	seen := map[NS]bool{f.Sealed: true}
	for queue := []NS{f.Sealed}; len(queue) > 0; queue = queue[1:] {
		here := f.Namespaces[queue[0]]
		for _, l := range here.Links {
			switch o := f.follow(here.Name, l); {
			case o != nil:
				open = append(open, *o)
			case l.Paired && !l.Loopback && !seen[l.Peer]:
				seen[l.Peer] = true
				queue = append(queue, l.Peer)
			}
		}
	}
	if len(open) > 0 {
		return &OpenError{open}
	}
	return nil
}

func opening(code Code, ns, format string, args ...any) Opening {
	return Opening{code, ns, fmt.Sprintf(format, args...)}
}

// routesOut are the openings among the sealed namespace's own routes. It is the last
// hop of everything: it must have nowhere to forward to. Nodes behind it do have a
// default route, to it.
func (n Namespace) routesOut() (open []Opening) {
	for _, r := range n.Routes {
		switch {
		case r.Local || r.Blocked:
		case r.Dst.Bits() == 0:
			open = append(open, opening(DefaultRoute, n.Name, "default route %s dev %s table %d", r.Dst, r.Dev, r.Table))
		case r.Via.IsValid():
			open = append(open, opening(Gateway, n.Name, "route to %s via %s dev %s table %d", r.Dst, r.Via, r.Dev, r.Table))
		}
	}
	return open
}

// follow returns what a link of a namespace opens; nothing where it ends in the
// namespace itself, or in another one that can be looked at.
func (f Facts) follow(ns string, l Link) *Opening {
	var o Opening
	_, known := f.Namespaces[l.Peer]
	switch {
	case l.Loopback:
		return nil
	case !closedKinds[l.Kind] && !restingKinds[l.Kind]:
		o = opening(Hardware, ns, "link %s of kind %s", l.Name, cmp.Or(l.Kind, "hardware"))
	case l.Kind == "veth" && !l.Paired:
		// A veth without another end does not exist: the kernel did not say where it is.
		o = opening(ToUnknown, ns, "link %s, whose other end cannot be found", l.Name)
	case !l.Paired:
		return nil
	case l.Peer == f.Host:
		o = opening(ToHost, ns, "link %s to the machine's own network", l.Name)
	case l.Peer == Unknown || !known:
		o = opening(ToUnknown, ns, "link %s, whose other end is in an unknown namespace", l.Name)
	default:
		return nil
	}
	return &o
}
