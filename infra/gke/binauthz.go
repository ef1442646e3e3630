// SPDX-License-Identifier: Apache-2.0

package gke

import (
	"fmt"

	"github.com/pulumi/pulumi-gcp/sdk/v8/go/gcp/binaryauthorization"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/stockade-dev/stockade/infra/component"
)

// ImagePolicyArgs say which images may run.
type ImagePolicyArgs struct {
	Project string
	// Registries are those whose images may run, HOST/PROJECT/REPOSITORY.
	Registries []string
	After      []pulumi.Resource
}

// ImagePolicy is the project's Binary Authorization policy.
type ImagePolicy struct {
	pulumi.ResourceState
	component.Children
}

// NewImagePolicy declares the policy. A project has exactly one, so two
// environments need two projects: the one that is applied last would win.
func NewImagePolicy(ctx *pulumi.Context, name string, args ImagePolicyArgs, opts ...pulumi.ResourceOption) (*ImagePolicy, error) {
	p := &ImagePolicy{}
	if err := component.Register(ctx, "stockade:gke:ImagePolicy", name, p, opts...); err != nil {
		return nil, fmt.Errorf("declaring the image policy: %w", err)
	}
	patterns := binaryauthorization.PolicyAdmissionWhitelistPatternArray{}
	for _, r := range args.Registries {
		// ** is every image below, * only those of one level.
		patterns = append(patterns, binaryauthorization.PolicyAdmissionWhitelistPatternArgs{NamePattern: pulumi.String(r + "/**")})
	}
	_, err := binaryauthorization.NewPolicy(ctx, name, &binaryauthorization.PolicyArgs{
		Project: pulumi.String(args.Project),
		// GKE's own Pods are Google's to vouch for.
		GlobalPolicyEvaluationMode: pulumi.String("ENABLE"),
		DefaultAdmissionRule: binaryauthorization.PolicyDefaultAdmissionRuleArgs{
			EvaluationMode:  pulumi.String("ALWAYS_DENY"),
			EnforcementMode: pulumi.String("ENFORCED_BLOCK_AND_AUDIT_LOG"),
		},
		AdmissionWhitelistPatterns: patterns,
	}, pulumi.Parent(p), component.After(args.After))
	if err != nil {
		return nil, fmt.Errorf("declaring the Binary Authorization policy: %w", err)
	}
	return p, ctx.RegisterResourceOutputs(p, pulumi.Map{})
}
