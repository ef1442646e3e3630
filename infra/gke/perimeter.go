// SPDX-License-Identifier: Apache-2.0

package gke

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pulumi/pulumi-gcp/sdk/v8/go/gcp/accesscontextmanager"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/stockade-dev/stockade/infra/component"
)

// guarded are restricted whether or not the project itself uses them. Most carry data
// out of a project for anybody who has an account of his own; two hand out identities;
// and the last two are those without which Google does not call GKE's own API, or its
// environment, protected. Being restricted also keeps them within reach: the network
// reaches no other service of Google (see [NewPerimeter]), and without those of
// identities Workload Identity has no token for any Pod.
// https://docs.cloud.google.com/vpc-service-controls/docs/supported-products
var guarded = []string{
	"aiplatform.googleapis.com",
	"artifactregistry.googleapis.com",
	"bigquery.googleapis.com",
	"bigquerydatatransfer.googleapis.com",
	"bigtable.googleapis.com",
	"cloudbuild.googleapis.com",
	"cloudfunctions.googleapis.com",
	"firestore.googleapis.com",
	"logging.googleapis.com",
	"monitoring.googleapis.com",
	"pubsub.googleapis.com",
	"run.googleapis.com",
	"secretmanager.googleapis.com",
	"spanner.googleapis.com",
	"storage.googleapis.com",
	"storagetransfer.googleapis.com",

	"iamcredentials.googleapis.com",
	"sts.googleapis.com",

	"autoscaling.googleapis.com",
	"kubernetesmetadata.googleapis.com",
}

// PerimeterArgs say what VPC Service Controls guard, and who may come in.
type PerimeterArgs struct {
	// Policy is the number of the organization's access policy.
	Policy string
	// Title names the perimeter; it is unique within the policy.
	Title string
	// ProjectNumber is the number, not the id, of the project inside.
	ProjectNumber string
	// Services are those that the project uses. They are restricted, and so are
	// those that carry data out for everybody, those that hand out identities, and
	// those that GKE stands on.
	Services []string
	// Operators are who may call from outside, as user:… or serviceAccount:…, and
	// Ranges where from: both must fit. Without them, an enforced perimeter would
	// shut out the next `pulumi up`.
	Operators []string
	Ranges    []string
	// Enforced blocks. Otherwise the perimeter is a dry run, which only logs.
	Enforced bool
	// After should hold all there is: a perimeter that comes earlier could stop
	// the rest from being made.
	After []pulumi.Resource
}

// Perimeter keeps the project's data from other projects.
type Perimeter struct {
	pulumi.ResourceState
	component.Children
}

// NewPerimeter declares the perimeter with no door but that of the operators. It
// is the same in a dry run, so that what the dry run's log is silent about is
// what will work.
func NewPerimeter(ctx *pulumi.Context, name string, args PerimeterArgs, opts ...pulumi.ResourceOption) (*Perimeter, error) {
	p := &Perimeter{}
	if err := component.Register(ctx, "stockade:gke:Perimeter", name, p, opts...); err != nil {
		return nil, fmt.Errorf("declaring the perimeter: %w", err)
	}
	parent := "accessPolicies/" + args.Policy
	// Names here take letters, digits and _ alone.
	short := strings.ReplaceAll(args.Title, "-", "_")
	level := parent + "/accessLevels/" + short + "_operators"
	operators, err := accesscontextmanager.NewAccessLevel(ctx, name+"-operators", &accesscontextmanager.AccessLevelArgs{
		Parent: pulumi.String(parent),
		Name:   pulumi.String(level),
		Title:  pulumi.String(args.Title + " operators"),
		Basic: accesscontextmanager.AccessLevelBasicArgs{
			CombiningFunction: pulumi.String("AND"),
			// In one condition all must fit.
			Conditions: accesscontextmanager.AccessLevelBasicConditionArray{accesscontextmanager.AccessLevelBasicConditionArgs{
				Members:       pulumi.ToStringArray(args.Operators),
				IpSubnetworks: pulumi.ToStringArray(args.Ranges),
			}},
		},
	}, pulumi.Parent(p))
	if err != nil {
		return nil, fmt.Errorf("declaring the operators' access level: %w", err)
	}

	restricted := slices.Concat(args.Services, guarded)
	slices.Sort(restricted)
	var (
		resources = pulumi.ToStringArray([]string{"projects/" + args.ProjectNumber})
		services  = pulumi.ToStringArray(slices.Compact(restricted))
		levels    = pulumi.ToStringArray([]string{level})
		// The network reaches what is restricted, and no other service of Google.
		reachable = pulumi.ToStringArray([]string{"RESTRICTED-SERVICES"})
	)
	in := &accesscontextmanager.ServicePerimeterArgs{
		Parent:                pulumi.String(parent),
		Name:                  pulumi.String(parent + "/servicePerimeters/" + short),
		Title:                 pulumi.String(args.Title),
		PerimeterType:         pulumi.String("PERIMETER_TYPE_REGULAR"),
		UseExplicitDryRunSpec: pulumi.Bool(!args.Enforced),
	}
	if args.Enforced {
		in.Status = accesscontextmanager.ServicePerimeterStatusArgs{
			Resources: resources, RestrictedServices: services, AccessLevels: levels,
			VpcAccessibleServices: accesscontextmanager.ServicePerimeterStatusVpcAccessibleServicesArgs{
				EnableRestriction: pulumi.Bool(true), AllowedServices: reachable,
			},
		}
	} else {
		in.Spec = accesscontextmanager.ServicePerimeterSpecArgs{
			Resources: resources, RestrictedServices: services, AccessLevels: levels,
			VpcAccessibleServices: accesscontextmanager.ServicePerimeterSpecVpcAccessibleServicesArgs{
				EnableRestriction: pulumi.Bool(true), AllowedServices: reachable,
			},
		}
	}
	_, err = accesscontextmanager.NewServicePerimeter(ctx, name, in, pulumi.Parent(p), component.After(slices.Concat(args.After, []pulumi.Resource{operators})))
	if err != nil {
		return nil, fmt.Errorf("declaring the service perimeter: %w", err)
	}
	return p, ctx.RegisterResourceOutputs(p, pulumi.Map{})
}
