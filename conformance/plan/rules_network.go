// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/conformance/suite"
)

// restrictedVIP are the addresses of restricted.googleapis.com, which only
// serve what VPC Service Controls can guard.
// https://docs.cloud.google.com/vpc-service-controls/docs/private-connectivity
var restrictedVIP = []string{"199.36.153.4", "199.36.153.5", "199.36.153.6", "199.36.153.7"}

// restrictedDomains must resolve to [restrictedVIP] inside of the VPC. The last one has
// the DNS endpoints of control planes, which a perimeter guards with GKE's own API.
var restrictedDomains = []string{"googleapis.com", "gcr.io", "pkg.dev", "gke.goog"}

// typeResponse is a rule that answers for a name before any zone does.
const typeResponse = "gcp:dns/responsePolicyRule:ResponsePolicyRule"

// typeEndpoint may be an address within the network for a bundle of Google's services
// (Private Service Connect), and allServices is that of all of them.
const (
	typeEndpoint = "gcp:compute/globalForwardingRule:GlobalForwardingRule"
	allServices  = "all-apis"
)

// typeServerPolicy may send every question of a network to other name servers.
const typeServerPolicy = "gcp:dns/policy:Policy"

// privateSpace is what the sandboxes' policies block (RFC 1918). An address of
// the cluster outside of it counts as public to them.
var privateSpace = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
}

