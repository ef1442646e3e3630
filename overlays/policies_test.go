// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/all"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

// read are the scenarios that read what a deployment has stored, its network policies
// and the limits of its Pods, by the overlay in which they have to hold.
var read = map[string][]string{
	Reference:           {"sandbox.egress-policy", "sandbox.ingress-policy", "resources.declared-limits"},
	Default:             {"sandbox.default-egress-policy", "sandbox.ingress-policy"},
	KodeGopherDev:       {"kode-gopher.port-policy", "kode-gopher.private-policy"},
	KodeGopherSharedDev: {"kode-gopher.port-policy", "kode-gopher.private-policy", "kode-gopher.egress-policy", "kode-gopher.server-policy"},
	Playground:          {"playground.egress-policy", "playground.ingress-policy", "playground.service-policy", "resources.declared-limits"},
}

// stored answers as an API server that has the objects, and what their controllers
// make of them: a template's network policy, and a Pod of it.
func stored(t *testing.T, base, namespace, components string, objects []unstructured.Unstructured) *suite.APIEnv {
	t.Helper()
	lists := map[string][]any{}
	pod := suite.Object{}
	for _, o := range objects {
		const policies = "/networkpolicies"
		switch o.GetKind() {
		case "NetworkPolicy":
			path := "/apis/networking.k8s.io/v1/namespaces/" + o.GetNamespace() + policies
			lists[path] = append(lists[path], o.Object)
		case "CiliumNetworkPolicy":
			path := "/apis/cilium.io/v2/namespaces/" + o.GetNamespace() + "/ciliumnetworkpolicies"
			lists[path] = append(lists[path], o.Object)
		case "FQDNNetworkPolicy":
			path := "/apis/networking.gke.io/v1alpha1/namespaces/" + o.GetNamespace() + "/fqdnnetworkpolicies"
			lists[path] = append(lists[path], o.Object)
		case "Deployment":
			path := "/api/v1/namespaces/" + o.GetNamespace() + "/pods"
			of, _, err := unstructured.NestedMap(o.Object, "spec", "template")
			require.NoError(t, err)
			lists[path] = append(lists[path], of)
		case "PodTemplate":
			pod, _, _ = unstructured.NestedMap(o.Object, "template")
		case "SandboxTemplate":
			pod, _, _ = unstructured.NestedMap(o.Object, "spec", "podTemplate")
			if managed, _, _ := unstructured.NestedString(o.Object, "spec", "networkPolicyManagement"); managed != "Managed" {
				continue
			}
			spec, has, err := unstructured.NestedMap(o.Object, "spec", "networkPolicy")
			require.NoError(t, err)
			if !has {
				spec = writtenByDefault()
			}
			spec["podSelector"] = map[string]any{"matchLabels": pod["metadata"].(map[string]any)["labels"]} //nolint:forcetypeassert // it has labels
			spec["policyTypes"] = []any{"Ingress", "Egress"}
			path := "/apis/networking.k8s.io/v1/namespaces/" + namespace + policies
			lists[path] = append(lists[path], map[string]any{"metadata": map[string]any{"name": o.GetName() + "-network-policy"}, "spec": spec})
		}
	}
	profile, ok := suite.ProfileByID(base)
	require.True(t, ok, base)
	return &suite.APIEnv{
		Site:  probe.Site{Most: profile.Most},
		Nonce: strings.Repeat("a", 32), Namespace: namespace, Live: "live", Components: []string{components}, Controls: ControlsNamespace,
		Pod: func() suite.Object { return manifest.Clone(pod) },
		Do: func(_ context.Context, _ suite.Identity, r suite.Request) (suite.Answer, error) {
			if r.Verb == http.MethodPost { // a dry run
				return suite.Answer{Code: 201, Object: r.Body}, nil
			}
			require.Equal(t, http.MethodGet, r.Verb)
			switch r.Path {
			case "/apis/cilium.io":
				return suite.Answer{Code: 200, Object: suite.Object{"versions": []any{map[string]any{"version": "v2"}}}}, nil
			case "/apis/networking.gke.io":
				return suite.Answer{Code: 200, Object: suite.Object{"versions": []any{map[string]any{"version": "v1alpha1"}}}}, nil
			case "/apis/networking.gke.io/v1alpha1":
				return suite.Answer{Code: 200, Object: suite.Object{"resources": []any{map[string]any{"name": "fqdnnetworkpolicies", "namespaced": true}}}}, nil
			case "/apis/cilium.io/v2":
				return suite.Answer{Code: 200, Object: suite.Object{"resources": []any{map[string]any{"name": "ciliumnetworkpolicies", "namespaced": true}}}}, nil
			case "/api/v1/namespaces/" + namespace + "/pods/live":
				return suite.Answer{Code: 200, Object: pod}, nil
			}
			if strings.Contains(r.Path, "/namespaces/") {
				return suite.Answer{Code: 200, Object: suite.Object{"items": slices.Concat([]any{}, lists[r.Path])}}, nil
			}
			return suite.Answer{Code: 404}, nil
		},
	}
}

