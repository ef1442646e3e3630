// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"encoding/json"
	"maps"
	"net"
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
	"k8s.io/apimachinery/pkg/util/validation"
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
		trust := corev1.LocalObjectReference{Name: KodeGopherTrust}
		for _, v := range spec.Volumes {
			if v.ConfigMap != nil && v.ConfigMap.LocalObjectReference == trust {
				continue // public certificates
			}
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

// A NetworkPolicy that the API server refuses is one that nobody enforces, and
// the template's own schema does not look at addresses.
func TestTheAPIServerTakesEveryAddressRange(t *testing.T) {
	refused := func(cidr, except string) bool {
		if len(validation.IsValidCIDRForLegacyField(nil, except, true, nil)) > 0 {
			return true
		}
		// As ValidateIPBlock of k8s.io/kubernetes does.
		_, outer, err := net.ParseCIDR(cidr)
		require.NoError(t, err)
		_, inner, err := net.ParseCIDR(except)
		require.NoError(t, err)
		long, _ := outer.Mask.Size()
		longer, _ := inner.Mask.Size()
		return !outer.Contains(inner.IP) || long >= longer
	}
	for _, overlay := range kodeGophers {
		for _, rule := range sandboxPolicy(t, overlay).Egress {
			for _, to := range rule.To {
				if to.IPBlock == nil {
					continue
				}
				for _, e := range to.IPBlock.Except {
					assert.False(t, refused(to.IPBlock.CIDR, e), e)
				}
			}
		}
	}
	assert.True(t, refused("::/0", "::ffff:0:0/96"), "it counts as an IPv4 one")
	assert.True(t, refused("10.0.0.0/8", "10.0.0.0/8"))
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
	assert.Equal(t, []string{"-tokens=/etc/kode-gopher/tokens"}, args(KodeGopherShared))
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

func TestTheAdmissionPolicyOfTheReferenceTakesTheSandboxes(t *testing.T) {
	door := newDoor(t, KodeGopherNamespace, rendered(t, System))
	assert.Equal(t, []string{"sandboxes"}, door.resources)
	for _, overlay := range kodeGophers {
		template, _, err := unstructured.NestedMap(only(t, rendered(t, overlay), "SandboxTemplate").Object, "spec", "podTemplate")
		require.NoError(t, err)
		sandbox := map[string]any{"spec": map[string]any{"podTemplate": template}}
		answer := door.admit("sandboxes", sandbox, 201)
		assert.Equal(t, 201, answer.Code, answer.Message)
		// The policy is one that can refuse.
		spec := template["spec"].(map[string]any) //nolint:forcetypeassert // it has been read above
		delete(spec, "runtimeClassName")
		assert.Contains(t, door.admit("sandboxes", sandbox, 201).Message, "gvisor")
	}
}

// The rules of Pod Security "restricted" that the API server would judge each
// Pod by: https://kubernetes.io/docs/concepts/security/pod-security-standards/
func TestEveryPodPassesPodSecurityRestricted(t *testing.T) {
	for _, overlay := range kodeGophers {
		specs := map[string]corev1.PodSpec{"sandbox": sandboxPod(t, overlay)}
		for _, o := range rendered(t, overlay) {
			if o.GetKind() == "Deployment" {
				specs[o.GetName()] = podSpec(t, o, "spec", "template", "spec")
			}
		}
		for name, spec := range specs {
			assert.False(t, spec.HostNetwork || spec.HostPID || spec.HostIPC, name)
			require.NotNil(t, spec.SecurityContext, name)
			assert.True(t, *spec.SecurityContext.RunAsNonRoot, name)
			assert.NotZero(t, *spec.SecurityContext.RunAsUser, name)
			assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, spec.SecurityContext.SeccompProfile.Type, name)
			assert.Empty(t, spec.SecurityContext.Sysctls, name)
			for _, v := range spec.Volumes {
				assert.True(t, v.ConfigMap != nil || v.EmptyDir != nil || v.Secret != nil, "%s: %s", name, v.Name)
			}
			for _, c := range spec.Containers {
				require.NotNil(t, c.SecurityContext, name)
				assert.False(t, *c.SecurityContext.AllowPrivilegeEscalation, name)
				assert.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop, name)
				assert.Nil(t, c.SecurityContext.RunAsUser, name)
				assert.Nil(t, c.SecurityContext.Privileged, name)
				for _, p := range c.Ports {
					assert.Zero(t, p.HostPort, name)
				}
			}
		}
	}
}

var configured = KodeGopherSettings{
	GoProxy: "https://modules.example.com", Trust: "-----BEGIN CERTIFICATE-----", Tokens: "user1 sha256:00\n",
	SignIn: SignIn{ClientID: "c", Emails: []string{"a@example.com", "b@example.com"}, Domains: []string{"example.com"}}, SignerKeys: "{}",
	Hosts: []string{"*.googleapis.com", "modules.example.com"},
}

