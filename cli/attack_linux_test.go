// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/stockade-dev/stockade/conformance/descriptor"
	"github.com/stockade-dev/stockade/conformance/prove"
	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/infra/node"
	"github.com/stockade-dev/stockade/overlays"
	"github.com/stockade-dev/stockade/scenarios/all"
)

func TestEnforcementIsAskedOfTheTargetsThatItCanHoldOn(t *testing.T) {
	for _, p := range suite.Profiles {
		s := enforcementOf(p, p.Target)
		if p.ID != suite.DefaultProfile {
			assert.Nil(t, s, "%s: its own policy lets its packets out, or there is no network", p.ID)
			continue
		}
		require.NotNil(t, s, p.ID)
		assert.Contains(t, s.Claims, "AS-12")
		assert.Nil(t, enforcementOf(p, "seed"))
	}
}

func TestEveryCanaryIsJudgedOutsideOfTheSandbox(t *testing.T) {
	for _, base := range overlays.Bases {
		p, ok := suite.ProfileByID(base)
		require.True(t, ok, base)
		s, ok := all.Registry.Get(p.Canary)
		require.True(t, ok, "%s: there is no scenario %s", base, p.Canary)
		assert.NotNil(t, s.Judge, s.ID)
		assert.Equal(t, suite.Function, s.Kind, s.ID)
	}
}

func TestAStandInIsBesideTheServerThatItLooksLike(t *testing.T) {
	for name, target := range targets {
		want := ""
		if target.Gateway != "" {
			want = target.Namespace
		}
		assert.Equal(t, want, routerOf(target), name)
	}
	assert.NotEmpty(t, routerOf(targets[kodeGopherShared]))
}

// Whether a target is deployed is told by its namespace.
func TestTheNamespaceOfATargetIsMadeByItsPartAlone(t *testing.T) {
	source, err := node.FindSource()
	require.NoError(t, err)
	module, err := overlays.ModuleFS(t.Context(), source)
	require.NoError(t, err)
	parts, err := overlays.Parts(overlays.AllProfiles)
	require.NoError(t, err)
	namespaces := map[string]string{"controls": overlays.ControlsNamespace}
	for name, target := range targets {
		namespaces[name] = target.Namespace
	}
	seen := map[string]string{}
	for _, p := range parts {
		namespace, ok := namespaces[p.Name]
		if !ok {
			assert.Empty(t, p.Profile, "%s is tried, and is no target", p.Name)
			continue
		}
		assert.Empty(t, seen[namespace], p.Name)
		seen[namespace] = p.Name
		objects, err := overlays.Render(module, p.Overlay)
		require.NoError(t, err)
		found := false
		for _, o := range objects {
			found = found || o.GetKind() == "Namespace" && o.GetName() == namespace
		}
		assert.True(t, found, "%s makes its namespace %s", p.Name, namespace)
	}
	assert.Len(t, seen, len(namespaces), "each target has a part")
}

func TestWhatANamedMutantIsAboutHasToHoldWithoutIt(t *testing.T) {
	mutants, err := overlays.LoadMutants()
	require.NoError(t, err)
	p, ok := suite.ProfileByID("kode-gopher-local")
	require.True(t, ok)
	whole := false
	of := func(features []suite.Feature, named ...string) (picked []string, scenarios []string, err error) {
		f := &openTarget{Descriptor: &descriptor.Descriptor{Features: features}}
		ms, ss, err := f.choose(ProveOptions{Profile: p, Mutants: named, Whole: whole}, mutants)
		for _, m := range ms {
			picked = append(picked, m.ID)
		}
		for _, s := range ss {
			scenarios = append(scenarios, s.ID)
		}
		return picked, scenarios, err
	}
	every := []suite.Feature{suite.GVisor, suite.IPv6, suite.Admission, suite.WarmPool, suite.PodNetwork, suite.RunIdentity}
	picked, scenarios, err := of(every, "kode-gopher-node-persist")
	require.NoError(t, err)
	assert.Equal(t, []string{"kode-gopher-node-persist"}, picked)
	assert.ElementsMatch(t, []string{"kode-gopher.app-wipe", "kode-gopher.session-separation", p.Canary}, scenarios)

	whole = true
	picked, scenarios, err = of(every, "kode-gopher-node-persist")
	require.NoError(t, err)
	assert.Equal(t, []string{"kode-gopher-node-persist"}, picked)
	assert.Len(t, scenarios, len(p.Of(all.Registry.All())), "a cover is no reason to look at less")
	whole = false

	picked, scenarios, err = of(every)
	require.NoError(t, err)
	assert.Contains(t, picked, "kode-gopher-ipv6-exceptions")
	assert.NotContains(t, picked, "automount-token", "it is of another profile")
	assert.Len(t, scenarios, len(p.Of(all.Registry.All())))
	_, _, err = of([]suite.Feature{suite.PodNetwork}, "kode-gopher-ipv6-exceptions")
	assert.ErrorContains(t, err, "lacks what they need")
}

