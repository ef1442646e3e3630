// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/big"
	"net/netip"
	"strings"
)

// epoch is when everything was made: outputs must not change by themselves.
const epoch = "2026-01-02T03:04:05.678-00:00"

// gkeVersion is the one that a release channel gives out.
const gkeVersion = "1.36.3-gke.1767000"

// hash returns hex digits that belong to one resource, and not to a later one of
// the same id.
func hash(r *record, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", key(r.Type, r.ID), r.Serial))
	return hex.EncodeToString(sum[:])[:n]
}

// digits is hash in decimal.
func digits(r *record, n int) string {
	x, _ := new(big.Int).SetString(hash(r, 60), 16)
	return "1" + x.String()[:n-1]
}

// made is what Compute Engine says of everything.
func (c *Cloud) made(r *record, api string) values {
	return values{"project": c.project(r.Inputs), "selfLink": "https://www.googleapis.com/" + api + "/" + r.ID}
}

// labels adds those that the provider sets itself.
func (c *Cloud) labels(v values, path string) values {
	mine, _ := find(v, path).(map[string]any)
	return merge(values{"goog-pulumi-provisioned": "true"}, mine)
}

func computeCluster(c *Cloud, r *record) values {
	location := c.place(r.Inputs, "location")
	endpoint, dnsEndpoint, ca := c.opts.Endpoint, c.opts.DNSEndpoint, c.opts.CACertificate
	if endpoint == "" {
		// TEST-NET-3, or the address behind that of the control plane's network.
		endpoint = fmt.Sprintf("203.0.113.%d", 1+r.Serial%254)
		if p, err := netip.ParsePrefix(text(r.Inputs, "privateClusterConfig.masterIpv4CidrBlock")); err == nil {
			endpoint = p.Addr().Next().Next().String()
		}
	}
	if dnsEndpoint == "" {
		dnsEndpoint = fmt.Sprintf("gke-%s-%s.%s.gke.goog", hash(r, 32), c.opts.Number, regionOf(location))
	}
	if ca == "" {
		ca = base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\n" + hash(r, 60) + "\n-----END CERTIFICATE-----\n"))
	}
	out := values{
		"project": c.project(r.Inputs), "location": location, "endpoint": endpoint,
		"selfLink":                    "https://container.googleapis.com/v1/" + r.ID,
		"masterVersion":               gkeVersion,
		"nodeVersion":                 gkeVersion,
		"labelFingerprint":            hash(r, 8),
		"masterAuth":                  values{"clientCertificate": "", "clientKey": "", "clusterCaCertificate": ca, "clientCertificateConfig": values{"issueClientCertificate": false}},
		"controlPlaneEndpointsConfig": values{"dnsEndpointConfig": values{"endpoint": dnsEndpoint}},
		"effectiveLabels":             c.labels(r.Inputs, "resourceLabels"),
		"pulumiLabels":                c.labels(r.Inputs, "resourceLabels"),
	}
	if flag(r.Inputs, "enableAutopilot") {
		out["datapathProvider"] = "ADVANCED_DATAPATH"
		out["enableShieldedNodes"] = true
		out["workloadIdentityConfig"] = values{"workloadPool": c.project(r.Inputs) + ".svc.id.goog"}
	}
	if text(r.Inputs, "ipAllocationPolicy.servicesSecondaryRangeName") == "" && text(r.Inputs, "ipAllocationPolicy.servicesIpv4CidrBlock") == "" {
		// GKE's own choice, which is no private range.
		out["servicesIpv4Cidr"] = "34.118.224.0/20"
	}
	if subnet := c.get(typeSubnet, c.subnet(text(r.Inputs, "subnetwork"), r.Inputs)); subnet != nil {
		for property, path := range map[string]string{"clusterIpv4Cidr": "clusterSecondaryRangeName", "servicesIpv4Cidr": "servicesSecondaryRangeName"} {
			for _, s := range objects(subnet.Inputs, "secondaryIpRanges") {
				if text(s, "rangeName") == text(r.Inputs, "ipAllocationPolicy."+path) {
					out[property] = text(s, "ipCidrRange")
				}
			}
		}
	}
	return out
}

func computePool(c *Cloud, r *record) values {
	group := fmt.Sprintf("https://www.googleapis.com/compute/v1/projects/%s/zones/%s-b/instanceGroupManagers/gke-%s-grp",
		c.project(r.Inputs), regionOf(c.place(r.Inputs, "location")), hash(r, 8))
	node := values{}
	var taints []any
	for _, t := range objects(r.Inputs, "nodeConfig.taints") {
		taints = append(taints, clone(t))
	}
	if sandboxed(r.Inputs) {
		node["labels"] = values{reservedKey: "gvisor"}
		taints = append(taints, values{"key": reservedKey, "value": "gvisor", "effect": "NO_SCHEDULE"})
	}
	if taints != nil {
		node["effectiveTaints"] = taints
	}
	return values{
		"project": c.project(r.Inputs), "location": c.place(r.Inputs, "location"), "version": gkeVersion, "maxPodsPerNode": 110.0,
		"nodeCount": number(r.Inputs, "initialNodeCount"), "initialNodeCount": 0.0, "nodeConfig": node,
		"instanceGroupUrls":        []any{strings.Replace(group, "instanceGroupManagers", "instanceGroups", 1)},
		"managedInstanceGroupUrls": []any{group},
		"management":               values{"autoRepair": true, "autoUpgrade": true},
	}
}
