// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"net/netip"
	"strings"
)

var networkKind = &kind{
	api: apiCompute, id: global("networks"), autoname: true, name: rfc1035, named: "name",
	defaults: values{"autoCreateSubnetworks": true, "deleteDefaultRoutesOnCreate": false, "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL"},
	oneOf:    map[string][]string{"routingMode": {"REGIONAL", "GLOBAL"}},
	replace:  []string{"name", "project", "description", "autoCreateSubnetworks", "deleteDefaultRoutesOnCreate", "mtu", "enableUlaInternalIpv6", "internalIpv6Range", "networkProfile"},
	keep: func(c *Cloud, r *record) error {
		for _, typ := range []string{typeSubnet, typeFirewall, typeRouter, typeCluster} {
			for _, user := range c.all(typ) {
				if c.network(text(user.Inputs, "network")) == r.ID {
					return inUse(r, user)
				}
			}
		}
		return nil
	},
	computed: func(c *Cloud, r *record) values {
		return merge(c.made(r, "compute/v1"), values{
			"gatewayIpv4": "", "numericId": digits(r, 19), "networkId": digits(r, 19), "mtu": 1460.0, "routingMode": "REGIONAL",
		})
	},
}

var subnetKind = &kind{
	api: apiCompute, id: regional("subnetworks"), autoname: true, name: rfc1035, named: "name",
	oneOf:   map[string][]string{"stackType": {"IPV4_ONLY", "IPV4_IPV6", "IPV6_ONLY"}},
	replace: []string{"name", "project", "region", "network", "description", "purpose", "ipCidrRange"},
	inPlace: func(path string, before, after values) bool {
		was, err1 := netip.ParsePrefix(text(before, path))
		is, err2 := netip.ParsePrefix(text(after, path))
		// A range may grow around what it was.
		return path == "ipCidrRange" && err1 == nil && err2 == nil && is.Bits() < was.Bits() && is.Contains(was.Addr())
	},
	accept: acceptSubnet,
	keep: func(c *Cloud, r *record) error {
		for _, user := range c.all(typeCluster) {
			if c.subnet(text(user.Inputs, "subnetwork"), r.Inputs) == r.ID {
				return inUse(r, user)
			}
		}
		for _, user := range c.all(typeNat) {
			for _, s := range objects(user.Inputs, "subnetworks") {
				if c.subnet(text(s, "name"), r.Inputs) == r.ID {
					return inUse(r, user)
				}
			}
		}
		return nil
	},
	computed: func(c *Cloud, r *record) values {
		gateway := ""
		if p, err := netip.ParsePrefix(text(r.Inputs, "ipCidrRange")); err == nil {
			gateway = p.Masked().Addr().Next().String()
		}
		return merge(c.made(r, "compute/v1"), values{
			"region": c.place(r.Inputs, "region"), "gatewayAddress": gateway, "fingerprint": hash(r, 12), "creationTimestamp": epoch,
			"purpose": "PRIVATE", "stackType": "IPV4_ONLY", "privateIpv6GoogleAccess": "DISABLE_GOOGLE_ACCESS", "subnetworkId": float64(r.Serial),
		})
	},
}

var routerKind = &kind{
	api: apiCompute, id: regional("routers"), autoname: true, name: rfc1035, named: "name",
	replace: []string{"name", "project", "region", "network", "encryptedInterconnectRouter"},
	accept:  func(c *Cloud, _ string, v values) error { return c.needs(typeNetwork, c.network(text(v, "network"))) },
	computed: func(c *Cloud, r *record) values {
		return merge(c.made(r, "compute/v1"), values{"region": c.place(r.Inputs, "region"), "creationTimestamp": epoch})
	},
	// Its NAT is a part of it.
	gone: func(c *Cloud, r *record) {
		for _, n := range c.all(typeNat) {
			if c.router(n.Inputs) == r.ID {
				delete(c.state.Resources, key(n.Type, n.ID))
			}
		}
	},
}

var natKind = &kind{
	api: apiCompute,
	id: func(c *Cloud, v values) string {
		return strings.Join([]string{c.project(v), c.place(v, "region"), last(text(v, "router")), text(v, "name")}, "/")
	},
	autoname: true, name: rfc1035, named: "name",
	oneOf: map[string][]string{
		"natIpAllocateOption":           {"MANUAL_ONLY", "AUTO_ONLY"},
		"sourceSubnetworkIpRangesToNat": {"ALL_SUBNETWORKS_ALL_IP_RANGES", "ALL_SUBNETWORKS_ALL_PRIMARY_IP_RANGES", "LIST_OF_SUBNETWORKS"},
	},
	replace: []string{"name", "project", "region", "router", "endpointTypes", "initialNatIps"},
	accept:  acceptNat,
	computed: func(c *Cloud, r *record) values {
		return values{"project": c.project(r.Inputs), "region": c.place(r.Inputs, "region"), "minPortsPerVm": 64.0, "enableDynamicPortAllocation": false}
	},
}

var firewallKind = &kind{
	api: apiCompute, id: global("firewalls"), autoname: true, name: rfc1035, named: "name",
	defaults: values{"priority": 1000.0},
	oneOf:    map[string][]string{"direction": {"INGRESS", "EGRESS"}},
	excludes: [][2]string{{"allows", "denies"}, {"sourceRanges", "sourceServiceAccounts"}, {"sourceTags", "sourceServiceAccounts"}, {"targetTags", "targetServiceAccounts"}},
	replace:  []string{"name", "project", "network", "direction"},
	accept:   acceptFirewall,
	computed: func(c *Cloud, r *record) values {
		return merge(c.made(r, "compute/v1"), values{"direction": "INGRESS", "creationTimestamp": epoch, "enableLogging": has(r.Inputs, "logConfig")})
	},
}
