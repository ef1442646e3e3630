// SPDX-License-Identifier: Apache-2.0

package gke

import (
	"fmt"
	"strings"

	"github.com/pulumi/pulumi-gcp/sdk/v8/go/gcp/projects"
	"github.com/pulumi/pulumi-gcp/sdk/v8/go/gcp/serviceaccount"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/stockade-dev/stockade/infra/component"
)

// NodeRole is all that a node needs in its project: to write logs and metrics. The
// right to pull images is given by [NewRegistry], on the repository alone.
const NodeRole = "roles/container.defaultNodeServiceAccount"

// Email is that of a service account which a component here makes. It is known
// before the account is there, unlike the account's own output, so that a plan
// can be judged on it.
func Email(account, project string) string {
	return fmt.Sprintf("%s@%s.iam.gserviceaccount.com", account, project)
}

// WorkloadPool is the name under which a project's clusters vouch for their
// Pods.
func WorkloadPool(project string) string { return project + ".svc.id.goog" }

// NodeIdentityArgs name the account that nodes run as.
type NodeIdentityArgs struct {
	Project string
	// Account is the part before the @, 6 to 30 characters.
	Account string
	After   []pulumi.Resource
}

// NodeIdentity is what the nodes run as.
type NodeIdentity struct {
	pulumi.ResourceState
	component.Children
	Email string
}

// NewNodeIdentity declares an account with the least that a node needs, in place
// of Compute Engine's default one, which is an editor in many projects.
func NewNodeIdentity(ctx *pulumi.Context, name string, args NodeIdentityArgs, opts ...pulumi.ResourceOption) (*NodeIdentity, error) {
	n := &NodeIdentity{Email: Email(args.Account, args.Project)}
	if err := component.Register(ctx, "stockade:gke:NodeIdentity", name, n, opts...); err != nil {
		return nil, fmt.Errorf("declaring the nodes' identity: %w", err)
	}
	account, err := serviceaccount.NewAccount(ctx, name, &serviceaccount.AccountArgs{
		Project:     pulumi.String(args.Project),
		AccountId:   pulumi.String(args.Account),
		DisplayName: pulumi.String("Nodes of Stockade"),
	}, pulumi.Parent(n), component.After(args.After))
	if err != nil {
		return nil, fmt.Errorf("declaring the nodes' account: %w", err)
	}
	_, err = projects.NewIAMMember(ctx, name, &projects.IAMMemberArgs{
		Project: pulumi.String(args.Project),
		Role:    pulumi.String(NodeRole),
		Member:  pulumi.String("serviceAccount:" + n.Email),
	}, pulumi.Parent(n), pulumi.DependsOn([]pulumi.Resource{account}))
	if err != nil {
		return nil, fmt.Errorf("declaring the nodes' role: %w", err)
	}
	return n, ctx.RegisterResourceOutputs(n, pulumi.Map{"email": pulumi.String(n.Email)})
}

// SandboxIdentityArgs say whom the code in a sandbox acts as.
type SandboxIdentityArgs struct {
	Project string
	// Account is the part before the @, 6 to 30 characters.
	Account string
	// Roles are given in the project. None is the safe choice: the code can do
	// whatever its identity may.
	Roles []string
	// Issuer is the Kubernetes service account, as NAMESPACE/NAME, that hands out
	// short-lived tokens. The sandboxes' own must not be it.
	Issuer string
	// After must hold the cluster: the workload pool is there only when it is.
	After []pulumi.Resource
}

// SandboxIdentity is what sandboxed code acts as, one token a run.
type SandboxIdentity struct {
	pulumi.ResourceState
	component.Children
	Email string
}

// NewSandboxIdentity declares an account without keys that one Kubernetes
// service account may act as.
func NewSandboxIdentity(ctx *pulumi.Context, name string, args SandboxIdentityArgs, opts ...pulumi.ResourceOption) (*SandboxIdentity, error) {
	s := &SandboxIdentity{Email: Email(args.Account, args.Project)}
	if err := component.Register(ctx, "stockade:gke:SandboxIdentity", name, s, opts...); err != nil {
		return nil, fmt.Errorf("declaring the sandboxes' identity: %w", err)
	}
	account, err := serviceaccount.NewAccount(ctx, name, &serviceaccount.AccountArgs{
		Project:     pulumi.String(args.Project),
		AccountId:   pulumi.String(args.Account),
		DisplayName: pulumi.String("Code in sandboxes of Stockade"),
	}, pulumi.Parent(s), component.After(args.After))
	if err != nil {
		return nil, fmt.Errorf("declaring the sandboxes' account: %w", err)
	}
	after := pulumi.DependsOn([]pulumi.Resource{account})
	_, err = serviceaccount.NewIAMMember(ctx, name, &serviceaccount.IAMMemberArgs{
		ServiceAccountId: account.Name,
		Role:             pulumi.String("roles/iam.workloadIdentityUser"),
		Member:           pulumi.String(fmt.Sprintf("serviceAccount:%s[%s]", WorkloadPool(args.Project), args.Issuer)),
	}, pulumi.Parent(s), after)
	if err != nil {
		return nil, fmt.Errorf("declaring who acts as the sandboxes' account: %w", err)
	}
	for _, role := range args.Roles {
		_, err := projects.NewIAMMember(ctx, name+"-"+strings.ReplaceAll(strings.TrimPrefix(role, "roles/"), ".", "-"), &projects.IAMMemberArgs{
			Project: pulumi.String(args.Project),
			Role:    pulumi.String(role),
			Member:  pulumi.String("serviceAccount:" + s.Email),
		}, pulumi.Parent(s), after)
		if err != nil {
			return nil, fmt.Errorf("declaring the sandboxes' role %s: %w", role, err)
		}
	}
	return s, ctx.RegisterResourceOutputs(s, pulumi.Map{"email": pulumi.String(s.Email)})
}
