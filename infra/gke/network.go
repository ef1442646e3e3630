// SPDX-License-Identifier: Apache-2.0

package gke

import (
	"fmt"

	"github.com/pulumi/pulumi-gcp/sdk/v8/go/gcp/compute"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/stockade-dev/stockade/infra/component"
)

// Names of the subnet's secondary ranges.
const (
	PodRange     = "pods"
	ServiceRange = "services"
)

// NetworkArgs say where the network is and which addresses it has, in CIDR
// notation. The ranges must lie in RFC 1918: the sandboxes' policies take every
// other address for a public one.
type NetworkArgs struct {
	Region   string
	Nodes    string
	Pods     string
	Services string
	After    []pulumi.Resource
}

// Network is a VPC with one subnet, and the way out of it.
type Network struct {
	pulumi.ResourceState
	component.Children

	// ID and Subnet are projects/…/networks/… and projects/…/subnetworks/….
	ID     pulumi.StringOutput
	Subnet pulumi.StringOutput
}

// NewNetwork declares a VPC of its own, without the rules and subnets of the
// default one. Nodes have no addresses outside of it: Google is reached through
// Private Google Access, everybody else through Cloud NAT.
func NewNetwork(ctx *pulumi.Context, name string, args NetworkArgs, opts ...pulumi.ResourceOption) (*Network, error) {
	n := &Network{}
	if err := component.Register(ctx, "stockade:gke:Network", name, n, opts...); err != nil {
		return nil, fmt.Errorf("declaring the network: %w", err)
	}
	vpc, err := compute.NewNetwork(ctx, name, &compute.NetworkArgs{
		AutoCreateSubnetworks: pulumi.Bool(false),
		RoutingMode:           pulumi.String("REGIONAL"),
	}, pulumi.Parent(n), component.After(args.After))
	if err != nil {
		return nil, fmt.Errorf("declaring the VPC: %w", err)
	}
	n.ID = vpc.ID().ToStringOutput()

	subnet, err := compute.NewSubnetwork(ctx, name, &compute.SubnetworkArgs{
		Network:     n.ID,
		Region:      pulumi.String(args.Region),
		IpCidrRange: pulumi.String(args.Nodes),
		SecondaryIpRanges: compute.SubnetworkSecondaryIpRangeArray{
			compute.SubnetworkSecondaryIpRangeArgs{RangeName: pulumi.String(PodRange), IpCidrRange: pulumi.String(args.Pods)},
			compute.SubnetworkSecondaryIpRangeArgs{RangeName: pulumi.String(ServiceRange), IpCidrRange: pulumi.String(args.Services)},
		},
		PrivateIpGoogleAccess: pulumi.Bool(true),
		// The firewall and the sandboxes' policies are written for IPv4: a second
		// family would be one that they do not know.
		StackType: pulumi.String("IPV4_ONLY"),
		// Flow logs are a witness that no sandbox can reach.
		LogConfig: compute.SubnetworkLogConfigArgs{
			AggregationInterval: pulumi.String("INTERVAL_5_SEC"),
			FlowSampling:        pulumi.Float64(0.5),
			Metadata:            pulumi.String("INCLUDE_ALL_METADATA"),
		},
	}, pulumi.Parent(n))
	if err != nil {
		return nil, fmt.Errorf("declaring the subnet: %w", err)
	}
	n.Subnet = subnet.ID().ToStringOutput()

	router, err := compute.NewRouter(ctx, name, &compute.RouterArgs{
		Network: n.ID,
		Region:  pulumi.String(args.Region),
	}, pulumi.Parent(n))
	if err != nil {
		return nil, fmt.Errorf("declaring the router: %w", err)
	}
	_, err = compute.NewRouterNat(ctx, name, &compute.RouterNatArgs{
		Router:              router.Name,
		Region:              pulumi.String(args.Region),
		NatIpAllocateOption: pulumi.String("AUTO_ONLY"),
		// Not all subnets of the VPC: what is added beside ours gets no way out
		// by being there.
		SourceSubnetworkIpRangesToNat: pulumi.String("LIST_OF_SUBNETWORKS"),
		Subnetworks: compute.RouterNatSubnetworkArray{compute.RouterNatSubnetworkArgs{
			Name:                  n.Subnet,
			SourceIpRangesToNats:  pulumi.ToStringArray([]string{"PRIMARY_IP_RANGE", "LIST_OF_SECONDARY_IP_RANGES"}),
			SecondaryIpRangeNames: pulumi.ToStringArray([]string{PodRange}),
		}},
		LogConfig: compute.RouterNatLogConfigArgs{Enable: pulumi.Bool(true), Filter: pulumi.String("ERRORS_ONLY")},
	}, pulumi.Parent(n))
	if err != nil {
		return nil, fmt.Errorf("declaring Cloud NAT: %w", err)
	}
	return n, ctx.RegisterResourceOutputs(n, pulumi.Map{"id": n.ID, "subnet": n.Subnet})
}