func TestTheSettingsMakeWhatTheOverlaysAskFor(t *testing.T) {
	local, err := configured.Local(rendered(t, KodeGopher))
	require.NoError(t, err)
	assert.Zero(t, kinds(local)["Secret"]+kinds(local)["CiliumNetworkPolicy"], "one person has neither callers nor an allow-list")
	shared, err := configured.Shared(rendered(t, KodeGopherShared))
	require.NoError(t, err)
	for namespace, objects := range map[string][]unstructured.Unstructured{KodeGopherNamespace: local, KodeGopherSharedNamespace: shared} {
		data := func(kind, name string) map[string]string {
			o := named(t, objects, kind, name)
			assert.Equal(t, namespace, o.GetNamespace(), name)
			m, _, err := unstructured.NestedStringMap(o.Object, "data")
			require.NoError(t, err)
			return m
		}
		server := podSpec(t, named(t, objects, "Deployment", KodeGopherName), "spec", "template", "spec")
		settings := map[string]string{"GOPROXY": configured.GoProxy, "GOSUMDB": "off"}
		if namespace == KodeGopherSharedNamespace {
			maps.Copy(settings, map[string]string{"GOOGLE_CLIENT_ID": "c", "ALLOW_EMAILS": "a@example.com,b@example.com", "ALLOW_DOMAINS": "example.com",
				"GOOGLE_KEYS_FILE": server.Containers[0].VolumeMounts[0].MountPath + "/" + KodeGopherSignerKey})
		}
		assert.Equal(t, settings, data("ConfigMap", server.Containers[0].EnvFrom[0].ConfigMapRef.Name))
		assert.Equal(t, map[string]string{KodeGopherTrustKey: configured.Trust}, data("ConfigMap", KodeGopherTrust))
		if namespace == KodeGopherSharedNamespace {
			mounted := server.Volumes[0].Secret.SecretName
			assert.Equal(t, map[string]string{KodeGopherTokensKey: "dXNlcjEgc2hhMjU2OjAwCg==", KodeGopherSignerKey: "e30="}, data("Secret", mounted))
			assert.Equal(t, server.Containers[0].Args[0], "-tokens="+server.Containers[0].VolumeMounts[0].MountPath+"/"+KodeGopherTokensKey)
		}
	}
	list := named(t, shared, "CiliumNetworkPolicy", KodeGopherAllowList)
	assert.Equal(t, KodeGopherSharedNamespace, list.GetNamespace())
	labels, _, err := unstructured.NestedStringMap(list.Object, "spec", "endpointSelector", "matchLabels")
	require.NoError(t, err)
	own, _, err := unstructured.NestedStringMap(only(t, shared, "SandboxTemplate").Object, "spec", "podTemplate", "metadata", "labels")
	require.NoError(t, err)
	assert.Equal(t, own, labels)
}

func TestTheServerIsMadeAnewWhenItsSettingsChange(t *testing.T) {
	note := func(s KodeGopherSettings) string {
		objects, err := s.Shared(rendered(t, KodeGopherShared))
		require.NoError(t, err)
		notes, _, err := unstructured.NestedStringMap(named(t, objects, "Deployment", KodeGopherName).Object, "spec", "template", "metadata", "annotations")
		require.NoError(t, err)
		return notes[settingsNote]
	}
	other := configured
	other.GoProxy = "off"
	first, again := note(configured), note(configured)
	assert.Equal(t, first, again)
	assert.NotEqual(t, first, note(other))
	assert.Regexp(t, "^[0-9a-f]{32}$", note(other))
}

func TestSettingsForNoServerAndWithoutHostsAreRefused(t *testing.T) {
	_, err := configured.Local(rendered(t, Reference))
	require.ErrorContains(t, err, "there is no Deployment")
	_, err = KodeGopherSettings{}.Shared(rendered(t, KodeGopherShared))
	require.ErrorContains(t, err, "names no host")
}

func TestTheClientMayCallTheServerAndTheControlPodsMayNot(t *testing.T) {
	objects := rendered(t, Controls)
	clients, controls := named(t, objects, "Namespace", ClientsNamespace), named(t, objects, "Namespace", ControlsNamespace)
	assert.Equal(t, "true", clients.GetLabels()[KodeGopherClients])
	assert.Empty(t, controls.GetLabels()[KodeGopherClients])
	client := named(t, objects, "Deployment", "client")
	assert.Equal(t, ClientsNamespace, client.GetNamespace())
}

// The stand-in has to be taken for the server by the policies, or the controls
// fail; and by no Service, or callers would be sent to it.
func TestTheStandInLooksLikeTheServerToThePoliciesAlone(t *testing.T) {
	for _, overlay := range []string{KodeGopherDev, KodeGopherSharedDev} {
		objects := rendered(t, overlay)
		standIn := named(t, objects, "Deployment", "stand-in")
		pod, _, err := unstructured.NestedStringMap(standIn.Object, "spec", "template", "metadata", "labels")
		require.NoError(t, err)
		assert.Equal(t, "kode-gopher", pod["app"])
		assert.Equal(t, "router", pod["stockade.dev/role"], "the suite finds it by that")
		assert.True(t, *podSpec(t, standIn, "spec", "template", "spec").EnableServiceLinks)
		services := 0
		for _, o := range objects {
			if o.GetKind() != "Service" {
				continue
			}
			services++
			selector, _, err := unstructured.NestedStringMap(o.Object, "spec", "selector")
			require.NoError(t, err)
			for key, value := range selector {
				if pod[key] != value {
					selector = nil
				}
			}
			assert.Empty(t, selector, "%s: %s sends callers to the stand-in", overlay, o.GetName())
		}
		assert.NotZero(t, services, "there is something that a sandbox must not be told of")
	}
}

