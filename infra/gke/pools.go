// SPDX-License-Identifier: Apache-2.0

package gke

import (
	"fmt"

	"github.com/pulumi/pulumi-gcp/sdk/v8/go/gcp/container"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/stockade-dev/stockade/infra/component"
)

// PoolLabel tells the pools apart. The gVisor pool's label and taint are
// sandbox.gke.io/runtime=gvisor; GKE sets both and refuses a pool that names
// them.
const PoolLabel = "stockade.dev/pool"

// PoolArgs are of one pool.
type PoolArgs struct {
	// Machine is the machine type.
	Machine string
	// Min and Max count nodes over all zones. A pool that must have one begins with one
	// in each zone, so its Max must not be below their number.
	Min, Max int
}

// PoolsArgs are of both pools.
type PoolsArgs struct {
	// Cluster is the cluster's name.
	Cluster  pulumi.StringInput
	Project  string
	Location string
	// Account is the e-mail address of the service account that nodes run as.
	Account string
	System  PoolArgs
	Sandbox PoolArgs
	// PodPids bounds the processes of one sandbox on its node, 1024 to 16384: what
	// gVisor's own limit does not see.
	PodPids int
}

// Pools are one pool for what runs the cluster and one for sandboxes. GKE's own
// Pods do not run under gVisor, so a cluster needs both.
type Pools struct {
	pulumi.ResourceState
	component.Children
}

// NewPools declares the pools.
func NewPools(ctx *pulumi.Context, name string, args PoolsArgs, opts ...pulumi.ResourceOption) (*Pools, error) {
	p := &Pools{}
	if err := component.Register(ctx, "stockade:gke:Pools", name, p, opts...); err != nil {
		return nil, fmt.Errorf("declaring the pools: %w", err)
	}
	system, err := p.pool(ctx, name, "system", args, args.System, args.node("system", args.System.Machine))
	if err != nil {
		return nil, err
	}
	node := args.node("sandbox", args.Sandbox.Machine)
	node.SandboxConfig = container.NodePoolNodeConfigSandboxConfigArgs{SandboxType: pulumi.String("gvisor")}
	node.KubeletConfig = container.NodePoolNodeConfigKubeletConfigArgs{
		CpuCfsQuota:                        pulumi.Bool(true),
		InsecureKubeletReadonlyPortEnabled: pulumi.String("FALSE"),
		PodPidsLimit:                       pulumi.Int(args.PodPids),
	}
	// GKE takes gVisor on no pool that is the only one, and the first one of the
	// cluster is gone by now.
	if _, err := p.pool(ctx, name, "sandbox", args, args.Sandbox, node, system); err != nil {
		return nil, err
	}
	return p, ctx.RegisterResourceOutputs(p, pulumi.Map{})
}

// node is what both kinds of node are.
func (args PoolsArgs) node(role, machine string) *container.NodePoolNodeConfigArgs {
	return &container.NodePoolNodeConfigArgs{
		MachineType:    pulumi.String(machine),
		ImageType:      pulumi.String("COS_CONTAINERD"),
		DiskType:       pulumi.String("pd-balanced"),
		DiskSizeGb:     pulumi.Int(50),
		ServiceAccount: pulumi.String(args.Account),
		OauthScopes:    pulumi.ToStringArray([]string{cloudPlatform}),
		Labels:         pulumi.StringMap{PoolLabel: pulumi.String(role)},
		// GKE sets this one too; left out, each later plan would want to remove it.
		Metadata: pulumi.StringMap{"disable-legacy-endpoints": pulumi.String("true")},
		// The GKE metadata server gives a Pod its own identity, never the node's.
		WorkloadMetadataConfig: container.NodePoolNodeConfigWorkloadMetadataConfigArgs{Mode: pulumi.String("GKE_METADATA")},
		ShieldedInstanceConfig: container.NodePoolNodeConfigShieldedInstanceConfigArgs{
			EnableSecureBoot: pulumi.Bool(true), EnableIntegrityMonitoring: pulumi.Bool(true),
		},
		// A kubelet block without cpuCfsQuota has been read as one that is off.
		KubeletConfig: container.NodePoolNodeConfigKubeletConfigArgs{
			CpuCfsQuota:                        pulumi.Bool(true),
			InsecureKubeletReadonlyPortEnabled: pulumi.String("FALSE"),
		},
	}
}

func (p *Pools) pool(ctx *pulumi.Context, name, role string, args PoolsArgs, size PoolArgs, node *container.NodePoolNodeConfigArgs, after ...pulumi.Resource) (*container.NodePool, error) {
	pool, err := container.NewNodePool(ctx, name+"-"+role, &container.NodePoolArgs{
		Name:     pulumi.String(role),
		Project:  pulumi.String(args.Project),
		Location: pulumi.String(args.Location),
		Cluster:  args.Cluster,
		// For each zone, unlike the limits of the autoscaler. Not 0 for a pool that must
		// have one: in a cluster without any node the autoscaler has been seen never to
		// make the first (hashicorp/terraform-provider-google#1708).
		InitialNodeCount: pulumi.Int(min(size.Min, 1)),
		Autoscaling: container.NodePoolAutoscalingArgs{
			TotalMinNodeCount: pulumi.Int(size.Min), TotalMaxNodeCount: pulumi.Int(size.Max), LocationPolicy: pulumi.String("ANY"),
		},
		Management:      container.NodePoolManagementArgs{AutoRepair: pulumi.Bool(true), AutoUpgrade: pulumi.Bool(true)},
		UpgradeSettings: container.NodePoolUpgradeSettingsArgs{MaxSurge: pulumi.Int(1), MaxUnavailable: pulumi.Int(0)},
		NetworkConfig:   container.NodePoolNetworkConfigArgs{EnablePrivateNodes: pulumi.Bool(true)},
		NodeConfig:      *node,
	}, pulumi.Parent(p), pulumi.DependsOn(after),
		// A pool's name is its own, so a new one can only come after the old one.
		pulumi.DeleteBeforeReplace(true),
		// The channel chooses the version and the autoscaler the count.
		pulumi.IgnoreChanges([]string{"initialNodeCount", "nodeCount", "version"}),
		pulumi.Timeouts(&pulumi.CustomTimeouts{Create: "60m", Update: "90m", Delete: "60m"}))
	if err != nil {
		return nil, fmt.Errorf("declaring the %s pool: %w", role, err)
	}
	return pool, nil
}
