// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/stockade-dev/stockade/infra/gke"
)

// gkeShared is the server for several users: egress by host name, an identity
// for snippets, and a perimeter around the project.
func gkeShared(ctx *pulumi.Context) error {
	e, err := newEnvironment(ctx, "gke-shared")
	if err != nil {
		return err
	}
	if err := e.pools(ctx); err != nil {
		return err
	}
	e.sandbox, err = gke.NewSandboxIdentity(ctx, e.Name+"-sandbox", gke.SandboxIdentityArgs{
		Project: e.Project, Account: e.Name + "-sandbox", Roles: e.SandboxRoles, Issuer: e.TokenIssuer, After: e.all,
	}, e.provider)
	if err != nil {
		return err
	}
	e.all = append(e.all, e.sandbox)
	perimeter, err := gke.NewPerimeter(ctx, e.Name, gke.PerimeterArgs{
		Policy: e.AccessPolicy, Title: e.Name, ProjectNumber: e.ProjectNumber, Services: gke.APIs,
		Operators: e.Operators, Ranges: e.OperatorRanges, Enforced: e.PerimeterEnforced, After: e.all,
	}, e.provider)
	if err != nil {
		return err
	}
	e.all = append(e.all, perimeter)
	if err := e.workloads(ctx); err != nil {
		return err
	}
	return e.finish(ctx)
}

// allowList are the hosts that snippets may reach on port 443. The control
// planes of the region are there because the text says so (KG-05): a snippet
// may work on another cluster as its own Google identity.
func (e *environment) allowList() []string {
	if !e.profile.AllowList {
		return nil
	}
	return append([]string{"*.googleapis.com", "*." + e.Region + ".gke.goog", e.GoModuleProxy}, e.EgressAllow...)
}
