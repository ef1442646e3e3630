// SPDX-License-Identifier: Apache-2.0

//go:build cluster && linux

package e2e

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/stockade-dev/stockade/conformance/descriptor"
	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/overlays"
	"github.com/stockade-dev/stockade/scenarios/all"
)

// hole lets the sandboxes out to one address, which is nobody's (RFC 5737).
const hole = `{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "stockade-hole"},
 "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": [{"ipBlock": {"cidr": "192.0.2.7/32"}}]}]}}`

// TestQuestionsAreAnsweredByAClusterThatHasNothingOfOurs asks them as of a cluster on
// Google Cloud: from outside of the seal, by an endpoint and a kubeconfig, without
// range, witness, probe and control Pods. A weaker cluster has to answer otherwise.
func TestQuestionsAreAnsweredByAClusterThatHasNothingOfOurs(t *testing.T) {
	testenv.Test(t, features.New("questions").Assess("hold on the reference, and see a hole", func(ctx context.Context, t *testing.T, _ *envconf.Config) context.Context {
		r := call(t, nil, "place")
		require.Zero(t, r.code, r.stderr)
		kubeconfig := []byte(decode[struct {
			Kubeconfig string `json:"kubeconfig"`
		}](t, r.stdout).Kubeconfig)
		read, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
		require.NoError(t, err)
		at, err := url.Parse(read.Host)
		require.NoError(t, err)
		cloud := &descriptor.Cloud{Cluster: descriptor.CloudCluster{Name: "kind", Endpoint: at.Host}}
		config, err := cloud.Client(kubeconfig)
		require.NoError(t, err)

		profile, ok := suite.ProfileByID(suite.DefaultProfile)
		require.True(t, ok)
		var questions []*suite.Scenario
		for _, s := range profile.Of(all.Registry.All()) {
			if s.Question() {
				questions = append(questions, s)
			}
		}
		require.Greater(t, len(questions), 20)

		began := time.Now()
		outcomes := answers(ctx, t, config, questions)
		t.Logf("%d questions in %.1f s", len(outcomes), time.Since(began).Seconds())
		for id, v := range outcomes {
			assert.Equal(t, verdict.Held, v, id)
		}

		t.Cleanup(func() {
			r := kubectl(t, nil, "delete", "networkpolicy", "stockade-hole", "-n", overlays.ReferenceNamespace, "--ignore-not-found")
			assert.Zero(t, r.code, r.stderr)
		})
		r = kubectl(t, strings.NewReader(hole), "apply", "-n", overlays.ReferenceNamespace, "-f", "-")
		require.Zero(t, r.code, r.stderr)
		for id, v := range answers(ctx, t, config, questions) {
			want := verdict.Held
			if id == "sandbox.egress-policy" {
				want = verdict.Breached
			}
			assert.Equal(t, want, v, id)
		}
		return ctx
	}).Feature())
}

// answers asks, and returns the verdict of each scenario.
func answers(ctx context.Context, t *testing.T, config *rest.Config, questions []*suite.Scenario) map[string]verdict.Verdict {
	t.Helper()
	c, err := kube.NewForConfig(config)
	require.NoError(t, err)
	profile, _ := suite.ProfileByID(suite.DefaultProfile)
	ground, err := runner.NewKube(runner.KubeOptions{
		Client: c, Carrier: target.NewKube(c.Config, c.Clientset), Bare: true,
		Namespace: overlays.ReferenceNamespace, Pool: overlays.PoolName, Most: profile.Most,
	})
	require.NoError(t, err)
	cluster, err := ground.Cluster(ctx)
	require.NoError(t, err)
	run, err := runner.Execute(ctx, runner.Options{
		Ground: ground, Carrier: ground.Carrier(), Scenarios: questions, Profile: profile.ID, TargetName: "kind/reference",
		Cluster: cluster, LedgerDir: t.TempDir(), Declared: []suite.Feature{suite.GVisor, suite.Admission, suite.WarmPool, suite.PodSecurity},
	})
	require.NoError(t, err)
	assert.Empty(t, run.Residue)
	out := map[string]verdict.Verdict{}
	for _, o := range run.Outcomes {
		out[o.Scenario.ID] = o.Result.Verdict()
	}
	require.Len(t, out, len(questions))
	return out
}
