// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

var kodeGophers = []string{KodeGopher, KodeGopherShared}

// named returns the object of a kind and a name.
func named(t *testing.T, objects []unstructured.Unstructured, kind, name string) unstructured.Unstructured {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	require.Fail(t, "there is no such object", "%s %s", kind, name)
	return unstructured.Unstructured{}
}

// podSpec is a template's Pod, as the API's own type: a field that is spelled
// wrongly is an error.
func podSpec(t *testing.T, o unstructured.Unstructured, path ...string) corev1.PodSpec {
	t.Helper()
	m, found, err := unstructured.NestedMap(o.Object, path...)
	require.NoError(t, err)
	require.True(t, found)
	var spec corev1.PodSpec
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(m, &spec, true))
	return spec
}

func sandboxPod(t *testing.T, overlay string) corev1.PodSpec {
	t.Helper()
	return podSpec(t, only(t, rendered(t, overlay), "SandboxTemplate"), "spec", "podTemplate", "spec")
}

func sandboxPolicy(t *testing.T, overlay string) networkingv1.NetworkPolicySpec {
	t.Helper()
	m, _, err := unstructured.NestedMap(only(t, rendered(t, overlay), "SandboxTemplate").Object, "spec", "networkPolicy")
	require.NoError(t, err)
	var spec networkingv1.NetworkPolicySpec
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(m, &spec, true))
	return spec
}

func TestEverythingOfKodeGopherIsInItsNamespace(t *testing.T) {
	for overlay, namespace := range map[string]string{KodeGopher: KodeGopherNamespace, KodeGopherShared: KodeGopherSharedNamespace} {
		objects := rendered(t, overlay)
		assert.Equal(t, "Namespace", objects[0].GetKind(), overlay)
		for _, o := range objects {
			if o.GetKind() == "Namespace" {
				assert.Equal(t, namespace, o.GetName())
				assert.Equal(t, "restricted", o.GetLabels()["pod-security.kubernetes.io/enforce"])
				continue
			}
			assert.Equal(t, namespace, o.GetNamespace(), o.GetName())
			eachImage(o.Object, func(image string) { assert.True(t, strings.HasPrefix(image, "stockade.local/"), image) })
			if o.GetKind() == "RoleBinding" {
				subjects, _, err := unstructured.NestedSlice(o.Object, "subjects")
				require.NoError(t, err)
				assert.Equal(t, namespace, subjects[0].(map[string]any)["namespace"])
			}
		}
	}
}

func TestTheSandboxIsLockedDown(t *testing.T) {
	no := false
	for _, overlay := range kodeGophers {
		spec := sandboxPod(t, overlay)
		require.NotNil(t, spec.RuntimeClassName)
		assert.Equal(t, "gvisor", *spec.RuntimeClassName)
		assert.Equal(t, &no, spec.AutomountServiceAccountToken)
		assert.Equal(t, &no, spec.EnableServiceLinks)
		assert.Empty(t, spec.ServiceAccountName)
		require.Len(t, spec.Containers, 1)
		c := spec.Containers[0]
		assert.Equal(t, &no, c.SecurityContext.AllowPrivilegeEscalation)
		assert.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
		assert.Empty(t, c.SecurityContext.Capabilities.Add)
		assert.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
		assert.True(t, *spec.SecurityContext.RunAsNonRoot)
		for _, v := range spec.Volumes {
			require.NotNil(t, v.EmptyDir, "scratch lives in the Pod: %s", v.Name)
			assert.Equal(t, corev1.StorageMediumMemory, v.EmptyDir.Medium)
			assert.NotNil(t, v.EmptyDir.SizeLimit)
		}
		assert.Contains(t, c.Resources.Limits, corev1.ResourceMemory)
		assert.Contains(t, c.Resources.Limits, corev1.ResourceCPU)
		assert.Empty(t, c.EnvFrom, "no setting of the server is a sandbox's")
	}
	assert.Empty(t, sandboxPod(t, KodeGopher).Containers[0].Env)
	assert.Equal(t, []corev1.EnvVar{{Name: "GCE_METADATA_HOST", Value: "kode-gopher-metadata"}}, sandboxPod(t, KodeGopherShared).Containers[0].Env)
}

func TestOnlyTheRouterAndTheServerReachASandboxesPort(t *testing.T) {
	for _, overlay := range kodeGophers {
		p := sandboxPolicy(t, overlay)
		require.Len(t, p.Ingress, 1)
		require.Len(t, p.Ingress[0].Ports, 1)
		assert.Equal(t, 8888, p.Ingress[0].Ports[0].Port.IntValue())
		var apps []string
		for _, from := range p.Ingress[0].From {
			assert.Nil(t, from.NamespaceSelector, "a Pod of another namespace may have the same label")
			apps = append(apps, from.PodSelector.MatchLabels["app"])
		}
		assert.ElementsMatch(t, []string{"kode-gopher", "kode-gopher-router"}, apps)
	}
}

// allowed tells whether an address is open on some port by an ipBlock.
func allowed(t *testing.T, p networkingv1.NetworkPolicySpec, address string) bool {
	t.Helper()
	addr := netip.MustParseAddr(address)
	for _, rule := range p.Egress {
		for _, to := range rule.To {
			if to.IPBlock == nil || !netip.MustParsePrefix(to.IPBlock.CIDR).Contains(addr) {
				continue
			}
			inside := false
			for _, e := range to.IPBlock.Except {
				prefix, err := netip.ParsePrefix(e)
				require.NoError(t, err)
				assert.Equal(t, prefix.Masked(), prefix, "%s has bits after its length", e)
				inside = inside || prefix.Contains(addr)
			}
			if !inside {
				return true
			}
		}
	}
	return false
}

