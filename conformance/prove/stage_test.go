// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/overlays"
)

func TestAPoolKeepsSandboxesOnlyForWhoTakesThemOutOfIt(t *testing.T) {
	attack := []*suite.Scenario{{ID: "net.attack"}}
	template := overlays.Mutant{Scope: overlays.ScopeTemplate, Effect: []overlays.Effect{{Kind: "NetworkPolicy"}}}
	assert.False(t, warm(template, attack))
	assert.False(t, warm(template, []*suite.Scenario{{ID: "pool.own", Needs: []suite.Feature{suite.WarmPool}}}), "it makes a pool of its own")
	assert.True(t, warm(template, []*suite.Scenario{{ID: "pool.claim", Warm: true}}), "it is about the pool")
	assert.True(t, warm(template, []*suite.Scenario{{ID: "session.open", As: []string{"alice"}}}), "sessions take from it")
	assert.True(t, warm(overlays.Mutant{Effect: []overlays.Effect{{Kind: "NetworkPolicy"}, {Kind: "Pod"}}}, attack), "a Pod has to be read before the attack")
	assert.True(t, warm(overlays.Mutant{Scope: overlays.ScopePool}, attack), "it is the pool that is weaker")

	pool := thing("SandboxWarmPool", "mutant-x", "pool", map[string]any{"spec": map[string]any{"replicas": int64(2), "sandboxTemplateRef": map[string]any{"name": "t"}}})
	other := thing("Deployment", "mutant-x", "server", map[string]any{"spec": map[string]any{"replicas": int64(2)}})
	require.NoError(t, emptyPools([]unstructured.Unstructured{*pool, *other}))
	assert.Equal(t, map[string]any{"replicas": int64(0), "sandboxTemplateRef": map[string]any{"name": "t"}}, pool.Object["spec"])
	assert.Equal(t, map[string]any{"replicas": int64(2)}, other.Object["spec"])
}

func thing(kind, namespace, name string, more map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind}}
	maps.Copy(u.Object, more)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func TestAMutantGetsTheSettingsOfItsDeploymentAndNoMore(t *testing.T) {
	const from = overlays.KodeGopherSharedNamespace
	settings := thing("ConfigMap", from, "kode-gopher", map[string]any{"data": map[string]any{"GOPROXY": "off"}})
	settings.SetLabels(map[string]string{"a": "b"})
	settings.SetOwnerReferences(nil)
	settings.SetResourceVersion("7")
	objects := []runtime.Object{
		settings, thing("ConfigMap", from, "kube-root-ca.crt", nil), thing("ConfigMap", "elsewhere", "other", nil),
		thing("Secret", from, "kode-gopher", map[string]any{"type": "Opaque", "data": map[string]any{"tokens": "eA=="}}),
		thing("Secret", from, "token", map[string]any{"type": "kubernetes.io/service-account-token"}),
	}
	lists := map[schema.GroupVersionResource]string{
		corev1.SchemeGroupVersion.WithResource("configmaps"): "ConfigMapList", corev1.SchemeGroupVersion.WithResource("secrets"): "SecretList",
	}
	s := &ClusterStage{Kube: &kube.Client{Dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...)}}
	m := overlays.Mutant{ID: "x", Base: overlays.BaseKodeGopherShared}
	got, err := s.settings(t.Context(), m)
	require.NoError(t, err)
	require.Len(t, got, 2)
	for _, o := range got {
		assert.Equal(t, "mutant-x", o.GetNamespace())
		assert.Equal(t, "kode-gopher", o.GetName())
		assert.Empty(t, o.GetResourceVersion(), "it is another object")
		assert.Empty(t, o.GetLabels())
	}
	assert.Equal(t, map[string]any{"tokens": "eA=="}, got[1].Object["data"])
	assert.Equal(t, "Opaque", got[1].Object["type"])

	got, err = s.settings(t.Context(), overlays.Mutant{ID: "x", Base: overlays.BaseReference})
	require.NoError(t, err)
	assert.Empty(t, got)
}