var networkRules = []*Rule{
	{
		ID: "plan.overlapping-ranges", Title: "Find address ranges that overlap",
		About:  "Where nodes, Pods and Services share addresses, a policy for the one is a policy for the other; Google refuses most of it, but only during the update.",
		Claims: []string{"KG-07"}, Severity: suite.Medium,
		Mutants: []Mutant{{"pods-in-node-range", "the Pods' range is the nodes'", func(g *Graph) bool {
			return onSecondary(g, func(sub Resource, second map[string]any) bool {
				nodes, st := sub.text("ipCidrRange")
				if st != known || second["ipCidrRange"] == nodes {
					return false
				}
				second["ipCidrRange"] = nodes
				return true
			})
		}}},
		judge: func(l *look) {
			l.subnets()
			all := l.ranges()
			for i, a := range all {
				clash := ""
				for _, b := range all[:i] {
					if a.prefix.Overlaps(b.prefix) {
						clash = b.what
					}
				}
				if clash != "" {
					l.weak(a.what, "%s overlaps %s", a.prefix, clash)
				} else {
					l.sound(a.what, "%s is its own", a.prefix)
				}
			}
		},
	},
	{
		ID: "plan.private-ranges", Title: "Find cluster addresses that a sandbox's policy takes for public",
		About:  "The policies block RFC 1918. Pods in 100.64.0.0/10, or the Services of GKE's own choice (34.118.224.0/20), would pass as the public internet.",
		Claims: []string{"KG-07", "AS-05"}, Severity: suite.High,
		Mutants: []Mutant{{"shared-address-space", "Pods live in 100.64.0.0/10", func(g *Graph) bool {
			return onSecondary(g, func(_ Resource, second map[string]any) bool {
				second["ipCidrRange"] = "100.64.0.0/16"
				return true
			})
		}}},
		judge: func(l *look) {
			for _, r := range l.ranges() {
				if private(r.prefix) {
					l.sound(r.what, "%s is in RFC 1918", r.prefix)
				} else {
					l.weak(r.what, "%s is not in RFC 1918", r.prefix)
				}
			}
			l.subnets()
			for _, c := range l.each(typeCluster) {
				for _, path := range []string{"ipAllocationPolicy.clusterSecondaryRangeName", "ipAllocationPolicy.servicesSecondaryRangeName"} {
					l.rangeName(c, path)
				}
				for _, path := range []string{"ipAllocationPolicy.additionalPodRangesConfig", "ipAllocationPolicy.additionalIpRangesConfigs"} {
					if _, st := c.find(path); st != absent {
						l.unsure(c.String()+": "+path, "further ranges are not understood")
					}
				}
			}
			for _, p := range l.of(typePool) {
				if _, st := p.find("networkConfig.podRange"); st != absent {
					l.rangeName(p, "networkConfig.podRange")
				}
				if s, st := p.text("networkConfig.podIpv4CidrBlock"); st != absent {
					if at, err := netip.ParsePrefix(s); err != nil {
						l.missing(p, "networkConfig.podIpv4CidrBlock", unknown)
					} else if !private(at) {
						l.weak(p.String()+": networkConfig.podIpv4CidrBlock", "%s is not in RFC 1918", at)
					}
				}
			}
		},
	},
	{
		ID: "plan.private-google-access", Title: "Find a subnet whose Google traffic needs a public address",
		About:  "Without Private Google Access, private nodes reach the restricted addresses not at all, and everybody's remedy is a wider door.",
		Claims: []string{"KG-12"}, Severity: suite.Medium,
		Mutants: []Mutant{{"no-private-google-access", "Private Google Access is off", set(typeSubnet, "privateIpGoogleAccess", false)}},
		judge: func(l *look) {
			l.subnets()
			for _, s := range l.each(typeSubnet) {
				l.wants(s, "privateIpGoogleAccess", true)
			}
		},
	},
	{
		ID: "plan.restricted-dns", Title: "Find a Google name that does not lead to the restricted addresses",
		About:  "private.googleapis.com (199.36.153.8/30) and the public addresses also serve what no perimeter guards.",
		Claims: []string{"KG-12"}, Severity: suite.High,
		Mutants: []Mutant{
			{"private-vip", "a name leads to private.googleapis.com", setWhere(typeRecord,
				func(r Resource) bool { typ, _ := r.text("type"); return typ == "A" }, "rrdatas", []any{"199.36.153.8", "199.36.153.9", "199.36.153.10", "199.36.153.11"})},
			{"endpoint-for-all", "an address of the network leads to every service of Google", func(g *Graph) bool {
				if len(g.of(typeZone)) == 0 {
					return false
				}
				g.Resources = append(g.Resources, Resource{Type: typeEndpoint, Name: "mutant", Inputs: map[string]any{"target": allServices}})
				return true
			}},
			{"forwarded-zone", "a zone hands its names to another server", func(g *Graph) bool {
				if len(g.of(typeZone)) == 0 {
					return false
				}
				g.Resources = append(g.Resources, Resource{Type: typeZone, Name: "mutant", Inputs: map[string]any{
					"dnsName": "storage.googleapis.com.", "visibility": "private",
					"forwardingConfig": map[string]any{"targetNameServers": []any{map[string]any{"ipv4Address": "8.8.8.8"}}},
				}})
				return true
			}},
		},
		judge: func(l *look) {
			zones, records := l.each(typeZone), l.each(typeRecord)
			l.oneNetwork()
			for _, z := range zones {
				if _, st := z.text("dnsName"); st != known {
					l.missing(z, "dnsName", st)
				}
			}
			for _, domain := range restrictedDomains {
				l.zone(zones, domain)
				l.forwarded(zones, domain)
				l.records(records, domain)
			}
			for _, r := range l.of(typeEndpoint) {
				// Another bundle, vpc-sc, has what the restricted addresses have.
				if target, st := r.text("target"); st == unknown {
					l.missing(r, "target", st)
				} else if target == allServices {
					l.weak(r.String()+": target", "an address of the network leads to every service of Google")
				}
			}
			for _, r := range l.of(typeResponse) {
				l.unsure(r.String(), "it answers before the zones do, and is not understood")
			}
			for _, r := range l.Resources {
				if name, _ := r.text("metadata.name"); isKubernetes(r) && strings.HasPrefix(r.kind(), "ConfigMap") && name == "kube-dns" {
					l.unsure(r.String(), "it may send names to other servers before any zone is asked, and is not understood")
				}
			}
			for _, r := range l.of(typeServerPolicy) {
				switch _, st := r.find("alternativeNameServerConfig"); st {
				case unknown:
					l.missing(r, "alternativeNameServerConfig", st)
				case known:
					l.weak(r.String()+": alternativeNameServerConfig", "its name servers are asked for every name, and no zone is")
				case absent:
				}
			}
		},
	},
	{
		ID: "plan.egress-firewall", Title: "Find traffic that leaves the VPC although no list allows it",
		About:  "Behind the Pods' own policies the VPC denies what is not allowed, and what is allowed to everywhere is HTTPS alone.",
		Claims: []string{"KG-05", "KG-12"}, Severity: suite.High,
		skip: func(p Profile) string {
			return unless(p.AllowList, "this environment may reach public addresses")
		},
		Mutants: []Mutant{
			{"deny-disabled", "the rule that denies the rest is disabled", setWhere(typeFirewall, deniesAll, "disabled", true)},
			{"ipv6", "there are IPv6 addresses, whose egress nothing denies", set(typeSubnet, "stackType", "IPV4_IPV6")},
		},
		judge: func(l *look) {
			denied, denied6 := false, false
			l.oneNetwork()
			for _, f := range l.each(typeFirewall) {
				direction, st := f.text("direction")
				if st == unknown {
					l.missing(f, "direction", st)
					continue
				}
				switch direction {
				case "EGRESS":
				case "", "INGRESS": // the default
					continue
				default:
					l.missing(f, "direction", unknown)
					continue
				}
				switch here, st := l.nearClusters(f, "network"); {
				case st != known:
					l.missing(f, "network", unknown)
					continue
				case !here:
					continue // it says nothing of the cluster's nodes
				}
				l.undecidedDenial(f)
				if deniesAll(f) || denies(f, everyIPv6) {
					switch off, st := f.flag("disabled"); {
					case st == unknown:
						l.missing(f, "disabled", st)
					case !off:
						denied, denied6 = denied || deniesAll(f), denied6 || denies(f, everyIPv6)
						l.sound(f.String(), "it denies the rest")
					}
				}
				l.wide(f)
			}
			for _, p := range l.of(typePool) {
				const path = "networkConfig.additionalNodeNetworkConfigs"
				if more, st := p.list(path); st == unknown || len(more) > 0 {
					l.unsure(p.String()+": "+path, "its nodes are in further networks, whose rules are not read")
				}
			}
			for _, r := range l.Resources {
				if strings.HasPrefix(r.Type, "gcp:compute/") && strings.Contains(r.Type, "irewallPolicy") {
					l.unsure(r.String(), "firewall policies stand beside the rules, and are not understood")
				}
			}
			if !denied && !l.undecided() {
				l.weak("the rule that denies the rest", "there is none that is on")
			}
			for _, s := range l.of(typeSubnet) {
				// Google's default is IPv4 alone.
				switch stack, st := s.text("stackType"); {
				case st == unknown:
					l.missing(s, "stackType", st)
				case st == known && stack != "IPV4_ONLY" && !denied6 && !l.undecided():
					l.weak(s.String()+": stackType", "it is %.40q, and no rule that is on denies the rest of IPv6", stack)
				}
			}
		},
	},
}

