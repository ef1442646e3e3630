// SPDX-License-Identifier: Apache-2.0

package gke

import (
	"fmt"

	"github.com/pulumi/pulumi-gcp/sdk/v8/go/gcp/artifactregistry"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/stockade-dev/stockade/infra/component"
)

// RegistryArgs say where images are kept and who may pull them.
type RegistryArgs struct {
	Project string
	Region  string
	// ID is the repository's name.
	ID string
	// Reader is the e-mail address of the service account that pulls.
	Reader string
	// After must hold the reader's account.
	After []pulumi.Resource
}

// Registry is the one place that images come from.
type Registry struct {
	pulumi.ResourceState
	component.Children
	// URL is where images are named below, REGION-docker.pkg.dev/PROJECT/ID.
	URL string
}

// NewRegistry declares a repository of images whose tags cannot move. Its reader
// may read this repository alone, not every one of the project.
func NewRegistry(ctx *pulumi.Context, name string, args RegistryArgs, opts ...pulumi.ResourceOption) (*Registry, error) {
	r := &Registry{URL: fmt.Sprintf("%s-docker.pkg.dev/%s/%s", args.Region, args.Project, args.ID)}
	if err := component.Register(ctx, "stockade:gke:Registry", name, r, opts...); err != nil {
		return nil, fmt.Errorf("declaring the registry: %w", err)
	}
	repository, err := artifactregistry.NewRepository(ctx, name, &artifactregistry.RepositoryArgs{
		Project:      pulumi.String(args.Project),
		Location:     pulumi.String(args.Region),
		RepositoryId: pulumi.String(args.ID),
		Format:       pulumi.String("DOCKER"),
		DockerConfig: artifactregistry.RepositoryDockerConfigArgs{ImmutableTags: pulumi.Bool(true)},
	}, pulumi.Parent(r), component.After(args.After))
	if err != nil {
		return nil, fmt.Errorf("declaring the repository: %w", err)
	}
	_, err = artifactregistry.NewRepositoryIamMember(ctx, name, &artifactregistry.RepositoryIamMemberArgs{
		Project:    pulumi.String(args.Project),
		Location:   pulumi.String(args.Region),
		Repository: repository.Name,
		Role:       pulumi.String("roles/artifactregistry.reader"),
		Member:     pulumi.String("serviceAccount:" + args.Reader),
	}, pulumi.Parent(r))
	if err != nil {
		return nil, fmt.Errorf("declaring the repository's reader: %w", err)
	}
	return r, ctx.RegisterResourceOutputs(r, pulumi.Map{"url": pulumi.String(r.URL)})
}
