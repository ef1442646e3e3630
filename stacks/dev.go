// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"context"
	"errors"
	"fmt"

	"github.com/pulumi/pulumi-kubernetes/sdk/v4/go/kubernetes"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi/config"

	"github.com/stockade-dev/stockade/infra/kind/cluster"
	"github.com/stockade-dev/stockade/infra/node"
	"github.com/stockade-dev/stockade/overlays"
	"github.com/stockade-dev/stockade/workloads/gateway"
)

// devSettings are what Pulumi.dev.yaml may say; each has a default. The tag is
// the key after "stockade:".
type devSettings struct {
	// WarmPool is how many sandboxes of each of Agent Sandbox's own templates wait
	// to be claimed, 1 to 8. Default: 2; a scenario with a sibling waits for a cold
	// start with less.
	WarmPool int `key:"warmPool"`
	// Profiles are those whose systems are deployed; "all" stands for every one.
	// Default: agent-sandbox.
	Profiles []string `key:"profiles"`

	parts []overlays.Part
}

func readDevSettings(ctx *pulumi.Context) (devSettings, error) {
	r := &reader{cfg: config.New(ctx, namespace)}
	s := devSettings{WarmPool: r.number("warmPool", 2, 1, 8), Profiles: r.list("profiles", false)}
	if len(s.Profiles) == 0 {
		s.Profiles = []string{overlays.DefaultProfile} // to say so is no change
	}
	var err error
	if s.parts, err = overlays.Parts(s.Profiles...); err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s:profiles: %w", namespace, err))
	}
	if err := errors.Join(r.errs...); err != nil {
		return devSettings{}, fmt.Errorf("reading the settings of dev: %w", err)
	}
	return s, nil
}

// dev is the sealed kind cluster of this machine, with the systems of the chosen
// profiles, and the Pods that attacks are compared with.
func dev(ctx *pulumi.Context) error {
	s, err := readDevSettings(ctx)
	if err != nil {
		return err
	}
	args, err := s.clusterArgs()
	if err != nil {
		return err
	}
	place, err := cluster.New(ctx, "dev", args)
	if err != nil {
		return err
	}
	k8s, err := kubernetes.NewProvider(ctx, "dev", &kubernetes.ProviderArgs{
		Kubeconfig: place.Kubeconfig,
		// The gate may get another port; only another cluster is another.
		ClusterIdentifier: place.UID,
		// Everything in a throw-away cluster has gone when it has.
		DeleteUnreachable: pulumi.Bool(true),
		// Else the provider deletes what has other data and makes it anew: a Pod that
		// starts in between waits for it, and after an update that was interrupted there
		// it waits for good. Pods that must start again are told so by [overlays.Pin].
		EnableConfigMapMutable: pulumi.Bool(true),
		EnableSecretMutable:    pulumi.Bool(true),
	}, pulumi.DeletedWith(place))
	if err != nil {
		return fmt.Errorf("declaring the Kubernetes provider: %w", err)
	}
	all, err := s.workloads(ctx.Context(), place)
	if err != nil {
		return err
	}
	if _, err = deploy(ctx, all, place, pulumi.Providers(k8s)); err != nil {
		return err
	}
	// What `stockade run --stack` reads.
	ctx.Export("target", place.Descriptor)
	ctx.Export("kubeconfig", pulumi.ToSecret(place.Kubeconfig))
	return nil
}

// workloads are the parts of the chosen profiles, each with what is known of it here
// alone.
func (s devSettings) workloads(ctx context.Context, place *cluster.Cluster) ([]workload, error) {
	settings, err := kodeGopher(ctx)
	if err != nil {
		return nil, err
	}
	trust := place.RangeCA.ApplyT(trusted)
	known := pulumi.All(place.Tokens, place.SignerKeys).ApplyT(known) // a secret, as what it comes from
	how := map[string]workload{
		overlays.Reference: {change: warm(s.WarmPool)},
		overlays.Seed:      {change: warm(s.WarmPool)},
		overlays.Default:   {change: warm(s.WarmPool)},
		overlays.KodeGopherDev: {change: settings.Local, fill: map[string]pulumi.Map{
			"ConfigMap/" + overlays.KodeGopherTrust: {"data": trust},
		}},
		overlays.KodeGopherSharedDev: {change: settings.Shared, fill: map[string]pulumi.Map{
			"ConfigMap/" + overlays.KodeGopherTrust: {"data": trust},
			"Secret/" + overlays.KodeGopherName:     {"data": known},
		}},
	}
	var all []workload
	for _, p := range s.parts {
		w := how[p.Overlay]
		w.name, w.overlay, w.free = p.Name, p.Overlay, p.Free
		all = append(all, w)
	}
	return all, nil
}

// clusterArgs are the cluster that is wanted. Another node image makes another cluster, and
// newer programs come into the one that stands: nobody is to attack what was built
// before.
func (s devSettings) clusterArgs() (*cluster.Args, error) {
	home, err := node.DefaultHome()
	if err != nil {
		return nil, err
	}
	last, err := node.LastBuild(home)
	if err != nil {
		return nil, err
	}
	args := &cluster.Args{Profiles: pulumi.ToStringArray(s.Profiles), Programs: pulumi.ToStringArray(last.Archives)}
	if last.NodeTag != "" {
		args.Inputs = pulumi.String(last.NodeTag)
	}
	return args, nil
}

// kodeGopher are the settings that are known when the stack is planned: where
// modules come from on this machine, which the range plays. The others are the
// cluster's.
func kodeGopher(ctx context.Context) (s overlays.KodeGopherSettings, err error) {
	list, err := node.GoProxy(ctx)
	if err != nil {
		return s, err
	}
	if s.GoProxy, _, err = gateway.Proxies(list); err != nil {
		return s, fmt.Errorf("%w; set %s to another one, or to off", err, node.GoProxyEnv)
	}
	s.SignIn = overlays.DevSignIn
	s.Hosts, err = gateway.Egress{GoProxy: s.GoProxy}.Hosts()
	return s, err
}

// trusted and known are the data of the objects that the cluster's own outputs
// fill.
func trusted(ca string) map[string]any {
	return map[string]any{overlays.KodeGopherTrustKey: ca}
}

func known(all []any) map[string]any {
	return overlays.KodeGopherSecret(all[0].(string), all[1].(string))
}