// onSecondary changes the first secondary range of the first subnet.
func onSecondary(g *Graph, change func(Resource, map[string]any) bool) bool {
	for _, s := range g.of(typeSubnet) {
		if list, st := s.list("secondaryIpRanges"); st == known && len(list) > 0 {
			second, ok := list[0].(map[string]any)
			return ok && change(s, second)
		}
	}
	return false
}

type addressRange struct {
	what   string
	prefix netip.Prefix
}

// ranges gathers the ranges of all subnets and the control plane. What it
// cannot read it records as unsure.
func (l *look) ranges() (out []addressRange) {
	add := func(r Resource, path string) {
		s, st := r.text(path)
		if st != known {
			l.missing(r, path, st)
			return
		}
		p, err := netip.ParsePrefix(s)
		if err != nil {
			l.unsure(r.String()+": "+path, fmt.Sprintf("%.80q is no range", s))
			return
		}
		out = append(out, addressRange{fmt.Sprintf("%s: %s %s", r, path, p), p.Masked()})
	}
	for _, s := range l.each(typeSubnet) {
		add(s, "ipCidrRange")
		seconds, st := s.objects("secondaryIpRanges")
		if st != known {
			l.missing(s, "secondaryIpRanges", st)
		}
		for _, x := range seconds {
			add(x, "ipCidrRange")
		}
	}
	for _, c := range l.of(typeCluster) {
		if _, st := c.find("privateClusterConfig.masterIpv4CidrBlock"); st != absent {
			add(c, "privateClusterConfig.masterIpv4CidrBlock")
		}
	}
	// Comparing all with all must stay cheap over a hostile graph.
	if len(out) > maxSteps {
		l.unsure("ranges", "there are more than are compared")
		out = out[:maxSteps]
	}
	return out
}

// private tells whether the policies of the sandboxes block the range.
func private(r netip.Prefix) bool {
	return slices.ContainsFunc(privateSpace, func(p netip.Prefix) bool { return p.Contains(r.Addr()) && p.Bits() <= r.Bits() })
}

// subnets records clusters and pools whose nodes live in a subnet of another graph.
func (l *look) subnets() {
	for _, c := range l.of(typeCluster) {
		if c.is("subnetwork", absent) {
			l.missing(c, "subnetwork", absent)
		}
		l.ownSubnet(c, "subnetwork")
	}
	for _, p := range l.of(typePool) {
		l.ownSubnet(p, "networkConfig.subnetwork")
	}
}

