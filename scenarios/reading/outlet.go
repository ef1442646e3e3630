// SPDX-License-Identifier: Apache-2.0

package reading

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

// Outlets are where a sandbox may send.
type Outlets struct {
	// Pods are those that it may call, each at some ports.
	Pods []Outlet
	// Addresses are ranges that it may call, each at some ports.
	Addresses map[string][]string
	// Public says that it may send to any address that is not private, and to any
	// name.
	Public bool
	// Private are the ranges that are not public, where they are others than those of
	// [private].
	Private []netip.Prefix
}

// Outlet is a place that a sandbox may call, or who may call something.
type Outlet struct {
	Peer
	Ports []string // "53/UDP"; of callers, none is every port
}

// The ports of a web server, for hosts that are allowed by name.
var web = []string{"443/TCP"}

// private are the ranges of addresses that are not public: of RFC 6890's those by which
// anything can be reached, those of multicast, and those in which a network hides IPv4
// addresses. Those that are kept for documentation are not among them: they are
// nobody's, and the suite's range plays the public in them.
var private = Prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.168.0.0/16",
	"198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
	"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "fc00::/7", "fe80::/10", "ff00::/8")

// Prefixes parses ranges that are known to be some.
func Prefixes(all ...string) []netip.Prefix {
	out := make([]netip.Prefix, 0, len(all))
	for _, p := range all {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// NowhereElse looks whether a running sandbox has a policy on what it sends, and
// whether all that select it, Cilium's among them, lead to the outlets alone.
func NowhereElse(ctx context.Context, env *suite.APIEnv, allowed Outlets) []verdict.Step {
	const none, more = "find the sandbox without a policy on what it sends", "find a policy that lets the sandbox out to more"
	policies, labels, step := Selected(ctx, env, more)
	if step != nil {
		return []verdict.Step{*step}
	}
	steps := []verdict.Step{DefaultDeny(none, Egress, policies, labels), Egress.worst(policies, labels, allowed.rule).step(more, "none leads elsewhere")}
	for _, group := range PolicyGroups {
		steps = append(steps, others(ctx, env, group, func(resource string, p suite.Object) finding {
			if resource == hostNames {
				return allowed.hosts(p, labels)
			}
			return allowed.cilium(p, labels)
		}))
	}
	return steps
}

// SomethingLetOut is the control: by the same reading, the policy is found that lets
// something out.
func SomethingLetOut(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	return findAllowing(ctx, env, "find the policy that lets something out", Egress)
}

// rule reads one rule of a NetworkPolicy.
func (o Outlets) rule(rule suite.Object) (f finding) {
	to := objects(rule, "to")
	if len(to) == 0 {
		return isOpen("everything, at the ports %v", rule["ports"])
	}
	for _, peer := range to {
		if block := manifest.Map(peer, "ipBlock"); len(block) > 0 {
			f = f.worse(o.block(fmt.Sprint(block["cidr"]), texts(block, "except"), portsOf(rule)))
			continue
		}
		f = f.worse(o.pods(peer, portsOf(rule)))
	}
	return f
}

// pods reads a peer that is some Pods.
func (o Outlets) pods(peer suite.Object, ports []string) finding {
	where, pods := manifest.Map(peer, "namespaceSelector"), manifest.Map(peer, "podSelector")
	for _, a := range o.Pods {
		if a.is(peer) {
			return within(fmt.Sprintf("%s=%s", a.Label, a.Value), ports, a.Ports)
		}
	}
	if empty(pods) || peer["namespaceSelector"] != nil && empty(where) {
		return isOpen("the Pods of %v", peer)
	}
	return isUnread("the peer %v", peer)
}

// within demands ports of a place, and no others.
func within(place string, ports, allowed []string) finding {
	if len(ports) == 0 {
		return isOpen("%s at every port", place)
	}
	for _, p := range ports {
		if strings.HasPrefix(p, byName) {
			return isUnread("%s at %s", place, p)
		}
		if !slices.Contains(allowed, p) {
			return isOpen("%s at %s", place, p)
		}
	}
	return finding{}
}

// byName is how a port begins that a rule names: what that is, each Pod says itself.
const byName = "the port named "

// portsOf are a rule's, "53/UDP"; a range is spelled so that it is nobody's.
func portsOf(rule suite.Object) []string {
	var out []string
	for _, p := range objects(rule, "ports") {
		protocol, set := p["protocol"].(string)
		if !set {
			protocol = "TCP"
		}
		text := "every port"
		if name, is := p["port"].(string); is {
			text = byName + name
		} else if p["port"] != nil {
			text = fmt.Sprint(p["port"])
		}
		out = append(out, upTo(text, p["endPort"])+"/"+protocol)
	}
	return out
}

// upTo spells a port with the last one of its range, where it is one.
func upTo(port string, end any) string {
	if last := fmt.Sprint(end); end != nil && last != "0" && last != port {
		return port + "-" + last
	}
	return port
}

// block reads a range of addresses with its exceptions.
func (o Outlets) block(cidr string, except, ports []string) finding {
	if allowed, known := o.Addresses[cidr]; known {
		return within(cidr, ports, allowed)
	}
	all, err := parseRange(cidr)
	if err != nil {
		return isUnread("the range %q", cidr)
	}
	if !o.Public {
		return isOpen("the addresses %s", cidr)
	}
	var without []netip.Prefix
	for _, e := range except {
		p, err := parseRange(e)
		if err != nil {
			return isUnread("the exception %q", e)
		}
		without = append(without, p)
	}
	ranges := o.Private
	if len(ranges) == 0 {
		ranges = private
	}
	for _, p := range ranges {
		if !p.Overlaps(all) {
			continue
		}
		if p.Bits() < all.Bits() {
			p = all // a part of the private range
		}
		if !covered(p, without) {
			return isOpen("private addresses of %s", p)
		}
	}
	return finding{}
}

// covered tells whether all of a range lies in others, in one or in several together.
func covered(p netip.Prefix, by []netip.Prefix) bool {
	overlaps := false
	for _, b := range by {
		if b.Overlaps(p) && b.Bits() <= p.Bits() {
			return true
		}
		overlaps = overlaps || b.Overlaps(p)
	}
	if !overlaps {
		return false
	}
	upper := p.Addr().AsSlice()
	upper[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
	addr, _ := netip.AddrFromSlice(upper) // as long as it was
	return covered(netip.PrefixFrom(p.Addr(), p.Bits()+1), by) && covered(netip.PrefixFrom(addr, p.Bits()+1), by)
}

// parseRange reads a range, or an address, which is one of a single one.
func parseRange(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return netip.Prefix{}, err
		}
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err
}

// hosts reads one of GKE's policies of host names.
func (o Outlets) hosts(policy suite.Object, labels suite.Object) (f finding) {
	rules := objects(manifest.Map(policy, "spec"), string(Egress))
	switch selects(policy, labels) {
	case nobody:
		return finding{}
	case unread:
		return isUnread("a selector that is not by labels")
	case somebody:
	}
	for _, rule := range rules {
		for _, m := range objects(rule, "matches") {
			f = f.worse(o.name(object{"matchName": m["name"], "matchPattern": m["pattern"]}, portsOf(rule)))
		}
	}
	return f
}

// cilium reads one of Cilium's policies.
func (o Outlets) cilium(policy suite.Object, labels suite.Object) (f finding) {
	specs := objects(policy, "specs")
	if spec, ok := policy["spec"].(object); ok {
		specs = append(specs, spec)
	}
	if len(specs) == 0 {
		return isUnread("no rules that are known")
	}
	for _, spec := range specs {
		if spec["nodeSelector"] != nil {
			continue // of the host's own traffic
		}
		rules, selected := objects(spec, string(Egress)), match(plain(manifest.Map(spec, "endpointSelector")), labels)
		if len(rules) == 0 || selected == nobody {
			continue
		}
		if selected == unread {
			f = f.worse(isUnread("a selector that is not by labels"))
			continue
		}
		if len(objects(spec, "egressDeny")) > 0 {
			f = f.worse(isUnread("what is allowed and denied"))
			continue
		}
		for _, rule := range rules {
			f = f.worse(o.ciliumRule(rule))
		}
	}
	return f
}

// plain is a selector of Cilium's without the sources of its labels.
func plain(selector suite.Object) suite.Object {
	out, labels := object{}, object{}
	maps.Copy(out, selector)
	for k, v := range manifest.Map(selector, "matchLabels") {
		k = strings.TrimPrefix(strings.TrimPrefix(k, "k8s:"), "any:")
		labels[k] = v
	}
	out["matchLabels"] = labels
	return out
}

// ciliumRule reads one rule. What is allowed by name leads wherever the name does,
// which whoever answers for the name decides.
func (o Outlets) ciliumRule(rule suite.Object) (f finding) {
	var ports []string
	for _, p := range objects(rule, "toPorts") {
		ports = append(ports, ciliumPorts(p)...)
	}
	peers := 0
	for field, value := range rule {
		switch field {
		case "toPorts", "icmps", "authentication":
		case "toEndpoints":
			for _, e := range objects(rule, field) {
				peers++
				f = f.worse(o.endpoints(plain(e), ports))
			}
		case "toFQDNs":
			for _, n := range objects(rule, field) {
				peers++
				f = f.worse(o.name(n, ports))
			}
		case "toCIDR":
			for _, cidr := range texts(rule, field) {
				peers++
				f = f.worse(o.block(cidr, nil, ports))
			}
		case "toCIDRSet":
			for _, set := range objects(rule, field) {
				peers++
				f = f.worse(o.block(fmt.Sprint(set["cidr"]), texts(set, "except"), ports))
			}
		case "toEntities":
			for _, e := range texts(rule, field) {
				peers++
				if e != "none" {
					f = f.worse(isOpen("the entity %s", e))
				}
			}
		default:
			peers++
			f = f.worse(isUnread("%s %v", field, value))
		}
	}
	if peers == 0 {
		return f.worse(isOpen("everything, at the ports %v", ports))
	}
	return f
}

// name reads a name, or a pattern of names, which must be of somebody's domain.
func (o Outlets) name(n suite.Object, ports []string) finding {
	if o.Public {
		return finding{}
	}
	name, isPattern := n["matchPattern"].(string)
	if !isPattern {
		name = fmt.Sprint(n["matchName"])
	}
	labels := strings.Split(strings.TrimSuffix(name, "."), ".")
	if len(labels) < 2 || strings.Contains(strings.Join(labels[len(labels)-2:], "."), "*") {
		return isOpen("the names %s", name)
	}
	return within(name, ports, web)
}

// endpoints reads a selector of Pods, whose labels have no source any more.
func (o Outlets) endpoints(selector suite.Object, ports []string) finding {
	const namespaceKey = "io.kubernetes.pod.namespace"
	labels := manifest.Map(selector, "matchLabels")
	namespace, elsewhere := labels[namespaceKey].(string)
	for _, a := range o.Pods {
		here := a.Namespace == "" && !elsewhere || a.Namespace != "" && elsewhere && namespace == a.Namespace
		if here && labels[a.Label] == a.Value {
			return within(fmt.Sprintf("%s=%s", a.Label, a.Value), ports, a.Ports)
		}
	}
	if empty(selector) || elsewhere && len(labels) == 1 {
		return isOpen("the Pods of %v", labels)
	}
	return isUnread("the endpoints %v", selector)
}

// ciliumPorts are those of a rule. Without a protocol, or with ANY, it is every
// one, of which the two that a Pod without privileges speaks are spelled out.
func ciliumPorts(toPorts suite.Object) []string {
	var out []string
	for _, p := range objects(toPorts, "ports") {
		text := upTo(fmt.Sprint(p["port"]), p["endPort"])
		switch protocol, _ := p["protocol"].(string); protocol {
		case "", "ANY":
			out = append(out, text+"/TCP", text+"/UDP")
		default:
			out = append(out, text+"/"+protocol)
		}
	}
	return out
}