// The seed's template is as its text prints it, and promises no more.
func TestMoreThanTheTextSaysIsAskedOfOurOwnTargetsAlone(t *testing.T) {
	p, ok := suite.ProfileByID("agent-sandbox")
	require.True(t, ok)
	f := &openTarget{Descriptor: &descriptor.Descriptor{Features: []suite.Feature{suite.GVisor}}}
	for name, ours := range map[string]bool{p.Target: true, "mutant-no-storage-limit": true, seedTarget: false} {
		assert.Equal(t, ours, slices.Contains(f.declared(name, descriptor.Target{}), suite.PodSecurity), name)
		assert.Equal(t, ours, mostOf(p, name) == p.Most, name)
	}
	assert.NotZero(t, p.Most)
	assert.Contains(t, f.declared(p.Target, descriptor.Target{Callers: "file"}), suite.RunIdentity)
	assert.Equal(t, []suite.Feature{suite.GVisor}, f.Features, "what is the cluster's stays so")
}

func TestWhatLoadsOrKillsIsForThrowAwayClusters(t *testing.T) {
	quiet, loud, fatal := &suite.Scenario{ID: "a.quiet"}, &suite.Scenario{ID: "b.loud", Exclusive: true}, &suite.Scenario{ID: "c.fatal", MayKill: true}
	f := &openTarget{Descriptor: &descriptor.Descriptor{}}
	assert.NoError(t, f.harmless([]*suite.Scenario{quiet}))
	for _, s := range []*suite.Scenario{loud, fatal} {
		_, err := f.execute(t.Context(), runner.Options{Scenarios: []*suite.Scenario{quiet, s}})
		var e *exit
		require.ErrorAs(t, err, &e)
		assert.Equal(t, verdict.ExitUsage, e.code)
		assert.ErrorContains(t, err, s.ID)
		assert.NotContains(t, err.Error(), quiet.ID)
	}
	f.Disruptive = true
	assert.NoError(t, f.harmless([]*suite.Scenario{quiet, loud, fatal}))
}

// See docs/verdicts.md: another code is a failure of the suite's own.
func TestAPlaceOrATargetThatIsNotThereMakesARunIncomplete(t *testing.T) {
	p, ok := suite.ProfileByID(overlays.BasePlayground)
	require.True(t, ok)
	_, noPlace := machine{home: t.TempDir()}.Run(t.Context(), RunOptions{Profile: p, Target: p.Target})
	_, noTarget := named(&descriptor.Descriptor{}, RunOptions{Profile: p, Target: p.Target})
	for _, err := range []error{noPlace, noTarget} {
		var e *exit
		require.ErrorAs(t, err, &e)
		assert.Equal(t, verdict.ExitInconclusive, e.code, "%v", err)
		assert.ErrorContains(t, err, "stockade up")
	}
	_, err := named(&descriptor.Descriptor{Targets: map[string]descriptor.Target{p.Target: {}}}, RunOptions{Profile: p, Target: p.Target})
	assert.NoError(t, err)
}