func TestTheImpostorIsInAnotherNamespaceThanTheServer(t *testing.T) {
	impostor := named(t, rendered(t, Controls), "DaemonSet", "impostor")
	assert.Equal(t, ControlsNamespace, impostor.GetNamespace())
	labels, _, err := unstructured.NestedStringMap(impostor.Object, "spec", "template", "metadata", "labels")
	require.NoError(t, err)
	assert.Equal(t, "kode-gopher", labels["app"])
	assert.Equal(t, "impostor", labels["stockade.dev/role"])
}

// The scaffolds cannot be written by AllowList, and must mean the same.
func TestTheMutantsAllowListIsTheDeploymentsOwn(t *testing.T) {
	want, err := AllowList(Cilium, AllowListArgs{
		Namespace: KodeGopherSharedNamespace, Name: KodeGopherAllowList,
		Labels: map[string]string{SandboxLabel: KodeGopherSandboxApp}, Hosts: []string{"*.googleapis.com"},
	})
	require.NoError(t, err)
	for _, scaffold := range []string{"mutants/scaffold-kode-gopher-shared-server", "mutants/scaffold-kode-gopher-shared"} {
		got := named(t, rendered(t, scaffold), "CiliumNetworkPolicy", KodeGopherAllowList)
		assert.Empty(t, diff("", want[0].Object["spec"], got.Object["spec"]), scaffold)
	}
}

func TestAMutantOfASandboxNeedsNoServer(t *testing.T) {
	for scaffold, want := range map[string][]string{
		"scaffold-kode-gopher":               {"stand-in"},
		"scaffold-kode-gopher-server":        {"kode-gopher", "kode-gopher-router", "stand-in"},
		"scaffold-kode-gopher-shared":        {"stand-in"},
		"scaffold-kode-gopher-shared-server": {"kode-gopher", "kode-gopher-metadata", "kode-gopher-router", "stand-in"},
	} {
		var deployments []string
		objects := rendered(t, "mutants/"+scaffold)
		for _, o := range objects {
			if o.GetKind() == "Deployment" {
				deployments = append(deployments, o.GetName())
			}
		}
		assert.ElementsMatch(t, want, deployments, scaffold)
		assert.NotZero(t, kinds(objects)["Service"], "%s: the Services that a sandbox must not be told of stay", scaffold)
		space := only(t, objects, "Namespace")
		assert.Equal(t, "true", space.GetLabels()["stockade.dev/mutant"], scaffold)
	}
}

func TestAMutantOfKodeGopherHasItsPoolAndItsSettings(t *testing.T) {
	for base, want := range map[string][2]string{
		BaseReference: {PoolName, ""}, BasePlayground: {"", ""},
		BaseKodeGopherLocal: {KodeGopherPool, KodeGopherNamespace}, BaseKodeGopherShared: {KodeGopherPool, KodeGopherSharedNamespace},
	} {
		m := Mutant{ID: "x", Base: base}
		assert.Equal(t, want, [2]string{m.Pool(), m.SettingsFrom()}, base)
	}
	for _, m := range mutants(t) {
		assert.Equal(t, strings.HasPrefix(m.ID, "kode-gopher-"), m.SettingsFrom() != "", m.ID)
		assert.Equal(t, strings.HasPrefix(m.ID, "kode-gopher-shared-"), m.Base == BaseKodeGopherShared, m.ID)
		if m.SettingsFrom() == "" {
			continue
		}
		objects, err := m.Render(module(t))
		require.NoError(t, err)
		pool := only(t, objects, "SandboxWarmPool")
		assert.Equal(t, m.Pool(), pool.GetName(), m.ID)
	}
}

// Dataplane V2 redirects what is sent to kube-dns to a cache on the node, and judges it
// as sent to that: with one of them alone, sandboxes of some clusters resolve no name.
func TestASandboxMayAskTheResolverAndItsCache(t *testing.T) {
	template := only(t, rendered(t, KodeGopher), "SandboxTemplate")
	egress, _, err := unstructured.NestedSlice(template.Object, "spec", "networkPolicy", "egress")
	require.NoError(t, err)
	to, _, err := unstructured.NestedSlice(egress[0].(map[string]any), "to") //nolint:forcetypeassert // it is a rule
	require.NoError(t, err)
	assert.Equal(t, []any{dnsPeer("kube-dns"), dnsPeer("node-local-dns")}, to)
}
