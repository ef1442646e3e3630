// SPDX-License-Identifier: Apache-2.0

package gke

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/infra/gke/gketest"
)

type obj = map[string]any

// Type tokens of what the components declare.
const (
	tService    = "gcp:projects/service:Service"
	tNetwork    = "gcp:compute/network:Network"
	tSubnet     = "gcp:compute/subnetwork:Subnetwork"
	tRouter     = "gcp:compute/router:Router"
	tNat        = "gcp:compute/routerNat:RouterNat"
	tFirewall   = "gcp:compute/firewall:Firewall"
	tZone       = "gcp:dns/managedZone:ManagedZone"
	tRecord     = "gcp:dns/recordSet:RecordSet"
	tCluster    = "gcp:container/cluster:Cluster"
	tPool       = "gcp:container/nodePool:NodePool"
	tAccount    = "gcp:serviceaccount/account:Account"
	tAccountIAM = "gcp:serviceaccount/iAMMember:IAMMember"
	tProjectIAM = "gcp:projects/iAMMember:IAMMember"
	tRepository = "gcp:artifactregistry/repository:Repository"
	tReader     = "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember"
	tImages     = "gcp:binaryauthorization/policy:Policy"
	tLevel      = "gcp:accesscontextmanager/accessLevel:AccessLevel"
	tPerimeter  = "gcp:accesscontextmanager/servicePerimeter:ServicePerimeter"
)

// want is what one resource must say for one reason, by path: "allows.0.ports".
// A value of absent means that there must be none.
type want struct {
	typ, name string
	inputs    obj
	why       string
}

type absent struct{}

// complaints returns what the wants miss in a graph. It is the one assertion of
// the unit tests, and of the test that takes each input away.
func complaints(all []gketest.Resource, wants []want) (out []string) {
	for _, w := range wants {
		i := slices.IndexFunc(all, func(r gketest.Resource) bool { return r.Type == w.typ && r.Name == w.name })
		if i < 0 {
			out = append(out, fmt.Sprintf("there is no %s %q: %s", w.typ, w.name, w.why))
			continue
		}
		for path, v := range w.inputs {
			got, there := at(all[i].Inputs, path)
			if _, none := v.(absent); none && there || !none && (!there || !reflect.DeepEqual(got, v)) {
				out = append(out, fmt.Sprintf("%s %q: %s is %v, not %v: %s", w.typ, w.name, path, got, v, w.why))
			}
		}
	}
	return out
}

// at returns the value at a path of keys and indexes.
func at(v any, path string) (any, bool) {
	for key := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case obj:
			next, ok := x[key]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(x) {
				return nil, false
			}
			v = x[i]
		default:
			return nil, false
		}
	}
	return v, true
}

func texts(all ...string) []any {
	out := make([]any, len(all))
	for i, s := range all {
		out[i] = s
	}
	return out
}

// declare runs a program of components.
func declare(t *testing.T, program pulumi.RunFunc) []gketest.Resource {
	t.Helper()
	all, err := gketest.Record(program, gketest.Options{})
	require.NoError(t, err)
	return all
}

// declaration is one component as a test declares it, and what it must say.
type declaration struct {
	program pulumi.RunFunc
	wants   []want
}

// decl makes a program of one constructor.
func decl[A, C any](construct func(*pulumi.Context, string, A, ...pulumi.ResourceOption) (C, error), args A) pulumi.RunFunc {
	return func(ctx *pulumi.Context) error {
		_, err := construct(ctx, "x", args)
		return err
	}
}

const (
	project = "example-project"
	node    = "x-node@example-project.iam.gserviceaccount.com"
	sandbox = "x-sandbox@example-project.iam.gserviceaccount.com"
	network = "projects/example-project/global/networks/x"
	subnet  = "projects/example-project/regions/r/subnetworks/x"
)

var clusterArgs = ClusterArgs{
	Name: "x", Project: project, Location: "us-central1", Zones: []string{"us-central1-a"},
	Network: pulumi.String(network), Subnet: pulumi.String(subnet), Account: node,
	FQDNPolicies: true, Channel: "REGULAR", Window: Window{"2026-01-03T02:00:00Z", "2026-01-03T08:00:00Z"},
	SecretsKey: "projects/p/locations/l/keyRings/r/cryptoKeys/k", Protected: true,
}