func TestTheMutantsOfAKilledProofAreSeen(t *testing.T) {
	mutants, err := overlays.LoadMutants()
	require.NoError(t, err)
	require.Greater(t, len(mutants), 2)
	space := func(name string) corev1.Namespace {
		return corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	going := space(mutants[0].Namespace())
	going.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	clean := []corev1.Namespace{space("kube-system"), space(overlays.ReferenceNamespace), going}
	assert.False(t, standing(mutants, clean), "one that is on its way out was taken down in order")
	for _, m := range mutants {
		for _, name := range m.Namespaces() {
			assert.True(t, standing(mutants, append(clean, space(name))), name)
		}
	}
	// Nothing but the list is asked for where there is nothing to undo: the fake has
	// no more.
	f := &openTarget{kube: &kube.Client{Clientset: fake.NewClientset(&clean[0], &clean[1])}}
	assert.NoError(t, f.restore(t.Context()))
}

func TestOfAClusterOnGoogleCloudTheEndpointOfTheStackIsAskedAndNoOther(t *testing.T) {
	var asked []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/api/v1/namespaces/kube-system" {
			_, _ = w.Write([]byte(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": "u-1"}}`))
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}`))
	}))
	defer server.Close()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	question, ok := all.Registry.Get("admission.reject-sysctl")
	require.True(t, ok)
	attack, ok := all.Registry.Get("egress.tcp-public")
	require.True(t, ok)
	ask := func(target, endpoint string, s *suite.Scenario) error {
		p, _ := suite.ProfileByID(suite.DefaultProfile)
		_, err := machine{home: t.TempDir()}.Run(t.Context(), RunOptions{
			Profile: p, Target: target, Scenarios: []*suite.Scenario{s},
			Cloud: &descriptor.Cloud{
				Cluster: descriptor.CloudCluster{Name: "c", Endpoint: endpoint},
				Targets: map[string]descriptor.Target{"reference": {Namespace: "sandboxes", Template: "t", Pool: "p"}},
			},
			Kubeconfig: fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Config", "current-context": "x", "clusters": [{"name": "x", "cluster": {"server": %q, "certificate-authority-data": %q}}],
 "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}], "users": [{"name": "x", "user": {}}]}`, server.URL, ca),
		})
		return err
	}
	endpoint := strings.TrimPrefix(server.URL, "https://")

	err := ask("playground", endpoint, question)
	require.ErrorContains(t, err, "the stack has no target playground: it has reference")
	err = ask("reference", "c.example", question)
	require.ErrorContains(t, err, "and not to the cluster c")
	assert.Empty(t, asked)

	err = ask("reference", endpoint, attack)
	require.ErrorContains(t, err, "egress.tcp-public is more than a question")

	// There is nothing of which to ask.
	err = ask("reference", endpoint, question)
	require.Error(t, err)
	assert.Equal(t, "/api/v1/namespaces/kube-system", asked[0], "first of all, which cluster it is")
	assert.Greater(t, len(asked), 2)
}

func TestAScaffoldIsAttackedByWhatItsChosenMutantsAreCaughtBy(t *testing.T) {
	mutants, err := overlays.LoadMutants()
	require.NoError(t, err)
	scaffolds, on, err := overlays.Scaffolds(mutants)
	require.NoError(t, err)
	picked := []prove.Mutant{{ID: "admission-no-sysctl-rule", Kills: []string{"b", "a"}}, {ID: "admission-no-token-rule", Kills: []string{"b"}}, {ID: "node-untainted", Kills: []string{"c"}}}
	for i := range picked {
		picked[i].Scaffold = on[picked[i].ID]
	}
	assert.Empty(t, scaffoldsToProve(picked, nil), "nobody asked")
	got := scaffoldsToProve(picked, scaffolds)
	require.Len(t, got, 2, "one for both rules of the policy, and one for the node")
	assert.Equal(t, []string{"a", "b"}, got[0].Kills)
	assert.Equal(t, []string{"c"}, got[1].Kills)
	assert.Equal(t, picked[0].Scaffold, got[0].ID)
	assert.Equal(t, picked[2].Scaffold, got[1].ID)
	for _, s := range got {
		assert.False(t, s.Alone, "the nodes keep their taint while %s is attacked", s.ID)
	}

	deployed, err := deployable()
	require.NoError(t, err)
	assert.Len(t, deployed, len(mutants)+len(scaffolds), "`cleanup` removes these, too")
}