// ownSubnet records that nodes live in a subnet of which the graph knows nothing:
// ranges of the same names in another one are not its own. Where a name is not known
// yet, nothing can be compared.
func (l *look) ownSubnet(r Resource, path string) {
	own, st := r.text(path)
	if st != known {
		return
	}
	own = own[strings.LastIndexByte(own, '/')+1:]
	for _, s := range l.of(typeSubnet) {
		if name, st := s.text("name"); st != known || name == own {
			return
		}
	}
	l.unsure(r.String()+": "+path, fmt.Sprintf("%.80q is not in the graph, and nor are its ranges", own))
}

// rangeName records whether the name at path is that of a range in the graph, which
// is judged as such.
func (l *look) rangeName(r Resource, path string) {
	name, st := r.text(path)
	if st != known || name == "" {
		l.missing(r, path, st)
		return
	}
	for _, s := range l.of(typeSubnet) {
		seconds, _ := s.objects("secondaryIpRanges")
		for _, x := range seconds {
			if got, _ := x.text("rangeName"); got == name {
				l.sound(r.String()+": "+path, "it is %.80s", name)
				return
			}
		}
	}
	l.unsure(r.String()+": "+path, fmt.Sprintf("no subnet in the graph has the range %.80q", name))
}

// forwarded records a zone of the domain's names whose answers come from elsewhere.
func (l *look) forwarded(zones []Resource, domain string) {
	for _, z := range zones {
		if name, _ := z.host("dnsName"); name != domain+"." && !strings.HasSuffix(name, "."+domain+".") {
			continue
		}
		for _, path := range []string{"forwardingConfig", "peeringConfig", "serviceDirectoryConfig"} {
			switch _, st := z.find(path); st {
			case unknown:
				l.missing(z, path, st)
			case known:
				l.weak(z.String()+": "+path, "its names are answered by somebody else")
			case absent:
			}
		}
	}
}

// zone records whether a private zone answers for the domain in the clusters'
// network.
func (l *look) zone(zones []Resource, domain string) {
	elsewhere := ""
	for _, z := range zones {
		if name, _ := z.host("dnsName"); name != domain+"." {
			continue
		}
		switch here, st := l.answers(z); {
		case st != known:
			l.missing(z, "privateVisibilityConfig.networks", st)
		case !here:
			elsewhere = z.String()
			continue
		}
		l.wants(z, "visibility", "private")
		return
	}
	switch {
	case elsewhere != "":
		l.weak("the zone "+domain, "%s is not for the cluster's network, whose names lead to public addresses", elsewhere)
	case !l.undecided():
		l.weak("the zone "+domain, "there is none: its names lead to public addresses")
	}
}

// records records whether all names of the domain lead to the restricted ones.
func (l *look) records(records []Resource, domain string) {
	apex, wildcard := false, false
	for _, r := range records {
		name, st := r.host("name")
		if st != known {
			l.missing(r, "name", st)
			continue
		}
		if name != domain+"." && !strings.HasSuffix(name, "."+domain+".") {
			continue
		}
		typ, _ := r.text("type")
		data, st := r.texts("rrdatas")
		what := r.String() + ": rrdatas"
		if st != known {
			l.missing(r, "rrdatas", st)
			continue
		}
		got := slices.Sorted(slices.Values(data))
		switch {
		case typ == "A" && slices.Equal(got, restrictedVIP):
			l.sound(what, "%s leads to 199.36.153.4/30", name)
			apex = true
		case typ == "CNAME" && len(got) == 1 && (got[0] == domain+"." || got[0] == "restricted.googleapis.com."):
			l.sound(what, "%s leads to %s", name, got[0])
			wildcard = wildcard || name == "*."+domain+"."
		default:
			l.weak(what, "%s %.10s leads to %.100q", name, typ, strings.Join(got, " "))
			apex = apex || typ == "A"
		}
	}
	if l.undecided() {
		return
	}
	if !apex {
		l.weak("addresses of "+domain, "there are none")
	}
	if !wildcard {
		l.weak("the names below "+domain, "there is no record for them")
	}
}

// Every address, of either family.
const (
	everyIPv4 = "0.0.0.0/0"
	everyIPv6 = "::/0"
)

// deniesAll tells whether a firewall rule denies all egress of every instance,
// be it switched on or not.
func deniesAll(f Resource) bool { return denies(f, everyIPv4) }

