// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"encoding/json"
	"testing"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/descriptor"
	"github.com/stockade-dev/stockade/infra/gke/gketest"
)

// targetOf runs an environment and returns its target as a reader sees it.
func targetOf(t *testing.T, environment string, config map[string]string) map[string]any {
	t.Helper()
	done := make(chan string, 1)
	_, err := gketest.Record(func(ctx *pulumi.Context) error {
		e, err := newEnvironment(ctx, environment)
		if err != nil {
			return err
		}
		out := e.target().ToMapOutput()
		pulumi.All(out, pulumi.IsSecret(out)).ApplyT(func(v []any) (string, error) {
			if v[1] == true {
				return "", assert.AnError
			}
			doc, err := json.Marshal(v[0])
			done <- string(doc)
			return "", err
		})
		return nil
	}, gketest.Options{Stack: environment, Config: config})
	require.NoError(t, err)
	doc := []byte(<-done)
	_, err = descriptor.DecodeCloud(doc)
	require.NoError(t, err, "it is what `stockade run --questions --stack` reads")
	var target map[string]any
	require.NoError(t, json.Unmarshal(doc, &target))
	return target
}

func TestTheTargetSaysWhereTheSandboxesAre(t *testing.T) {
	target := targetOf(t, "gke", example(t, "gke"))
	assert.Equal(t, map[string]any{
		"project": "example-project", "location": "us-central1", "name": "stockade-gke", "endpoint": "gke-0123.example.gke.goog",
	}, target["cluster"])
	assert.Equal(t, map[string]any{"reference": map[string]any{"namespace": "sandboxes", "template": "budget-sandbox", "pool": "budget-pool"}}, target["targets"])
	assert.Equal(t, false, target["disruptive"])
	assert.Empty(t, target["egressAllow"])
	assert.NotContains(t, target, "identity", "sandboxed code acts as nobody")
}

func TestOnlyAThrowAwayTargetMayBeDisrupted(t *testing.T) {
	target := targetOf(t, "gke", with(t, "gke", map[string]string{"stockade:throwAway": "true"}))
	assert.Equal(t, true, target["disruptive"])
}

func TestTheTargetClaimsAPerimeterOnlyWhereItIsEnforced(t *testing.T) {
	for value, want := range map[string]bool{"false": false, "true": true} {
		target := targetOf(t, "gke-shared", with(t, "gke-shared", map[string]string{"stockade:perimeterEnforced": value}))
		assert.Equal(t, want, target["profile"].(map[string]any)["perimeter"])
	}
}

func TestTheAllowListIsWhatTheTextSaysAndWhatIsAdded(t *testing.T) {
	target := targetOf(t, "gke-shared", with(t, "gke-shared", map[string]string{"stockade:egressAllow": `["*.example.org"]`}))
	assert.Equal(t, []any{"*.googleapis.com", "*.us-central1.gke.goog", "modules.example.com", "*.example.org"}, target["egressAllow"])
}

func TestTheKubeconfigHoldsNoCredential(t *testing.T) {
	doc, err := kubeconfig("c", "gke-0123.example.gke.goog")
	require.NoError(t, err)
	assert.Contains(t, doc, `"server":"https://gke-0123.example.gke.goog"`)
	for _, word := range []string{"token", "client-key", "client-certificate", "password"} {
		assert.NotContains(t, doc, `"`+word)
	}
}
