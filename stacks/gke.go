// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"fmt"
	"time"

	"github.com/pulumi/pulumi-gcp/sdk/v8/go/gcp"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/stockade-dev/stockade/conformance/plan"
	"github.com/stockade-dev/stockade/infra/gke"
)

// gkeStandard is one team's sandboxes on GKE Standard.
func gkeStandard(ctx *pulumi.Context) error {
	e, err := newEnvironment(ctx, "gke")
	if err != nil {
		return err
	}
	if err := e.pools(ctx); err != nil {
		return err
	}
	if err := e.workloads(ctx); err != nil {
		return err
	}
	return e.finish(ctx)
}

// environment is a cluster on Google Cloud, and what has been declared for it.
type environment struct {
	settings
	// profile says what it claims to be.
	profile  plan.Profile
	cluster  *gke.Cluster
	registry *gke.Registry
	nodes    *gke.NodeIdentity
	// sandbox is nil where sandboxed code acts as nobody.
	sandbox *gke.SandboxIdentity
	// provider hands the project and region to every component.
	provider pulumi.ResourceOption
	all      []pulumi.Resource
}

// newEnvironment declares what all environments on Google Cloud have. Each
// component waits for those whose effect it needs, also where it takes no value
// of theirs: an API that is off, a role that is missing or a zone that comes too
// late fails an update in the middle.
func newEnvironment(ctx *pulumi.Context, name string) (*environment, error) {
	s, err := readSettings(ctx, name)
	if err != nil {
		return nil, err
	}
	e := &environment{settings: s, profile: plan.Profiles[name]}
	e.profile.ThrowAway = s.ThrowAway
	args := &gcp.ProviderArgs{Project: pulumi.String(s.Project), Region: pulumi.String(s.Region)}
	if e.profile.Perimeter {
		// Access Context Manager belongs to no project. With a person's credentials it
		// answers 403 until it is told whose quota a call is counted against.
		args.BillingProject, args.UserProjectOverride = pulumi.String(s.Project), pulumi.Bool(true)
	}
	provider, err := gcp.NewProvider(ctx, s.Name, args)
	if err != nil {
		return nil, fmt.Errorf("declaring the provider: %w", err)
	}
	e.provider = pulumi.Providers(provider)

	services, err := gke.NewServices(ctx, s.Name, gke.ServicesArgs{Project: s.Project, Names: gke.APIs}, e.provider)
	if err != nil {
		return nil, err
	}
	e.all = append(e.all, services)
	network, err := e.network(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.supply(ctx); err != nil {
		return nil, err
	}
	start := time.Date(2026, time.January, 3, s.MaintenanceHour, 0, 0, 0, time.UTC)
	e.cluster, err = gke.NewCluster(ctx, s.Name, gke.ClusterArgs{
		Name: s.Name, Project: s.Project, Location: s.Region, Zones: s.Zones,
		Network: network.ID, Subnet: network.Subnet, Account: e.nodes.Email,
		Autopilot: e.profile.Autopilot, FQDNPolicies: e.profile.AllowList, External: s.ExternalControlPlane,
		Channel:    s.ReleaseChannel,
		Window:     gke.Window{Start: start.Format(time.RFC3339), End: start.Add(6 * time.Hour).Format(time.RFC3339)},
		SecretsKey: s.SecretsKey, Protected: !s.ThrowAway, After: e.all,
	}, e.provider)
	if err != nil {
		return nil, err
	}
	e.all = append(e.all, e.cluster)
	return e, nil
}

// network declares the network, its names and its firewall.
func (e *environment) network(ctx *pulumi.Context) (*gke.Network, error) {
	own := []string{e.NodeRange.String(), e.PodRange.String(), e.ServiceRange.String()}
	network, err := gke.NewNetwork(ctx, e.Name, gke.NetworkArgs{
		Region: e.Region, Nodes: own[0], Pods: own[1], Services: own[2], After: e.all,
	}, e.provider)
	if err != nil {
		return nil, err
	}
	dns, err := gke.NewDNS(ctx, e.Name, gke.DNSArgs{Network: network.ID, After: e.all}, e.provider)
	if err != nil {
		return nil, err
	}
	firewall, err := gke.NewFirewall(ctx, e.Name, gke.FirewallArgs{Network: network.ID, Own: own, Egress: e.Egress, After: e.all}, e.provider)
	if err != nil {
		return nil, err
	}
	e.all = append(e.all, network, dns, firewall)
	return network, nil
}

// supply declares the nodes' identity, and which images they run.
func (e *environment) supply(ctx *pulumi.Context) (err error) {
	e.nodes, err = gke.NewNodeIdentity(ctx, e.Name+"-node", gke.NodeIdentityArgs{
		Project: e.Project, Account: e.Name + "-node", After: e.all,
	}, e.provider)
	if err != nil {
		return err
	}
	e.all = append(e.all, e.nodes)
	e.registry, err = gke.NewRegistry(ctx, e.Name, gke.RegistryArgs{
		Project: e.Project, Region: e.Region, ID: e.Name, Reader: e.nodes.Email, After: e.all,
	}, e.provider)
	if err != nil {
		return err
	}
	images, err := gke.NewImagePolicy(ctx, e.Name, gke.ImagePolicyArgs{
		Project: e.Project, Registries: []string{e.registry.URL}, After: e.all,
	}, e.provider)
	e.all = append(e.all, e.registry, images)
	return err
}

// pools declares the nodes, which Autopilot makes by itself.
func (e *environment) pools(ctx *pulumi.Context) error {
	pools, err := gke.NewPools(ctx, e.Name, gke.PoolsArgs{
		Cluster: e.cluster.Name, Project: e.Project, Location: e.Region, Account: e.nodes.Email,
		System:  gke.PoolArgs{Machine: e.SystemMachine, Min: 1, Max: e.SystemNodes},
		Sandbox: gke.PoolArgs{Machine: e.SandboxMachine, Min: 0, Max: e.SandboxNodes},
		PodPids: e.PodPids,
	}, e.provider)
	e.all = append(e.all, pools)
	return err
}
