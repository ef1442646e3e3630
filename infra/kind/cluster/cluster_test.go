// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/stockade-dev/stockade/infra/kind/cluster"
	"github.com/stockade-dev/stockade/infra/kind/provider"
)

// engine answers as the plugin would.
type engine struct{ asked []pulumi.MockResourceArgs }

func (e *engine) NewResource(a pulumi.MockResourceArgs) (string, resource.PropertyMap, error) {
	e.asked = append(e.asked, a)
	out := maps.Clone(a.Inputs)
	for k, v := range map[resource.PropertyKey]any{
		"name": "stockade", "uid": "u", "healthy": true, "reason": "", "nodes": []any{"n1", "n2"}, "kubernetesVersion": "v1.36.3",
		"kubeconfig": "made: up", "seal": "stockade", "descriptor": map[string]any{"disruptive": true},
		"images": map[string]any{"probe:dev": "probe@sha256:0"},
		"tokens": "made sha256:up\n", "signerKeys": "{}", "rangeCA": "PEM",
	} {
		out[k] = resource.NewPropertyValue(v)
	}
	return "u", out, nil
}

func (e *engine) Call(pulumi.MockCallArgs) (resource.PropertyMap, error) { return nil, nil }

func TestTheTypeIsThePlugins(t *testing.T) {
	assert.Equal(t, provider.Type, cluster.Type)
}

func TestAProgramLearnsWhereTheClusterIs(t *testing.T) {
	e := &engine{}
	seen := map[string]any{}
	require.NoError(t, pulumi.RunErr(func(ctx *pulumi.Context) error {
		c, err := cluster.New(ctx, "dev", &cluster.Args{Home: pulumi.String("/h"), Inputs: pulumi.String("1")})
		if err != nil {
			return err
		}
		ctx.Export("seen", pulumi.All(c.UID, c.Healthy, c.Nodes, c.Descriptor, c.Kubeconfig, c.KubernetesVersion, c.Seal, c.Name, c.Reason, c.Images, c.Tokens, c.SignerKeys, c.RangeCA).
			ApplyT(func(v []any) string {
				for i, k := range []string{"uid", "healthy", "nodes", "descriptor", "kubeconfig", "version", "seal", "name", "reason", "images", "tokens", "signerKeys", "rangeCA"} {
					seen[k] = v[i]
				}
				return ""
			}))
		return nil
	}, pulumi.WithMocks("stockade", "dev", e)))

	require.Len(t, e.asked, 1)
	a := e.asked[0]
	assert.Equal(t, "stockade:kind:Cluster", a.TypeToken)
	assert.Equal(t, "/h", a.Inputs["home"].StringValue())
	assert.Equal(t, "1", a.Inputs["inputs"].StringValue())
	assert.Equal(t, []string{"kubeconfig", "tokens"}, a.RegisterRPC.GetAdditionalSecretOutputs())
	assert.Equal(t, map[string]any{
		"uid": "u", "healthy": true, "nodes": []string{"n1", "n2"}, "descriptor": map[string]any{"disruptive": true},
		"kubeconfig": "made: up", "version": "v1.36.3", "seal": "stockade", "name": "stockade", "reason": "",
		"images": map[string]string{"probe:dev": "probe@sha256:0"},
		"tokens": "made sha256:up\n", "signerKeys": "{}", "rangeCA": "PEM",
	}, seen)
}

func TestNothingHasToBeSaid(t *testing.T) {
	e := &engine{}
	require.NoError(t, pulumi.RunErr(func(ctx *pulumi.Context) error {
		_, err := cluster.New(ctx, "dev", nil)
		return err
	}, pulumi.WithMocks("stockade", "dev", e)))
	assert.NotContains(t, e.asked[0].Inputs, resource.PropertyKey("home"))
}
