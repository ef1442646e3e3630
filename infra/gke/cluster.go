// SPDX-License-Identifier: Apache-2.0

package gke

import (
	"fmt"

	"github.com/pulumi/pulumi-gcp/sdk/v8/go/gcp/container"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/stockade-dev/stockade/infra/component"
)

// cloudPlatform leaves it to IAM what an account may do: narrower scopes are the
// legacy way to say so, and they do not know newer services.
const cloudPlatform = "https://www.googleapis.com/auth/cloud-platform"

// Window is when GKE may upgrade: every Saturday and Sunday, from Start to End
// on the day that both name (RFC 3339).
type Window struct {
	Start, End string
}

// ClusterArgs say what differs between environments. What every cluster must
// have is no argument.
type ClusterArgs struct {
	// Name is the cluster's own in Google Cloud.
	Name    string
	Project string
	// Location is a region.
	Location string
	// Zones are those of the nodes; none leaves the choice to GKE. Autopilot
	// always chooses.
	Zones []string
	// Network and Subnet are projects/…/networks/… and projects/…/subnetworks/….
	Network pulumi.StringInput
	Subnet  pulumi.StringInput
	// Account is the e-mail address of the service account that nodes run as.
	Account string
	// Autopilot lets GKE make the nodes.
	Autopilot bool
	// FQDNPolicies switches on network policies by host name.
	FQDNPolicies bool
	// External lets the DNS endpoint be used from outside of the VPC. IAM stands
	// before it in either case.
	External bool
	// Channel is the release channel.
	Channel string
	Window  Window
	// SecretsKey is a Cloud KMS key, projects/…/cryptoKeys/…, under which Secrets
	// are encrypted once more; "" for Google's own encryption alone.
	SecretsKey string
	// Protected refuses the deletion of the cluster, by Google and by Pulumi.
	Protected bool
	After     []pulumi.Resource
}

// Cluster is a private GKE cluster with Dataplane V2.
type Cluster struct {
	pulumi.ResourceState
	component.Children

	Name pulumi.StringOutput
	// Endpoint is the host name of the control plane. It has no other address
	// that answers.
	Endpoint pulumi.StringOutput
}

// NewCluster declares the cluster without pools that stay.
func NewCluster(ctx *pulumi.Context, name string, args ClusterArgs, opts ...pulumi.ResourceOption) (*Cluster, error) {
	c := &Cluster{}
	if err := component.Register(ctx, "stockade:gke:Cluster", name, c, opts...); err != nil {
		return nil, fmt.Errorf("declaring the cluster: %w", err)
	}
	in := &container.ClusterArgs{
		Name:       pulumi.String(args.Name),
		Project:    pulumi.String(args.Project),
		Location:   pulumi.String(args.Location),
		Network:    args.Network,
		Subnetwork: args.Subnet,
		IpAllocationPolicy: container.ClusterIpAllocationPolicyArgs{
			// Named, because GKE's own choice for Services (34.118.224.0/20) is no
			// private range.
			ClusterSecondaryRangeName:  pulumi.String(PodRange),
			ServicesSecondaryRangeName: pulumi.String(ServiceRange),
		},
		EnableFqdnNetworkPolicy: pulumi.Bool(args.FQDNPolicies),
		PrivateClusterConfig: container.ClusterPrivateClusterConfigArgs{
			EnablePrivateNodes: pulumi.Bool(true),
			// GKE reports it as true wherever IP endpoints are off; left out, each later
			// plan would want to change it (hashicorp/terraform-provider-google#27901).
			EnablePrivateEndpoint: pulumi.Bool(true),
		},
		ControlPlaneEndpointsConfig: container.ClusterControlPlaneEndpointsConfigArgs{
			DnsEndpointConfig: container.ClusterControlPlaneEndpointsConfigDnsEndpointConfigArgs{
				AllowExternalTraffic: pulumi.Bool(args.External),
			},
			IpEndpointsConfig: container.ClusterControlPlaneEndpointsConfigIpEndpointsConfigArgs{Enabled: pulumi.Bool(false)},
		},
		// The health checks answer everybody, and nothing else does.
		AnonymousAuthenticationConfig: container.ClusterAnonymousAuthenticationConfigArgs{Mode: pulumi.String("LIMITED")},
		// Everybody with a Google account is in system:authenticated.
		RbacBindingConfig: container.ClusterRbacBindingConfigArgs{
			EnableInsecureBindingSystemAuthenticated:   pulumi.Bool(false),
			EnableInsecureBindingSystemUnauthenticated: pulumi.Bool(false),
		},
		WorkloadIdentityConfig: container.ClusterWorkloadIdentityConfigArgs{WorkloadPool: pulumi.String(WorkloadPool(args.Project))},
		BinaryAuthorization:    container.ClusterBinaryAuthorizationArgs{EvaluationMode: pulumi.String("PROJECT_SINGLETON_POLICY_ENFORCE")},
		// A Service that claims a foreign address as its own draws its traffic
		// (CVE-2020-8554).
		ServiceExternalIpsConfig: container.ClusterServiceExternalIpsConfigArgs{Enabled: pulumi.Bool(false)},
		SecurityPostureConfig:    container.ClusterSecurityPostureConfigArgs{Mode: pulumi.String("BASIC")},
		ReleaseChannel:           container.ClusterReleaseChannelArgs{Channel: pulumi.String(args.Channel)},
		MaintenancePolicy: container.ClusterMaintenancePolicyArgs{
			RecurringWindow: container.ClusterMaintenancePolicyRecurringWindowArgs{
				StartTime: pulumi.String(args.Window.Start), EndTime: pulumi.String(args.Window.End),
				Recurrence: pulumi.String("FREQ=WEEKLY;BYDAY=SA,SU"),
			},
		},
		DeletionProtection: pulumi.Bool(args.Protected),
		// The managed Agent Sandbox goes here, as AddonsConfig's agentSandboxConfig,
		// as soon as the SDK has that field: v8.41.1 has not. Until then the
		// controller is installed from its manifests once the cluster is up, and
		// with the add-on that must stop, because both bring the same CRDs.
	}
	if args.SecretsKey != "" {
		in.DatabaseEncryption = container.ClusterDatabaseEncryptionArgs{
			State: pulumi.String("ENCRYPTED"), KeyName: pulumi.String(args.SecretsKey),
		}
	}
	if args.Autopilot {
		autopilot(in, args)
	} else {
		standard(in, args)
	}
	cluster, err := container.NewCluster(ctx, name, in, pulumi.Parent(c), component.After(args.After),
		// An upgrade by the channel must not look like a change, least of all like
		// one that replaces the cluster; nor must the pool that went away.
		pulumi.IgnoreChanges([]string{"initialNodeCount", "minMasterVersion", "nodeConfig", "nodePools", "nodeVersion"}),
		// Google refuses to delete a protected cluster, but only after Pulumi has
		// deleted its pools. Pulumi's own protection stops a preview before that, and
		// the guard everything else (see [Guard]).
		pulumi.Protect(args.Protected),
		// A cluster's name is its own, so a new one can only come after the old one.
		pulumi.DeleteBeforeReplace(true),
		pulumi.Timeouts(&pulumi.CustomTimeouts{Create: "60m", Update: "90m", Delete: "60m"}))
	if err != nil {
		return nil, fmt.Errorf("declaring the GKE cluster: %w", err)
	}
	c.Name = cluster.Name
	c.Endpoint = cluster.ControlPlaneEndpointsConfig.DnsEndpointConfig().Endpoint().Elem()
	return c, ctx.RegisterResourceOutputs(c, pulumi.Map{"name": c.Name, "endpoint": c.Endpoint})
}