// Every rule of either policy that the violating object breaks may be the one that a mutant lacks.
func TestTheViolatingObjectBreaksManyRulesAndLeavesTheTemplateAsItIs(t *testing.T) {
	container := map[string]any{"name": "run", "image": "registry.test/run@sha256:1"}
	spec := map[string]any{"runtimeClassName": "gvisor", "automountServiceAccountToken": false, "containers": []any{container}}
	for kind, o := range map[string]*unstructured.Unstructured{
		"Sandbox": thing("SandboxTemplate", "mutant-x", "t", map[string]any{"spec": map[string]any{"podTemplate": map[string]any{"spec": spec}}}),
		"Pod":     thing("PodTemplate", "mutant-x", "t", map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "spec": spec}}),
	} {
		violating, err := violatingObject("mutant-x", []unstructured.Unstructured{*thing("ConfigMap", "mutant-x", "c", nil), *o})
		require.NoError(t, err)
		require.Equal(t, kind, violating.GetKind())
		assert.Equal(t, "mutant-x", violating.GetNamespace())
		at := []string{"spec"}
		if kind == "Sandbox" {
			at = []string{"spec", "podTemplate", "spec"}
		}
		got, _, err := unstructured.NestedMap(violating.Object, at...)
		require.NoError(t, err)
		assert.NotContains(t, got, "runtimeClassName")
		assert.Equal(t, true, got["automountServiceAccountToken"])
		assert.Equal(t, []any{map[string]any{"name": "run", "image": "nowhere.test/bait"}}, got["containers"])
	}
	assert.Equal(t, "gvisor", spec["runtimeClassName"], "the template is deployed as it is")
	violating, err := violatingObject("mutant-x", nil)
	require.NoError(t, err)
	assert.Nil(t, violating)
}

func TestAMutantsPolicyIsWaitedForUntilItRefuses(t *testing.T) {
	bind := func(policy string, actions ...any) unstructured.Unstructured {
		return *thing("ValidatingAdmissionPolicyBinding", "", policy, map[string]any{"spec": map[string]any{"policyName": policy, "validationActions": actions}})
	}
	template := *thing("PodTemplate", "mutant-x", "t", map[string]any{"template": map[string]any{"spec": map[string]any{}}})
	for name, c := range map[string]struct {
		objects []unstructured.Unstructured
		answers []string // the last goes on; "" is that it is taken
		want    string
		asked   int
	}{
		"it takes a while":      {[]unstructured.Unstructured{template, bind("own", "Deny")}, []string{"", "the policy 'reference' denied it", "the policy 'own' denied it"}, "", 3},
		"it never refuses":      {[]unstructured.Unstructured{template, bind("own", "Deny")}, []string{""}, "the API server takes it", -1},
		"another refuses":       {[]unstructured.Unstructured{template, bind("own", "Deny")}, []string{"the policy 'owner' denied it"}, "'owner' denied it", -1},
		"it only writes down":   {[]unstructured.Unstructured{template, bind("own", "Audit")}, []string{"the policy 'reference' denied it", ""}, "", 2},
		"another still refuses": {[]unstructured.Unstructured{template, bind("own", "Audit")}, []string{"the policy 'reference' denied it"}, "another refuses it", -1},
		"there is none":         {[]unstructured.Unstructured{template}, nil, "", 0},
		"nothing can be shown":  {[]unstructured.Unstructured{bind("own", "Deny")}, nil, "no template", 0},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			dyn := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
			dyn.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				create, ok := a.(clienttesting.CreateActionImpl)
				assert.True(t, ok && len(create.CreateOptions.DryRun) == 1, "nothing is created")
				answer := c.answers[min(asked, len(c.answers)-1)]
				asked++
				if answer != "" {
					return true, nil, errors.New(answer)
				}
				return true, create.Object, nil
			})
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
			s := &ClusterStage{Kube: &kube.Client{Dynamic: dyn, Mapper: mapper}, EffectTimeout: time.Second}
			err := s.awaitPolicies(t.Context(), "mutant-x", c.objects)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
			if c.asked >= 0 {
				assert.Equal(t, c.asked, asked)
			}
		})
	}
}

// Of several denials the API server names the first alone.
func TestAMutantHasOneAdmissionPolicyAndATemplateThatItCanBeShown(t *testing.T) {
	mutants, err := overlays.LoadMutants()
	require.NoError(t, err)
	files, err := overlays.ModuleFS(t.Context(), "../..")
	require.NoError(t, err)
	seen := 0
	for _, m := range mutants {
		if m.Scope != overlays.ScopeAdmission {
			continue
		}
		objects, err := m.Render(files)
		require.NoError(t, err)
		denying, auditing := policies(objects)
		assert.Len(t, append(denying, auditing...), 1, m.ID)
		violating, err := violatingObject(m.Namespace(), objects)
		require.NoError(t, err)
		assert.NotNil(t, violating, m.ID)
		seen++
	}
	assert.Greater(t, seen, 40)
}
