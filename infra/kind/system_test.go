// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// module pretends to be Cilium's module with one definition a folder.
func module(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for i, dir := range definitions {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
		name := []string{"ciliumnetworkpolicies.cilium.io", "ciliumpodippools.cilium.io"}[i]
		text := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: " + name + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(root, dir, "a.yaml"), []byte(text), 0o644))
	}
	return root
}

func find(t *testing.T, objs []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, o := range objs {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

func TestTheSystemHasDefinitionsNetworkAndRuntimeClass(t *testing.T) {
	objs, err := systemObjects(laptop, module(t))
	require.NoError(t, err)
	find(t, objs, "CustomResourceDefinition", "ciliumpodippools.cilium.io")
	find(t, objs, "DaemonSet", "cilium")
	class := find(t, objs, "RuntimeClass", "gvisor")
	selector, _, err := unstructured.NestedStringMap(class.Object, "scheduling", "nodeSelector")
	require.NoError(t, err)
	assert.Equal(t, map[string]string{SandboxKey: SandboxValue}, selector)
}

func TestMissingDefinitionsAreAnErrorAndNotAnEmptyList(t *testing.T) {
	_, err := systemObjects(laptop, t.TempDir())
	require.ErrorContains(t, err, "there is no manifest")
	_, err = systemObjects(laptop, "")
	require.ErrorContains(t, err, "not given")
}

func TestTheNetworkAgreesWithTheClustersAddresses(t *testing.T) {
	objs, err := systemObjects(laptop, module(t))
	require.NoError(t, err)
	config := find(t, objs, "ConfigMap", "cilium-config")
	data, _, err := unstructured.NestedStringMap(config.Object, "data")
	require.NoError(t, err, "every value of a ConfigMap is a string")
	assert.Equal(t, PodSubnets, data["ipv4-native-routing-cidr"]+","+data["ipv6-native-routing-cidr"])
	assert.Equal(t, "true", data["bpf-lb-sock-hostns-only"])
	assert.Equal(t, "none", data["monitor-aggregation"])
	// Policies with host names need the agent's DNS proxy, which is a part of
	// this one and needs iptables' TPROXY, on by default.
	assert.Equal(t, "true", data["enable-l7-proxy"])
	assert.NotContains(t, data, "install-iptables-rules")
}

func TestWithoutIPv6TheNetworkDoesNotAskForIt(t *testing.T) {
	objs, err := systemObjects(HostFacts{CgroupV2: true, SysResource: true}, module(t))
	require.NoError(t, err)
	data, _, err := unstructured.NestedStringMap(find(t, objs, "ConfigMap", "cilium-config").Object, "data")
	require.NoError(t, err)
	assert.Equal(t, "false", data["enable-ipv6"])
	assert.NotContains(t, data, "k8s-require-ipv6-pod-cidr")
	assert.Equal(t, "true", data["enable-ipv4"])
}

func TestTheAgentGetsTheAPIServersAddress(t *testing.T) {
	objs, err := systemObjects(laptop, module(t))
	require.NoError(t, err)
	filled := find(t, withAPIHost(objs, "172.30.0.9"), "DaemonSet", "cilium")
	text, err := filled.MarshalJSON()
	require.NoError(t, err)
	assert.Contains(t, string(text), "172.30.0.9")
	assert.NotContains(t, string(text), apiHostPlaceholder)

	original, err := find(t, objs, "DaemonSet", "cilium").MarshalJSON()
	require.NoError(t, err)
	assert.Contains(t, string(original), apiHostPlaceholder, "the objects that were read stay as they are")
}

func TestTheDigestSeesEveryInput(t *testing.T) {
	files := NodeFiles(laptop)
	base, err := digest(Config(laptop, "a", "image:1", "repo", "/f"), files)
	require.NoError(t, err)
	same, err := digest(Config(laptop, "a", "image:1", "repo", "/f"), files)
	require.NoError(t, err)
	assert.Equal(t, base, same)
	image, err := digest(Config(laptop, "a", "image:2", "repo", "/f"), files)
	require.NoError(t, err)
	assert.NotEqual(t, base, image)
	host, err := digest(Config(nested, "a", "image:1", "repo", "/f"), NodeFiles(nested))
	require.NoError(t, err)
	assert.NotEqual(t, base, host)
	joined, err := digest("ab", "c")
	require.NoError(t, err)
	other, err := digest("a", "bc")
	require.NoError(t, err)
	assert.NotEqual(t, joined, other, "parts do not run into each other")
}