// standard adds what GKE decides itself on Autopilot. There is no networkPolicy:
// that is Calico, which GKE refuses beside Dataplane V2.
func standard(in *container.ClusterArgs, args ClusterArgs) {
	in.DatapathProvider = pulumi.String("ADVANCED_DATAPATH")
	in.EnableShieldedNodes = pulumi.Bool(true)
	// Traffic between Pods of one node passes the VPC too, and its flow logs.
	in.EnableIntranodeVisibility = pulumi.Bool(true)
	if len(args.Zones) > 0 {
		in.NodeLocations = pulumi.ToStringArray(args.Zones)
	}
	in.LoggingConfig = container.ClusterLoggingConfigArgs{
		EnableComponents: pulumi.ToStringArray([]string{"SYSTEM_COMPONENTS", "WORKLOADS", "APISERVER"}),
	}
	in.MonitoringConfig = container.ClusterMonitoringConfigArgs{
		EnableComponents: pulumi.ToStringArray([]string{"SYSTEM_COMPONENTS"}),
		// The relay tells which flow was dropped and why: a witness.
		AdvancedDatapathObservabilityConfig: container.ClusterMonitoringConfigAdvancedDatapathObservabilityConfigArgs{
			EnableMetrics: pulumi.Bool(true), EnableRelay: pulumi.Bool(true),
		},
	}
	in.NodePoolDefaults = container.ClusterNodePoolDefaultsArgs{
		NodeConfigDefaults: container.ClusterNodePoolDefaultsNodeConfigDefaultsArgs{
			InsecureKubeletReadonlyPortEnabled: pulumi.String("FALSE"),
		},
	}
	// A cluster is born with one pool, a node in each zone. It goes at once, but for
	// some minutes its nodes are there, and they must not run as the project's default
	// account. GKE's own choice of disks for them, 100 GB of SSD each, is more than a
	// new project may have.
	in.RemoveDefaultNodePool = pulumi.Bool(true)
	in.InitialNodeCount = pulumi.Int(1)
	in.NodeConfig = container.ClusterNodeConfigArgs{
		DiskType:               pulumi.String("pd-standard"),
		DiskSizeGb:             pulumi.Int(50),
		ServiceAccount:         pulumi.String(args.Account),
		OauthScopes:            pulumi.ToStringArray([]string{cloudPlatform}),
		WorkloadMetadataConfig: container.ClusterNodeConfigWorkloadMetadataConfigArgs{Mode: pulumi.String("GKE_METADATA")},
		ShieldedInstanceConfig: container.ClusterNodeConfigShieldedInstanceConfigArgs{
			EnableSecureBoot: pulumi.Bool(true), EnableIntegrityMonitoring: pulumi.Bool(true),
		},
	}
}

// autopilot says what is left to say. Dataplane V2, the GKE metadata server,
// Shielded nodes and gVisor are always there, and the provider refuses some of
// their switches beside enableAutopilot.
func autopilot(in *container.ClusterArgs, args ClusterArgs) {
	in.EnableAutopilot = pulumi.Bool(true)
	in.ClusterAutoscaling = container.ClusterClusterAutoscalingArgs{
		AutoProvisioningDefaults: container.ClusterClusterAutoscalingAutoProvisioningDefaultsArgs{
			ServiceAccount: pulumi.String(args.Account),
			OauthScopes:    pulumi.ToStringArray([]string{cloudPlatform}),
		},
	}
	in.NodePoolAutoConfig = container.ClusterNodePoolAutoConfigArgs{
		NodeKubeletConfig: container.ClusterNodePoolAutoConfigNodeKubeletConfigArgs{
			InsecureKubeletReadonlyPortEnabled: pulumi.String("FALSE"),
		},
	}
}
