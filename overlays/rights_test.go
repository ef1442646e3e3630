// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// serverRights is the scenario that asks what the accounts of kode-gopher may do.
const serverRights = "kode-gopher.server-rights"

// authorizer answers as an API server that has the objects, and authorizes by their
// roles and bindings as RBAC does.
type authorizer struct {
	t         *testing.T
	namespace string
	roles     map[string][]rbacv1.PolicyRule // by namespace and name
	bindings  []rbacv1.RoleBinding
	pods      []any
}

func newAuthorizer(t *testing.T, namespace string, objects []unstructured.Unstructured) *authorizer {
	t.Helper()
	a := &authorizer{t: t, namespace: namespace, roles: map[string][]rbacv1.PolicyRule{}}
	convert := func(o unstructured.Unstructured, into any) {
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, into, true))
	}
	pod := func(o unstructured.Unstructured, path ...string) {
		of, found, err := unstructured.NestedMap(o.Object, path...)
		require.NoError(t, err)
		require.True(t, found)
		spec := of["spec"].(map[string]any) //nolint:forcetypeassert // it is a Pod's template
		if spec["serviceAccountName"] == nil {
			spec["serviceAccountName"] = "default" // as the API server fills it in
		}
		a.pods = append(a.pods, of)
	}
	for _, o := range objects {
		switch o.GetKind() {
		case "Role":
			var r rbacv1.Role
			convert(o, &r)
			a.roles[r.Namespace+"/"+r.Name] = r.Rules
		case "RoleBinding":
			var b rbacv1.RoleBinding
			convert(o, &b)
			require.Equal(t, "Role", b.RoleRef.Kind, "what a ClusterRole allows is not known here")
			a.bindings = append(a.bindings, b)
		case "Deployment":
			pod(o, "spec", "template")
		case "SandboxTemplate":
			pod(o, "spec", "podTemplate")
		}
	}
	return a
}

func (a *authorizer) rules(account, namespace string) (out []rbacv1.PolicyRule) {
	for _, b := range a.bindings {
		bound := slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool {
			return s.Kind == rbacv1.ServiceAccountKind && s.Name == account && s.Namespace == a.namespace
		})
		if bound && b.Namespace == namespace {
			out = append(out, a.roles[b.Namespace+"/"+b.RoleRef.Name]...)
		}
	}
	return out
}

// asked takes a request apart into the words of RBAC.
func asked(r suite.Request) (verb, group, resource, namespace string) {
	path, _, _ := strings.Cut(r.Path, "?")
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[0] == "apis" {
		group, parts = parts[1], parts[3:]
	} else {
		parts = parts[2:]
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		namespace, parts = parts[1], parts[2:]
	}
	resource = parts[0]
	if len(parts) > 2 {
		resource += "/" + parts[2]
	}
	verb = map[string]string{http.MethodPost: "create", http.MethodPatch: "patch", http.MethodDelete: "delete"}[r.Verb]
	if r.Verb == http.MethodGet {
		verb = map[bool]string{true: "get", false: "list"}[len(parts) > 1]
	}
	return verb, group, resource, namespace
}

func (a *authorizer) do(_ context.Context, as suite.Identity, r suite.Request) (suite.Answer, error) {
	if as == suite.Administrator {
		require.Equal(a.t, http.MethodGet, r.Verb)
		switch r.Path {
		case "/api/v1/namespaces":
			var all []any
			for _, ns := range []string{a.namespace, "default", "kube-system"} {
				all = append(all, map[string]any{"metadata": map[string]any{"name": ns}})
			}
			return suite.Answer{Code: 200, Object: suite.Object{"items": all}}, nil
		case "/api/v1/namespaces/" + a.namespace + "/pods":
			return suite.Answer{Code: 200, Object: suite.Object{"items": a.pods}}, nil
		}
		return suite.Answer{Code: 404}, nil
	}
	account, ok := as.Account()
	require.True(a.t, ok, as)
	if strings.HasSuffix(r.Path, "/selfsubjectrulesreviews") {
		namespace := r.Body["spec"].(suite.Object)["namespace"].(string) //nolint:forcetypeassert // a review names one
		rules := []any{map[string]any{"verbs": []any{"create"}, "apiGroups": []any{"authorization.k8s.io"}, "resources": []any{"selfsubjectrulesreviews"}}}
		for _, rule := range a.rules(account, namespace) {
			m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&rule)
			require.NoError(a.t, err)
			rules = append(rules, m)
		}
		return suite.Answer{Code: 201, Object: suite.Object{"status": map[string]any{"incomplete": false, "resourceRules": rules}}}, nil
	}
	verb, group, resource, namespace := asked(r)
	in := func(list []string, x string) bool { return slices.Contains(list, "*") || slices.Contains(list, x) }
	for _, rule := range a.rules(account, namespace) {
		if in(rule.Verbs, verb) && in(rule.APIGroups, group) && in(rule.Resources, resource) {
			return suite.Answer{Code: 404, Message: "not found"}, nil
		}
	}
	user := "system:serviceaccount:" + a.namespace + ":" + account
	return suite.Answer{Code: 403, Message: fmt.Sprintf("x is forbidden: User %q cannot %s resource %q in API group %q", user, verb, resource, group)}, nil
}

func (a *authorizer) env() *suite.APIEnv {
	some := func() suite.Object { return suite.Object{"metadata": map[string]any{}} }
	return &suite.APIEnv{Nonce: strings.Repeat("a", 32), Namespace: a.namespace, Live: "live", Pod: some, Sandbox: some, Do: a.do}
}

func TestTheAccountsOfKodeGopherMayDoWhatTheyNeed(t *testing.T) {
	for overlay, namespace := range map[string]string{KodeGopherDev: KodeGopherNamespace, KodeGopherSharedDev: KodeGopherSharedNamespace} {
		r := judged(t, serverRights, newAuthorizer(t, namespace, rendered(t, overlay)).env())
		assert.Equal(t, verdict.Held, r.Verdict(), "%s: %s %s", overlay, r.Reason(), r.Detail())
	}
}

// This is the kill matrix of the scenario, without a cluster.
func TestAMutantOfAnAccountsRightsIsNoticed(t *testing.T) {
	n := 0
	for _, m := range mutants(t) {
		if !slices.Contains(m.Kills, serverRights) {
			continue
		}
		n++
		objects, err := m.Render(module(t))
		require.NoError(t, err)
		a := newAuthorizer(t, m.Namespace(), objects)
		r := judged(t, serverRights, a.env())
		assert.Equal(t, verdict.Breached, r.Verdict(), "%s: %s %s", m.ID, r.Reason(), r.Detail())
		assert.Contains(t, r.Detail(), "have a right too many", m.ID)
	}
	assert.Equal(t, 5, n)
}