// writtenByDefault is what the controller writes where a template has no policy.
func writtenByDefault() map[string]any {
	block := func(cidr string, except ...any) any {
		return map[string]any{"ipBlock": map[string]any{"cidr": cidr, "except": except}}
	}
	labels := func(key, value string) any { return map[string]any{"matchLabels": map[string]any{key: value}} }
	return map[string]any{
		"ingress": []any{map[string]any{"from": []any{map[string]any{
			"namespaceSelector": labels("kubernetes.io/metadata.name", "agent-sandbox-system"), "podSelector": labels("app", "sandbox-router")}}}},
		"egress": []any{map[string]any{"to": []any{
			block("0.0.0.0/0", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"), block("::/0", "fc00::/7", "fe80::/10")}}},
	}
}

// serviceOf is the namespace of a service account.
func serviceOf(account string) string {
	namespace, _, _ := strings.Cut(account, "/")
	return namespace
}

func judged(t *testing.T, id string, e *suite.APIEnv) verdict.Result {
	t.Helper()
	s, ok := all.Registry.Get(id)
	require.True(t, ok, id)
	attempt := func(nonce string, act suite.APIAction) []verdict.Attempt {
		return []verdict.Attempt{{Nonce: nonce, Complete: true, Steps: act(t.Context(), e), Start: time.Now(), End: time.Now()}}
	}
	return verdict.Decide(verdict.Evidence{Attempts: attempt("a", s.Ask), Controls: attempt("c", s.AskControl), Accept: s.Accept})
}

func TestWhatIsReadOfEveryDeploymentHolds(t *testing.T) {
	bases := map[string]string{Reference: BaseReference, Default: BaseReference, KodeGopherDev: BaseKodeGopherLocal, KodeGopherSharedDev: BaseKodeGopherShared, Playground: BasePlayground}
	namespaces := map[string]string{Reference: ReferenceNamespace, Default: DefaultNamespace, KodeGopherDev: KodeGopherNamespace,
		KodeGopherSharedDev: KodeGopherSharedNamespace, Playground: PlaygroundNamespace}
	for overlay, ids := range read {
		objects := rendered(t, overlay)
		lists := [][]unstructured.Unstructured{nil}
		if overlay == KodeGopherSharedDev {
			lists = nil
			for _, dialect := range []Dialect{Cilium, GKE} {
				list, err := AllowList(dialect, AllowListArgs{Namespace: namespaces[overlay], Name: "kode-gopher-egress",
					Labels: map[string]string{"app": "kode-gopher-sandbox"}, Hosts: []string{"*.googleapis.com", "proxy.golang.org"}})
				require.NoError(t, err)
				lists = append(lists, list)
			}
		}
		for _, list := range lists {
			for _, id := range ids {
				r := judged(t, id, stored(t, bases[overlay], namespaces[overlay], serviceOf(ExecutionAccount), slices.Concat(objects, list)))
				assert.Equal(t, verdict.Held, r.Verdict(), "%s: %s %s", id, r.Reason(), r.Detail())
			}
		}
	}
}

// This is the kill matrix of these scenarios, without a cluster.
func TestAMutantOfWhatIsReadIsKilledByReadingIt(t *testing.T) {
	var reading []string
	for _, ids := range read {
		reading = append(reading, ids...)
	}
	killed := map[string]bool{}
	for _, m := range mutants(t) {
		for _, id := range m.Kills {
			if !slices.Contains(reading, id) {
				continue
			}
			objects, err := m.Render(module(t))
			require.NoError(t, err)
			r := judged(t, id, stored(t, m.Base, m.Namespace(), serviceOf(m.Account()), objects))
			assert.Equal(t, verdict.Breached, r.Verdict(), "%s: %s: %s %s", m.ID, id, r.Reason(), r.Detail())
			killed[id] = true
		}
	}
	for _, id := range reading {
		assert.True(t, killed[id], "no mutant is killed by %s", id)
	}
}
