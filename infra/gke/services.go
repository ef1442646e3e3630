// SPDX-License-Identifier: Apache-2.0

package gke

import (
	"fmt"
	"strings"

	"github.com/pulumi/pulumi-gcp/sdk/v8/go/gcp/projects"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/stockade-dev/stockade/infra/component"
)

// APIs are the services that the components of this package call, and the one that
// shows what the security posture of a cluster is (see [NewCluster]). Each is among
// those that VPC Service Controls can restrict. Access Context Manager is not,
// so it is switched on by hand (docs/gke.md), and only where there is a
// perimeter.
var APIs = []string{
	"artifactregistry.googleapis.com",
	"binaryauthorization.googleapis.com",
	"cloudresourcemanager.googleapis.com",
	"compute.googleapis.com",
	"container.googleapis.com",
	"containersecurity.googleapis.com",
	"dns.googleapis.com",
	"iam.googleapis.com",
	"iamcredentials.googleapis.com",
	"logging.googleapis.com",
	"monitoring.googleapis.com",
}

// ServicesArgs say what to switch on.
type ServicesArgs struct {
	Project string
	Names   []string
}

// Services are the project's APIs that are on.
type Services struct {
	pulumi.ResourceState
	component.Children
}

// NewServices switches APIs on. They stay on when the stack goes: others in the
// project may have come to need them.
func NewServices(ctx *pulumi.Context, name string, args ServicesArgs, opts ...pulumi.ResourceOption) (*Services, error) {
	s := &Services{}
	if err := component.Register(ctx, "stockade:gke:Services", name, s, opts...); err != nil {
		return nil, fmt.Errorf("declaring the APIs: %w", err)
	}
	for _, api := range args.Names {
		short, _, _ := strings.Cut(api, ".")
		_, err := projects.NewService(ctx, name+"-"+short, &projects.ServiceArgs{
			Project:          pulumi.String(args.Project),
			Service:          pulumi.String(api),
			DisableOnDestroy: pulumi.Bool(false),
		}, pulumi.Parent(s))
		if err != nil {
			return nil, fmt.Errorf("declaring the API %s: %w", api, err)
		}
	}
	return s, ctx.RegisterResourceOutputs(s, pulumi.Map{})
}
