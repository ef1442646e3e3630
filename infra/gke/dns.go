// SPDX-License-Identifier: Apache-2.0

package gke

import (
	"fmt"
	"strings"

	"github.com/pulumi/pulumi-gcp/sdk/v8/go/gcp/dns"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/stockade-dev/stockade/infra/component"
)

// RestrictedRange are the addresses of restricted.googleapis.com, which only
// serve what VPC Service Controls can guard.
// https://docs.cloud.google.com/vpc-service-controls/docs/private-connectivity
const RestrictedRange = "199.36.153.4/30"

var restrictedAddresses = []string{"199.36.153.4", "199.36.153.5", "199.36.153.6", "199.36.153.7"}

// restrictedDomains are Google's domains for APIs, images and the control planes of
// clusters. carrier is the name in each that has the address records, for which all
// other names of the domain are aliases; googleapis.com itself has no addresses.
// https://docs.cloud.google.com/vpc/docs/configure-private-google-access
var restrictedDomains = []struct{ domain, carrier string }{
	{"googleapis.com", "restricted.googleapis.com"},
	{"gcr.io", "gcr.io"},
	{"pkg.dev", "pkg.dev"},
	{"gke.goog", "gke.goog"},
}

// recordTTL is in seconds.
const recordTTL = 300

// DNSArgs name the network whose names these are.
type DNSArgs struct {
	// Network is projects/…/networks/….
	Network pulumi.StringInput
	After   []pulumi.Resource
}

// DNS are private zones that lead Google's names to the restricted addresses.
type DNS struct {
	pulumi.ResourceState
	component.Children
}

// NewDNS declares the zones. Without them a Google name leads to public
// addresses, which also serve what no perimeter guards.
func NewDNS(ctx *pulumi.Context, name string, args DNSArgs, opts ...pulumi.ResourceOption) (*DNS, error) {
	d := &DNS{}
	if err := component.Register(ctx, "stockade:gke:DNS", name, d, opts...); err != nil {
		return nil, fmt.Errorf("declaring the private names: %w", err)
	}
	for _, r := range restrictedDomains {
		if err := d.restrict(ctx, name, r.domain, r.carrier, args); err != nil {
			return nil, fmt.Errorf("declaring the zone %s: %w", r.domain, err)
		}
	}
	return d, ctx.RegisterResourceOutputs(d, pulumi.Map{})
}

func (d *DNS) restrict(ctx *pulumi.Context, name, domain, carrier string, args DNSArgs) error {
	name += "-" + strings.ReplaceAll(domain, ".", "-")
	zone, err := dns.NewManagedZone(ctx, name, &dns.ManagedZoneArgs{
		DnsName:     pulumi.String(domain + "."),
		Description: pulumi.String("Leads to restricted.googleapis.com"),
		Visibility:  pulumi.String("private"),
		PrivateVisibilityConfig: dns.ManagedZonePrivateVisibilityConfigArgs{
			Networks: dns.ManagedZonePrivateVisibilityConfigNetworkArray{
				dns.ManagedZonePrivateVisibilityConfigNetworkArgs{NetworkUrl: args.Network},
			},
		},
	}, pulumi.Parent(d), component.After(args.After))
	if err != nil {
		return err
	}
	_, err = dns.NewRecordSet(ctx, name+"-a", &dns.RecordSetArgs{
		ManagedZone: zone.Name,
		Name:        pulumi.String(carrier + "."),
		Type:        pulumi.String("A"),
		Ttl:         pulumi.Int(recordTTL),
		Rrdatas:     pulumi.ToStringArray(restrictedAddresses),
	}, pulumi.Parent(d))
	if err != nil {
		return err
	}
	_, err = dns.NewRecordSet(ctx, name+"-any", &dns.RecordSetArgs{
		ManagedZone: zone.Name,
		Name:        pulumi.String("*." + domain + "."),
		Type:        pulumi.String("CNAME"),
		Ttl:         pulumi.Int(recordTTL),
		Rrdatas:     pulumi.ToStringArray([]string{carrier + "."}),
	}, pulumi.Parent(d))
	return err
}