func denies(f Resource, everywhere string) bool {
	if f.Type != typeFirewall {
		return false
	}
	direction, _ := f.text("direction")
	to, ranges := f.texts("destinationRanges")
	denied, _ := f.objects("denies")
	for _, path := range []string{"targetTags", "targetServiceAccounts", "sourceTags", "sourceServiceAccounts"} {
		if _, st := f.find(path); st != absent {
			return false
		}
	}
	// A source narrows egress, too.
	if from, st := f.texts("sourceRanges"); st == unknown || len(from) > 0 && !slices.Contains(from, everywhere) {
		return false
	}
	everything := slices.ContainsFunc(denied, func(d Resource) bool {
		protocol, _ := d.text("protocol")
		return protocol == "all"
	})
	// Without destinations a rule is for every address of IPv4.
	all := slices.Contains(to, everywhere) || everywhere == everyIPv4 && (ranges == absent || ranges == known && len(to) == 0)
	return direction == "EGRESS" && everything && all
}

// undecidedDenial records a rule of which it is not known what it denies, and to
// whom: it may be the one that is looked for.
func (l *look) undecidedDenial(f Resource) {
	if _, st := f.find("denies"); st == absent {
		return
	}
	for _, path := range []string{"denies", "destinationRanges", "sourceRanges", "targetTags", "targetServiceAccounts"} {
		if _, st := f.list(path); st == unknown {
			l.missing(f, path, st)
			return
		}
	}
}

// oneNetwork records that clusters are in several networks, where what is said of the
// one is not said of the other.
func (l *look) oneNetwork() {
	clusters := l.of(typeCluster)
	for _, c := range clusters[min(1, len(clusters)):] {
		if yes, st := l.nearClusters(c, "network"); st != known || !yes {
			l.unsure("the clusters' networks", "they are in several, or it is not known: judge each by itself")
			return
		}
	}
}

// nearClusters tells whether the network that a resource names at a path is that of
// the clusters, where that is known. A preview knows neither; they are the same then
// if the program makes no more than one.
func (l *look) nearClusters(r Resource, path string) (yes bool, st state) {
	clusters := l.of(typeCluster)
	if len(clusters) == 0 {
		return true, known
	}
	own, ownState := clusters[0].text("network")
	name, st := r.text(path)
	switch {
	case ownState == unknown && st == unknown && len(l.of(typeNetwork)) <= 1:
		return true, known
	case ownState == unknown || st == unknown:
		return false, unknown
	}
	same, sure := sameNetwork(own, name)
	if !sure {
		return false, unknown
	}
	return same, known
}

// answers tells whether a private zone is for the clusters' network.
func (l *look) answers(z Resource) (yes bool, st state) {
	networks, st := z.objects("privateVisibilityConfig.networks")
	if st != known || len(networks) == 0 {
		return false, unknown
	}
	st = known
	for _, n := range networks {
		switch here, of := l.nearClusters(n, "networkUrl"); {
		case of != known:
			st = unknown
		case here:
			return true, known
		}
	}
	return false, st
}

// sameNetwork compares two spellings of networks: a name, projects/…/networks/NAME,
// or that with Google's address before it. Empty is the one called default. Where
// the projects differ, one may be a number and the other its name.
func sameNetwork(a, b string) (same, sure bool) {
	project, name := networkParts(a)
	otherProject, otherName := networkParts(b)
	if name != otherName {
		return false, true
	}
	return true, project == "" || otherProject == "" || project == otherProject
}

func networkParts(s string) (project, name string) {
	name = s[strings.LastIndexByte(s, '/')+1:]
	if _, rest, ok := strings.Cut(s, "projects/"); ok {
		project, _, _ = strings.Cut(rest, "/")
	}
	if name == "" {
		name = "default"
	}
	return project, name
}

// wide records whether a rule allows more than HTTPS to addresses that are not
// private.
func (l *look) wide(f Resource) {
	if off, st := f.flag("disabled"); st == known && off {
		return
	}
	allows, st := f.objects("allows")
	if st == absent || st == known && len(allows) == 0 {
		return
	}
	to, toState := f.texts("destinationRanges")
	if st == unknown || toState == unknown {
		l.missing(f, "allows", unknown)
		return
	}
	// Without destinations a rule is for all of them.
	public := len(to) == 0 || slices.ContainsFunc(to, func(s string) bool {
		p, err := netip.ParsePrefix(s)
		return err != nil || !private(p)
	})
	for _, a := range allows {
		protocol, st := a.text("protocol")
		ports, portState := a.texts("ports")
		switch what := f.String() + ": allows"; {
		case !public:
			l.sound(what, "it is for %.120q alone", strings.Join(to, " "))
		case st != known || portState == unknown:
			l.missing(f, "allows.protocol", unknown)
		case protocol == "tcp" && slices.Equal(ports, []string{"443"}):
			l.sound(what, "it is HTTPS")
		default:
			l.weak(what, "%.10s %.80q to everywhere", protocol, strings.Join(ports, " "))
		}
	}
}
