// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/plan"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/infra/gke/gketest"
)

// withImages are the values of a stack whose registry holds the images.
func withImages(t *testing.T, stack string) map[string]string {
	t.Helper()
	config := enforced(t, stack)
	digest := "@sha256:" + strings.Repeat("0123456789abcdef", 4)
	registry := config["stockade:region"] + "-docker.pkg.dev/" + config["stockade:project"] + "/stockade-" + stack + "/"
	config["stockade:controllerImage"] = registry + "controller" + digest
	config["stockade:sandboxImage"] = registry + "sandbox" + digest
	return config
}

func inCluster(all []gketest.Resource) (out []gketest.Resource) {
	for _, r := range all {
		if strings.HasPrefix(r.Type, "kubernetes:") {
			out = append(out, r)
		}
	}
	return out
}

func TestNothingIsDeployedBeforeTheRegistryHoldsTheImages(t *testing.T) {
	for _, stack := range clouds {
		assert.Empty(t, inCluster(record(t, stack, enforced(t, stack), false)), stack)
	}
}

func TestWhatRunsInTheClusterKeepsEveryRuleToo(t *testing.T) {
	for _, stack := range clouds {
		all := record(t, stack, withImages(t, stack), false)
		require.NotEmpty(t, inCluster(all), stack)
		p := plan.Profiles[stack]
		p.Workloads = true
		for _, f := range plan.Check(graph(all), p, at) {
			want := verdict.Held
			if !f.Rule.Concerns(p) {
				want = verdict.NotApplicable
			}
			assert.Equal(t, want, f.Result.Verdict(), "%s: %s: %s %s", stack, f.Rule.ID, f.Result.Reason(), f.Result.Detail())
		}
		one(t, all, "kubernetes:extensions.agents.x-k8s.io/v1beta1:SandboxTemplate")
	}
}

func TestTheAllowListIsThereBeforeASandboxIs(t *testing.T) {
	all := record(t, "gke-shared", withImages(t, "gke-shared"), false)
	list := one(t, all, "kubernetes:networking.gke.io/v1alpha1:FQDNNetworkPolicy")
	pool := one(t, all, "kubernetes:extensions.agents.x-k8s.io/v1beta1:SandboxWarmPool")
	assert.Contains(t, before(all, pool), list.Name)
	for _, stack := range []string{"gke", "gke-autopilot"} {
		for _, r := range record(t, stack, withImages(t, stack), false) {
			assert.NotEqual(t, "kubernetes:networking.gke.io/v1alpha1:FQDNNetworkPolicy", r.Type, stack)
		}
	}
}

// The Kubernetes provider makes its objects again where this is another one, and
// leaves them where it is not, even if it is led elsewhere.
func TestObjectsOfAReplacedClusterAreNotTakenForThoseOfTheNext(t *testing.T) {
	for _, stack := range clouds {
		provider := one(t, record(t, stack, withImages(t, stack), false), "pulumi:providers:kubernetes")
		assert.Equal(t, "gke-0123.example.gke.goog", provider.Inputs["clusterIdentifier"], stack)
	}
}

func TestHalfOfTheImagesIsAnErrorThatNamesTheKey(t *testing.T) {
	config := withImages(t, "gke")
	delete(config, "stockade:sandboxImage")
	_, err := settingsOf(t, "gke", config)
	assert.ErrorContains(t, err, "stockade:sandboxImage")
	for _, image := range []string{
		"us-central1-docker.pkg.dev/example-project/stockade-gke/sandbox:latest",
		strings.Replace(config["stockade:controllerImage"], "example-project", "another-project", 1),
		strings.Replace(config["stockade:controllerImage"], "us-central1-", "us-", 1),
	} {
		config["stockade:sandboxImage"] = image
		_, err = settingsOf(t, "gke", config)
		require.Error(t, err, image)
		assert.Contains(t, err.Error(), "stockade:sandboxImage is")
		assert.Contains(t, err.Error(), "in the stack's registry by its digest, us-central1-docker.pkg.dev/example-project/stockade-gke/")
	}
}
