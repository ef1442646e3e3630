// SPDX-License-Identifier: Apache-2.0

package gke

import (
	"fmt"

	"github.com/pulumi/pulumi-gcp/sdk/v8/go/gcp/compute"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/stockade-dev/stockade/infra/component"
)

// Egress says what may leave the VPC for public addresses.
type Egress string

// What may leave the VPC.
const (
	// EgressHTTPS is TCP to port 443.
	EgressHTTPS Egress = "https"
	// EgressAll is everything: what the default policy of an Agent Sandbox lets
	// out.
	EgressAll Egress = "all"
)

// FirewallArgs say what the VPC lets out.
type FirewallArgs struct {
	// Network is projects/…/networks/….
	Network pulumi.StringInput
	// Own are the ranges of nodes, Pods and Services. The control plane has its
	// private address in that of the nodes.
	Own   []string
	After []pulumi.Resource
	// Egress to public addresses. Anything but EgressAll is EgressHTTPS.
	Egress Egress
}

// Firewall is the VPC's own word on egress, behind the policies of the Pods.
type Firewall struct {
	pulumi.ResourceState
	component.Children
}

// egressRule is one rule. A lower priority wins.
type egressRule struct {
	name, about string
	priority    int
	to          []string
	// deny is for all protocols. Otherwise the rule allows the protocol, and of
	// it the ports, or all where none is named.
	deny     bool
	protocol string
	ports    []string
}

// NewFirewall declares egress rules that end in one that denies the rest. A VPC
// denies ingress by itself, and GKE adds what its own load balancers need. The
// metadata server is beyond any firewall: Google always lets it through, so the
// sandboxes' policies must block it.
func NewFirewall(ctx *pulumi.Context, name string, args FirewallArgs, opts ...pulumi.ResourceOption) (*Firewall, error) {
	f := &Firewall{}
	if err := component.Register(ctx, "stockade:gke:Firewall", name, f, opts...); err != nil {
		return nil, fmt.Errorf("declaring the firewall: %w", err)
	}
	public := egressRule{
		name: "public", about: "HTTPS to public addresses",
		priority: 2000, to: []string{"0.0.0.0/0"}, protocol: "tcp", ports: []string{"443"},
	}
	if args.Egress == EgressAll {
		public.about, public.protocol, public.ports = "Everything to public addresses", "all", nil
	}
	for _, r := range []egressRule{
		{name: "own", about: "The cluster's own addresses", priority: 1000, to: args.Own, protocol: "all"},
		{name: "google", about: "Google's restricted addresses", priority: 1000, to: []string{RestrictedRange}, protocol: "tcp", ports: []string{"443"}},
		// Without this rule, a network that is peered later would count as public.
		{name: "private", about: "Private addresses that are not the cluster's", priority: 1500, deny: true,
			to: []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"}},
		public,
		{name: "rest", about: "Everything else", priority: 65534, deny: true, to: []string{"0.0.0.0/0"}},
	} {
		if err := f.rule(ctx, name, r, args); err != nil {
			return nil, fmt.Errorf("declaring the firewall rule %s: %w", r.name, err)
		}
	}
	return f, ctx.RegisterResourceOutputs(f, pulumi.Map{})
}

func (f *Firewall) rule(ctx *pulumi.Context, name string, r egressRule, args FirewallArgs) error {
	in := &compute.FirewallArgs{
		Network:           args.Network,
		Description:       pulumi.String(r.about),
		Direction:         pulumi.String("EGRESS"),
		Priority:          pulumi.Int(r.priority),
		DestinationRanges: pulumi.ToStringArray(r.to),
		Disabled:          pulumi.Bool(false),
	}
	if r.deny {
		in.Denies = compute.FirewallDenyArray{compute.FirewallDenyArgs{Protocol: pulumi.String("all")}}
		// What was denied is evidence; what was allowed is in the flow logs.
		in.LogConfig = compute.FirewallLogConfigArgs{Metadata: pulumi.String("INCLUDE_ALL_METADATA")}
	} else {
		allow := compute.FirewallAllowArgs{Protocol: pulumi.String(r.protocol)}
		if len(r.ports) > 0 {
			allow.Ports = pulumi.ToStringArray(r.ports)
		}
		in.Allows = compute.FirewallAllowArray{allow}
	}
	_, err := compute.NewFirewall(ctx, name+"-egress-"+r.name, in, pulumi.Parent(f), component.After(args.After))
	return err
}