func TestTheInsideIsClosedAndLocallyThePublicIsOpen(t *testing.T) {
	local, shared := sandboxPolicy(t, KodeGopher), sandboxPolicy(t, KodeGopherShared)
	for _, public := range []string{"8.8.8.8", "1.1.1.1", "203.0.113.7", "2001:4860:4860::8888"} {
		assert.True(t, allowed(t, local, public), public)
		assert.False(t, allowed(t, shared, public), public)
	}
	for _, inside := range []string{
		"10.96.0.1", "172.18.0.2", "192.168.1.1", "100.64.0.1", "169.254.169.254", "169.254.169.252", "127.0.0.1", "0.0.0.0",
		"fd00:10:244::1", "fd20:ce::254", "fe80::1", "::1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::a9fe:a9fe",
	} {
		assert.False(t, allowed(t, local, inside), inside)
		assert.False(t, allowed(t, shared, inside), inside)
	}
}

func TestOnASharedServerASandboxReachesTheEmulatorOnly(t *testing.T) {
	p := sandboxPolicy(t, KodeGopherShared)
	require.Len(t, p.Egress, 1)
	require.Len(t, p.Egress[0].To, 1)
	assert.Equal(t, map[string]string{"app": "kode-gopher-metadata"}, p.Egress[0].To[0].PodSelector.MatchLabels)
	require.Len(t, p.Egress[0].Ports, 1)
	assert.Equal(t, 8080, p.Egress[0].Ports[0].Port.IntValue(), "not the control port")
}

func TestTheServersMayDoLittle(t *testing.T) {
	for _, overlay := range kodeGophers {
		objects := rendered(t, overlay)
		for _, o := range objects {
			assert.NotContains(t, []string{"ClusterRole", "ClusterRoleBinding"}, o.GetKind())
		}
		rules := func(name string) []rbacv1.PolicyRule {
			var role rbacv1.Role
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(named(t, objects, "Role", name).Object, &role))
			return role.Rules
		}
		sandboxes := rbacv1.PolicyRule{APIGroups: []string{"agents.x-k8s.io"}, Resources: []string{"sandboxes"}, Verbs: []string{"get"}}
		assert.Equal(t, []rbacv1.PolicyRule{{
			APIGroups: []string{"extensions.agents.x-k8s.io"}, Resources: []string{"sandboxclaims"},
			Verbs: []string{"create", "get", "list", "patch", "delete"},
		}, sandboxes}, rules("kode-gopher"))
		assert.Equal(t, []rbacv1.PolicyRule{sandboxes}, rules("kode-gopher-router"))
		for _, o := range objects {
			if o.GetKind() != "Deployment" {
				continue
			}
			spec := podSpec(t, o, "spec", "template", "spec")
			assert.NotEmpty(t, spec.ServiceAccountName)
			assert.Equal(t, o.GetName() != "kode-gopher-metadata", *spec.AutomountServiceAccountToken)
			assert.True(t, *spec.SecurityContext.RunAsNonRoot)
		}
	}
}

func TestThePoliciesInFrontNameWhoMayCall(t *testing.T) {
	policy := func(overlay, name string) networkingv1.NetworkPolicySpec {
		var p networkingv1.NetworkPolicy
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(
			named(t, rendered(t, overlay), "NetworkPolicy", name).Object, &p, true))
		return p.Spec
	}
	for _, overlay := range kodeGophers {
		deny := policy(overlay, "default-deny-ingress")
		assert.Empty(t, deny.PodSelector.MatchLabels)
		assert.Empty(t, deny.Ingress)
		front := policy(overlay, "kode-gopher")
		require.Len(t, front.Ingress, 1)
		assert.Equal(t, map[string]string{KodeGopherClients: "true"}, front.Ingress[0].From[0].NamespaceSelector.MatchLabels)
		router := policy(overlay, "kode-gopher-router")
		require.Len(t, router.Ingress, 1)
		require.Len(t, router.Ingress[0].From, 1)
		assert.Equal(t, map[string]string{"app": "kode-gopher"}, router.Ingress[0].From[0].PodSelector.MatchLabels)
		assert.Nil(t, router.Ingress[0].From[0].NamespaceSelector)
	}
	control := policy(KodeGopherShared, "kode-gopher-metadata")
	who := map[int]string{}
	for _, rule := range control.Ingress {
		require.Len(t, rule.Ports, 1)
		require.Len(t, rule.From, 1)
		who[rule.Ports[0].Port.IntValue()] = rule.From[0].PodSelector.MatchLabels["app"]
	}
	assert.Equal(t, map[int]string{8080: KodeGopherSandboxApp, 8081: "kode-gopher"}, who)
}

func TestOnlyTheServerForOnePersonIsOpen(t *testing.T) {
	args := func(overlay string) []string {
		return podSpec(t, named(t, rendered(t, overlay), "Deployment", "kode-gopher"), "spec", "template", "spec").Containers[0].Args
	}
	assert.Equal(t, []string{"-no-auth"}, args(KodeGopher))
	assert.Empty(t, args(KodeGopherShared))
}

func TestNoModuleProxyIsNamed(t *testing.T) {
	for _, overlay := range kodeGophers {
		for _, o := range rendered(t, overlay) {
			text, err := json.Marshal(o.Object)
			require.NoError(t, err)
			assert.NotContains(t, string(text), "https://")
		}
	}
}