func perimeterArgs(enforced bool) PerimeterArgs {
	return PerimeterArgs{
		Policy: "123", Title: "x-y", ProjectNumber: "456", Services: []string{"container.googleapis.com", "storage.googleapis.com"},
		Operators: []string{"user:operator@example.com"}, Ranges: []string{"203.0.113.0/24"}, Enforced: enforced,
	}
}

func autopilotArgs() ClusterArgs {
	args := clusterArgs
	args.Autopilot, args.SecretsKey = true, ""
	return args
}

func firewallArgs(e Egress) FirewallArgs {
	return FirewallArgs{Network: pulumi.String(network), Own: []string{"10.10.0.0/20", "10.20.0.0/16"}, Egress: e}
}

// components are all of them, in every shape that they have.
var components = map[string]declaration{
	"services": {decl(NewServices, ServicesArgs{Project: project, Names: []string{"container.googleapis.com"}}), servicesWants},
	"network":  {decl(NewNetwork, NetworkArgs{Region: "r", Nodes: "10.10.0.0/20", Pods: "10.20.0.0/16", Services: "10.30.0.0/20"}), networkWants},
	"dns":      {decl(NewDNS, DNSArgs{Network: pulumi.String(network)}), dnsWants()},
	"firewall for https": {decl(NewFirewall, firewallArgs(EgressHTTPS)), slices.Concat(firewallWants, []want{
		{tFirewall, "x-egress-public", obj{"allows": []any{obj{"protocol": "tcp", "ports": texts("443")}}}, "public addresses are for HTTPS"},
	})},
	"firewall for all": {decl(NewFirewall, firewallArgs(EgressAll)), slices.Concat(firewallWants, []want{
		{tFirewall, "x-egress-public", obj{"allows": []any{obj{"protocol": "all"}}}, "this environment says that everything public may be reached"},
	})},
	"standard cluster":  {decl(NewCluster, clusterArgs), slices.Concat(clusterWants, standardWants)},
	"autopilot cluster": {decl(NewCluster, autopilotArgs()), slices.Concat(clusterWants, autopilotWants)},
	"pools": {decl(NewPools, PoolsArgs{
		Cluster: pulumi.String("c"), Project: project, Location: "us-central1", Account: node,
		System: PoolArgs{Machine: "e2-standard-4", Min: 1, Max: 3}, Sandbox: PoolArgs{Machine: "n2-standard-4", Max: 5}, PodPids: 1024,
	}), slices.Concat(poolWants("x-system", "system"), poolWants("x-sandbox", "sandbox"), sandboxPoolWants)},
	"node identity": {decl(NewNodeIdentity, NodeIdentityArgs{Project: project, Account: "x-node"}), nodeIdentityWants},
	"sandbox identity": {decl(NewSandboxIdentity, SandboxIdentityArgs{
		Project: project, Account: "x-sandbox", Roles: []string{"roles/monitoring.viewer"}, Issuer: "ns/issuer",
	}), sandboxIdentityWants},
	"registry":     {decl(NewRegistry, RegistryArgs{Project: project, Region: "us-central1", ID: "x", Reader: node}), registryWants},
	"image policy": {decl(NewImagePolicy, ImagePolicyArgs{Project: project, Registries: []string{"us-central1-docker.pkg.dev/example-project/x"}}), imageWants},
	"perimeter": {decl(NewPerimeter, perimeterArgs(true)), slices.Concat(perimeterWants("status"), []want{
		{tPerimeter, "x", obj{"spec": absent{}, "useExplicitDryRunSpec": false}, "it blocks"},
	})},
	"perimeter, dry run": {decl(NewPerimeter, perimeterArgs(false)), slices.Concat(perimeterWants("spec"), []want{
		{tPerimeter, "x", obj{"status": absent{}, "useExplicitDryRunSpec": true}, "it blocks nothing yet"},
	})},
}
