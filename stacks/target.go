// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"encoding/json"
	"fmt"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/stockade-dev/stockade/conformance/descriptor"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/infra/gke"
	"github.com/stockade-dev/stockade/overlays"
)

// finish comes after everything else: the guard, and the outputs.
func (e *environment) finish(ctx *pulumi.Context) error {
	_, err := gke.NewGuard(ctx, e.Name, gke.GuardArgs{All: e.all, Protected: !e.ThrowAway})
	if err != nil {
		return err
	}
	e.export(ctx)
	return nil
}

// export makes the stack's outputs. None is a secret: who may use them is for
// IAM to say, at the moment of use.
func (e *environment) export(ctx *pulumi.Context) {
	// target is what `stockade run --stack` reads.
	ctx.Export("target", e.target())
	// kubeconfig leads to the cluster for whoever IAM lets in.
	ctx.Export("kubeconfig", e.cluster.Endpoint.ApplyT(func(endpoint string) (string, error) {
		return kubeconfig(e.Name, endpoint)
	}))
}

// target describes the environment: where it is, what it claims, and what of it
// the suite may attack.
func (e *environment) target() pulumi.Map {
	pool := func(namespace string) pulumi.Map {
		return pulumi.Map{
			"namespace": pulumi.String(namespace),
			"template":  pulumi.String(overlays.TemplateName),
			"pool":      pulumi.String(overlays.PoolName),
		}
	}
	out := pulumi.Map{
		"apiVersion": pulumi.String(descriptor.APIVersion),
		"kind":       pulumi.String(descriptor.CloudKind),
		"profile": pulumi.Map{
			"name":      pulumi.String(e.profile.Name),
			"autopilot": pulumi.Bool(e.profile.Autopilot),
			"allowList": pulumi.Bool(e.profile.AllowList),
			// A dry run is no perimeter yet: until it is enforced, KG-12 is a limit.
			"perimeter": pulumi.Bool(e.profile.Perimeter && e.PerimeterEnforced),
			"throwAway": pulumi.Bool(e.profile.ThrowAway),
		},
		"cluster": pulumi.Map{
			"project":  pulumi.String(e.Project),
			"location": pulumi.String(e.Region),
			"name":     e.cluster.Name,
			"endpoint": e.cluster.Endpoint,
		},
		"registry": pulumi.String(e.registry.URL),
		"targets":  pulumi.Map{"reference": pool(overlays.ReferenceNamespace)},
		"controls": pulumi.String(overlays.ControlsNamespace),
		"features": pulumi.ToStringArray([]string{string(suite.GVisor), string(suite.Admission), string(suite.WarmPool)}),
		// Attacks that load or kill are for clusters that nobody misses.
		"disruptive":  pulumi.Bool(e.ThrowAway),
		"egressAllow": pulumi.ToStringArray(e.allowList()),
	}
	if e.sandbox != nil {
		out["identity"] = pulumi.Map{"email": pulumi.String(e.sandbox.Email), "issuer": pulumi.String(e.TokenIssuer)}
	}
	return out
}

// kubeconfig is a client's configuration for the DNS endpoint. The certificate
// there is one of Google's public ones, and the credentials are fetched by a
// plugin when they are needed, so the file holds nothing to steal.
func kubeconfig(name, endpoint string) (string, error) {
	type obj = map[string]any
	doc, err := json.Marshal(obj{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []obj{{"name": name, "cluster": obj{"server": "https://" + endpoint}}},
		"contexts": []obj{{"name": name, "context": obj{"cluster": name, "user": name}}},
		"users": []obj{{"name": name, "user": obj{"exec": obj{
			"apiVersion": "client.authentication.k8s.io/v1", "command": "gke-gcloud-auth-plugin",
			"interactiveMode": "Never", "provideClusterInfo": true,
			"installHint": "gcloud components install gke-gcloud-auth-plugin",
		}}}},
	})
	if err != nil {
		return "", fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return string(doc), nil
}
