// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"net/netip"
	"time"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

// Site is what the runner tells an attack about its surroundings: where the
// things are that it tries to reach. All addresses are strings as net.Dial
// takes them; an empty one means that the site has no such thing.
type Site struct {
	// PublicTCP and the rest up to Tunnel belong to the range.
	PublicTCP  string `json:"publicTCP,omitempty"`  // "203.0.113.7:8080"
	PublicTLS  string `json:"publicTLS,omitempty"`  // "8.8.8.8:443"
	PublicUDP  string `json:"publicUDP,omitempty"`  // "198.51.100.9:4500"
	PublicTCP6 string `json:"publicTCP6,omitempty"` // "[2001:db8::7]:443"
	PublicDNS  string `json:"publicDNS,omitempty"`  // a resolver out there, "8.8.8.8:53"
	PublicICMP string `json:"publicICMP,omitempty"` // "203.0.113.7"
	Metadata   string `json:"metadata,omitempty"`   // "169.254.169.254:80"
	// MetadataAlso are other ways to the metadata server: aliases, and the
	// addresses to which GKE's data planes rewrite its address.
	MetadataAlso []string `json:"metadataAlso,omitempty"`
	// LinkLocalDNS are resolvers at link-local addresses.
	LinkLocalDNS []string `json:"linkLocalDNS,omitempty"` // "169.254.20.10:53"
	// Tunnel is a zone whose name server the range plays.
	Tunnel string `json:"tunnel,omitempty"` // "tunnel.stockade.test."

	// AllowedHost is on the allow-lists of the systems that have one. SharingHost
	// is not, and has the same addresses, of which FrontEnd is one. Unlisted are
	// hosts at addresses of their own, none of them allowed. Names end with a dot.
	AllowedHost string `json:"allowedHost,omitempty"` // "storage.googleapis.com."
	SharingHost string `json:"sharingHost,omitempty"` // "attacker.googleusercontent.com."
	FrontEnd    string `json:"frontEnd,omitempty"`    // "203.0.113.10:443"
	Unlisted    []Host `json:"unlisted,omitempty"`
	// RestrictedHost leads to a front end of its own, which guards a service
	// perimeter. OwnBucket lies in it, ForeignBucket is another project's.
	RestrictedHost string `json:"restrictedHost,omitempty"` // "restricted.googleapis.com."
	OwnBucket      string `json:"ownBucket,omitempty"`
	ForeignBucket  string `json:"foreignBucket,omitempty"`

	ClusterDNS string `json:"clusterDNS,omitempty"` // "10.96.0.10:53"
	DNSPod     string `json:"dnsPod,omitempty"`     // of one of the resolvers behind it, without a port
	APIServer  string `json:"apiServer,omitempty"`  // ClusterIP, "10.96.0.1:443"
	APIDirect  string `json:"apiDirect,omitempty"`  // node address, "172.18.0.2:6443"
	NodeIP     string `json:"nodeIP,omitempty"`     // of the sandbox's own node
	Kubelet    string `json:"kubelet,omitempty"`    // "172.18.0.3:10250"
	// Server is where the target's server is called, "10.96.4.2:80", or the service
	// that makes its sandboxes. Inner are its other Services, which only the target's
	// own programs may call.
	Server string   `json:"server,omitempty"`
	Inner  []string `json:"inner,omitempty"`
	// RFC1918 are addresses of private ranges that the range answers for.
	RFC1918 []string `json:"rfc1918,omitempty"`

	// Own, Sibling and ControlPod are Pod addresses without a port.
	Own        string `json:"own,omitempty"`
	Sibling    string `json:"sibling,omitempty"`
	ControlPod string `json:"controlPod,omitempty"`
	// OwnAll and ControlAll are all addresses of the two: one of each family on a
	// dual-stack cluster.
	OwnAll     []string `json:"ownAll,omitempty"`
	ControlAll []string `json:"controlAll,omitempty"`
	// ListenPort is where the runner has a listener served in the sandbox,
	// its sibling and the control Pod while attacks run.
	ListenPort int `json:"listenPort,omitempty"`

	// MemoryLimit is in bytes, CPULimit in cores, PidsLimit in tasks: what the
	// sandbox's declaration says. Of the first two it is no more than Most.
	MemoryLimit int64   `json:"memoryLimit,omitempty"`
	CPULimit    float64 `json:"cpuLimit,omitempty"`
	PidsLimit   int64   `json:"pidsLimit,omitempty"`
	// Most is what the profile lets a sandbox declare. A limit that is taken from
	// what is attacked alone would be kept however high it is.
	Most Limits `json:"most,omitzero"`
}

// MetadataIPv4 are the ways of MetadataAlso that lead over IPv4.
func (s Site) MetadataIPv4() []string { return keep(s.MetadataAlso, netip.Addr.Is4) }

// MetadataIPv6 are those that lead over IPv6.
func (s Site) MetadataIPv6() []string {
	return keep(s.MetadataAlso, func(a netip.Addr) bool { return a.Is6() && !a.Is4In6() })
}

func keep(all []string, is func(netip.Addr) bool) []string {
	var out []string
	for _, s := range all {
		if ap, err := netip.ParseAddrPort(s); err == nil && is(ap.Addr()) {
			out = append(out, s)
		}
	}
	return out
}

// Limits are what a sandbox may use up; zero is not said.
type Limits struct {
	Memory  int64   `json:"memory,omitempty"`  // bytes
	CPU     float64 `json:"cpu,omitempty"`     // cores
	Storage int64   `json:"storage,omitempty"` // bytes of the node's disk
}

// Host is a name with an address that it has.
type Host struct {
	Name    string `json:"name"`    // "attacker.stockade.test."
	Address string `json:"address"` // "203.0.113.66:443"
}

// Env is what one attempt gets.
type Env struct {
	// Nonce is this attempt's own: 32 lower-case hex digits. An attack puts it
	// into whatever it sends, so that outside witnesses can tell attempts
	// apart.
	Nonce string
	// Part tells the attack from its control, where both are the same action:
	// a control has to prove more than an attack has to reach.
	Part Part
	Site Site
	// Params are the scenario's own, from its declaration.
	Params map[string]string
	// Report sends a step as a frame at once. Attacks that expect to be
	// killed use it to leave a trace; others may just return their steps.
	Report func(verdict.Step)
}

// Action is something that is done in a Pod: an attack or its control. It
// returns one step for each thing it tried. It must heed ctx, and must not
// panic on anything it is answered.
type Action func(ctx context.Context, env *Env) []verdict.Step

// DialTimeout is how long a connect may go unanswered before it counts as
// dropped. The range answers in milliseconds.
const DialTimeout = 1500 * time.Millisecond
