// SPDX-License-Identifier: Apache-2.0

package descriptor

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const cloudTarget = `{"apiVersion": "stockade.dev/v1alpha1", "kind": "CloudTarget", "cluster": {"name": "c", "endpoint": "c.example"},
 "features": ["gvisor"], "targets": {"reference": {"namespace": "n", "template": "t", "pool": "p"}}}`

func TestAnEnvironmentOnGoogleCloudIsRead(t *testing.T) {
	assert.True(t, IsCloud([]byte(cloudTarget)))
	c, err := DecodeCloud([]byte(cloudTarget))
	require.NoError(t, err)
	assert.Equal(t, "c.example", c.Cluster.Endpoint)
	assert.Equal(t, "p", c.Targets["reference"].Pool)
	for name, doc := range map[string]string{
		"a target of this machine": `{"apiVersion": "stockade.dev/v1alpha1", "kind": "Target"}`,
		"no endpoint":              `{"apiVersion": "stockade.dev/v1alpha1", "kind": "CloudTarget", "targets": {"r": {"namespace": "n", "template": "t", "pool": "p"}}}`,
		"no target":                `{"apiVersion": "stockade.dev/v1alpha1", "kind": "CloudTarget", "cluster": {"endpoint": "c.example"}}`,
		"half a target":            `{"apiVersion": "stockade.dev/v1alpha1", "kind": "CloudTarget", "cluster": {"endpoint": "c.example"}, "targets": {"r": {"namespace": "n"}}}`,
		"a typo":                   `{"apiVersion": "stockade.dev/v1alpha1", "kind": "CloudTarget", "clutser": {}}`,
	} {
		_, err := DecodeCloud([]byte(doc))
		assert.Error(t, err, name)
	}
}

func TestAKubeconfigMustLeadToTheClusterOfTheStack(t *testing.T) {
	c, err := DecodeCloud([]byte(cloudTarget))
	require.NoError(t, err)
	lead := func(cluster string) error {
		_, err := c.Client(fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Config", "current-context": "x", "clusters": [{"name": "x", "cluster": {%s}}],
 "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}], "users": [{"name": "x", "user": {}}]}`, cluster))
		return err
	}
	require.NoError(t, lead(`"server": "https://c.example"`))
	for _, cluster := range []string{
		`"server": "https://other.example"`, `"server": "https://c.example.other.example"`, `"server": "https://c.example@other.example"`,
		`"server": "http://c.example"`, `"server": "https://c.example", "insecure-skip-tls-verify": true`, ``,
	} {
		assert.Error(t, lead(cluster), cluster)
	}
	_, err = c.Client([]byte("{"))
	assert.ErrorContains(t, err, "kubeconfig")
}
