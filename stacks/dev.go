// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"errors"
	"fmt"

	"github.com/pulumi/pulumi-kubernetes/sdk/v4/go/kubernetes"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi/config"

	"github.com/stockade-dev/stockade/infra/kind/cluster"
	"github.com/stockade-dev/stockade/overlays"
)

// devSettings are what Pulumi.dev.yaml may say; each has a default. The tag is
// the key after "stockade:".
type devSettings struct {
	// WarmPool is how many sandboxes of each template wait to be claimed, 1 to 8.
	// Default: 2; a scenario with a sibling waits for a cold start with less.
	WarmPool int `key:"warmPool"`
}

func readDevSettings(ctx *pulumi.Context) (devSettings, error) {
	r := &reader{cfg: config.New(ctx, namespace)}
	s := devSettings{WarmPool: r.number("warmPool", 2, 1, 8)}
	if err := errors.Join(r.errs...); err != nil {
		return devSettings{}, fmt.Errorf("reading the settings of dev: %w", err)
	}
	return s, nil
}

// dev is the sealed kind cluster of this machine, with the hardened reference,
// the seed's own template, the reference under the default policy, the
// playground, and the Pods that attacks are compared with.
func dev(ctx *pulumi.Context) error {
	s, err := readDevSettings(ctx)
	if err != nil {
		return err
	}
	place, err := cluster.New(ctx, "dev", &cluster.Args{})
	if err != nil {
		return err
	}
	k8s, err := kubernetes.NewProvider(ctx, "dev", &kubernetes.ProviderArgs{
		Kubeconfig: place.Kubeconfig,
		// The gate may get another port; only another cluster is another.
		ClusterIdentifier: place.UID,
		// Everything in a throw-away cluster has gone when it has.
		DeleteUnreachable: pulumi.Bool(true),
	}, pulumi.DeletedWith(place))
	if err != nil {
		return fmt.Errorf("declaring the Kubernetes provider: %w", err)
	}
	_, err = deploy(ctx, []workload{
		{name: "agent-sandbox-system", overlay: overlays.System},
		{name: "controls", overlay: overlays.Controls},
		{name: "reference", overlay: overlays.Reference, change: warm(s.WarmPool)},
		{name: "seed", overlay: overlays.Seed, change: warm(s.WarmPool)},
		{name: "default", overlay: overlays.Default, change: warm(s.WarmPool)},
		{name: "playground", overlay: overlays.Playground},
	}, place, pulumi.Providers(k8s))
	if err != nil {
		return err
	}
	// What `stockade run --stack` reads.
	ctx.Export("target", place.Descriptor)
	ctx.Export("kubeconfig", pulumi.ToSecret(place.Kubeconfig))
	return nil
}
