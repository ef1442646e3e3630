// SPDX-License-Identifier: Apache-2.0

// Package world names the places that the range plays: the addresses and
// names of an outside world that exists only inside the sealed engine.
//
// It imports the standard library only, so that scenarios, the target
// descriptor and the range itself share one list.
package world

import (
	"hash/fnv"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Addresses as net.Dial takes them. The range answers on every address and
// port; these are the ones that scenarios use by default. Documentation ranges
// (RFC 5737, RFC 3849) are preferred: should a seal ever leak, nobody is hit.
const (
	PublicTCP  = "203.0.113.7:8080"
	PublicTLS  = "8.8.8.8:443"
	PublicUDP  = "198.51.100.9:4500"
	PublicTCP6 = "[2001:db8::7]:443"
	PublicDNS  = "8.8.8.8:53"
	PublicICMP = "203.0.113.7"

	Metadata  = "169.254.169.254:80"
	Metadata6 = "[fd20:ce::254]:80"
)

// Names that the range's DNS knows. [TunnelZone] and [AttackerHost] lie under
// .test, which RFC 6761 keeps out of the real DNS.
const (
	TunnelZone      = "tunnel.stockade.test."
	AttackerHost    = "attacker.stockade.test."
	MetadataHost    = "metadata.google.internal."
	AllowedFrontEnd = "storage.googleapis.com."
	// RestrictedHost leads to where Google serves only what a perimeter guards.
	RestrictedHost = "restricted.googleapis.com."
	privateAPIHost = "private.googleapis.com."
	// SharingHost is somebody's own content behind the shared front end. No
	// allow-list has it.
	SharingHost = "attacker.googleusercontent.com."
)

// Buckets of [AllowedFrontEnd]. The perimeter takes in the first; the second is
// another project's, and anybody who has its name may write to it.
const (
	OwnBucket     = "stockade-own"
	ForeignBucket = "stockade-foreign"
)

// The module that the Go module proxy has. Its package's Hello greets a name.
const (
	GoModule        = "stockade.test/greeting"
	GoModuleVersion = "v1.0.0"
)

// Marker opens every answer of the range that is not HTTP, DNS or metadata,
// and is the body of the HTTP ones: "STOCKADE-RANGE <nonce>\n". A client that
// reads it has truly reached the range; "-" stands for no nonce.
const Marker = "STOCKADE-RANGE"

// CanaryPrefix opens every token that the metadata server hands out.
const CanaryPrefix = "stockade-canary-"

// MetadataAlso lists the metadata server's other doors: the second port, the
// addresses to which GKE's data planes rewrite it, and IPv6.
func MetadataAlso() []string {
	return []string{
		"169.254.169.254:8080", "169.254.169.252:988", "169.254.169.252:987", Metadata6,
	}
}

// LinkLocalDNS lists the resolvers at link-local addresses that nodes of GKE have: the
// metadata server, and NodeLocal DNSCache.
func LinkLocalDNS() []string { return []string{"169.254.169.254:53", "169.254.20.10:53"} }

// RFC1918 lists private addresses, one a range, that belong to nothing in the
// cluster.
func RFC1918() []string {
	return []string{"10.99.0.7:8080", "172.31.0.7:8080", "192.168.77.7:8080"}
}

// IsMetadata says whether an address is one of the metadata server's.
func IsMetadata(a netip.Addr) bool {
	switch a.Unmap() {
	case netip.AddrFrom4([4]byte{169, 254, 169, 254}), netip.AddrFrom4([4]byte{169, 254, 169, 252}),
		netip.MustParseAddr("fd20:ce::254"):
		return true
	}
	return false
}

// IsRestricted says whether an address is one of the front ends that serve only
// what a perimeter guards, and guard it.
func IsRestricted(a netip.Addr) bool { return slices.Contains(restrictedVIP(), a.Unmap()) }

func restrictedVIP() []netip.Addr {
	return addrs("199.36.153.4", "199.36.153.5", "199.36.153.6", "199.36.153.7", "2600:2d00:2:1000::1")
}

// guardedSuffixes are the domains that a perimeter knows how to guard.
// https://docs.cloud.google.com/vpc-service-controls/docs/private-connectivity
var guardedSuffixes = []string{"googleapis.com", "gcr.io", "gke.goog", "pkg.dev"}

// Guarded tells what VPC Service Controls would say of a request to a front end:
// whether a perimeter around [OwnBucket]'s project lets it through. What is no
// API of Google's, and every bucket but its own, it does not.
func Guarded(host, path string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if !slices.ContainsFunc(guardedSuffixes, func(s string) bool { return under(host, s) }) {
		return false
	}
	bucket, ok := bucketOf(host, path)
	return !ok || bucket == OwnBucket
}

// bucketOf reads the bucket out of the ways in which Cloud Storage takes one:
// BUCKET.storage.googleapis.com, /BUCKET/object, and the JSON API's
// /storage/v1/b/BUCKET, with or without a verb in front.
// https://docs.cloud.google.com/storage/docs/request-endpoints
func bucketOf(host, path string) (string, bool) {
	storage := trim(AllowedFrontEnd)
	if bucket, ok := strings.CutSuffix(host, "."+storage); ok {
		return bucket, true
	}
	if host != storage && host != "www.googleapis.com" {
		return "", false
	}
	path, _, _ = strings.Cut(path, "?")
	if _, rest, ok := strings.Cut(path, "/storage/v1/b/"); ok {
		path = "/" + rest
	} else if host != storage {
		return "", false
	}
	bucket, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return bucket, bucket != ""
}

// SharedFrontEnd returns the addresses that all Google API names and the Go
// module proxy share, as they do on the internet: what a policy opens for one
// of the names it opens for all.
func SharedFrontEnd() []netip.Addr {
	return addrs("203.0.113.10", "203.0.113.11", "2001:db8:a::10")
}

// Zone is the range's DNS view. The zero value serves the default names.
type Zone struct {
	// GoProxyHost is the Go module proxy's name, which sits behind the shared
	// front end as well. "" means that there is none.
	GoProxyHost string
	// Extra maps lower-case names without the trailing dot to addresses.
	Extra map[string][]netip.Addr
}

// sharedSuffixes are the domains whose names sit behind [SharedFrontEnd].
var sharedSuffixes = []string{
	"googleapis.com", "google.com", "gcr.io", "pkg.dev", "gstatic.com", "googleusercontent.com",
}

// Resolve returns the addresses of a name, IPv4 and IPv6, the same each time.
// It reports false for what does not exist: single labels, and the zones that
// the real root servers deny too. Kubernetes search lists rely on that.
func (z Zone) Resolve(name string) ([]netip.Addr, bool) {
	n := strings.ToLower(strings.TrimSuffix(name, "."))
	if a, ok := z.Extra[n]; ok {
		return a, true
	}
	switch n {
	case trim(MetadataHost):
		return addrs("169.254.169.254", "fd20:ce::254"), true
	case trim(AttackerHost):
		return addrs("203.0.113.66", "2001:db8::66"), true
	case trim(RestrictedHost):
		return restrictedVIP(), true
	case trim(privateAPIHost):
		return addrs("199.36.153.8", "199.36.153.9", "199.36.153.10", "199.36.153.11", "2600:2d00:2:2000::1"), true
	}
	if z.IsGoProxy(n) {
		return SharedFrontEnd(), true
	}
	for _, s := range sharedSuffixes {
		if under(n, s) {
			return SharedFrontEnd(), true
		}
	}
	for _, s := range []string{"local", "localhost", "invalid", "onion", "localdomain", "internal"} {
		if under(n, s) {
			return nil, false
		}
	}
	if !strings.Contains(n, ".") {
		return nil, false
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(n)) // a hash never fails to write
	sum := h.Sum64()
	v6 := netip.MustParseAddr("2001:db8:b::").As16()
	for i := range 8 {
		v6[8+i] = byte(sum >> (8 * i)) //nolint:gosec // one byte of it
	}
	// .128 to .253: clear of the fixed places above.
	v4 := netip.AddrFrom4([4]byte{203, 0, 113, byte(128 + sum%126)})
	return []netip.Addr{v4, netip.AddrFrom16(v6)}, true
}

// IsGoProxy tells whether a name, with a port or without, is the module proxy's.
func (z Zone) IsGoProxy(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return z.GoProxyHost != "" && strings.EqualFold(strings.TrimSuffix(host, "."), strings.TrimSuffix(z.GoProxyHost, "."))
}

func trim(fqdn string) string { return strings.TrimSuffix(fqdn, ".") }

func under(name, zone string) bool {
	return name == zone || strings.HasSuffix(name, "."+zone)
}

func addrs(ss ...string) []netip.Addr {
	out := make([]netip.Addr, len(ss))
	for i, s := range ss {
		out[i] = netip.MustParseAddr(s)
	}
	return out
}
