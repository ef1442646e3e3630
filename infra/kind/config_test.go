// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/yaml"
)

// laptop is an ordinary developer machine, nested a sandboxed CI machine.
var (
	laptop = HostFacts{CgroupV2: true, SysResource: true, IPv6: true}
	nested = HostFacts{IPv6: true}
)

func TestAnOrdinaryMachineGetsNoWorkarounds(t *testing.T) {
	all := strings.Join(append(kubeadmPatches(laptop, "repo"), containerdPatches(laptop)...), "\n")
	assert.NotContains(t, all, "cgroupfs")
	assert.NotContains(t, all, "failCgroupV1")
	assert.NotContains(t, all, "restrict_oom_score_adj")
	assert.NotContains(t, all, "SystemdCgroup = false")
	assert.NotContains(t, kubeletDropIn(laptop), "umount")
	assert.Contains(t, all, "runsc-systemd.toml", "gVisor follows the kubelet's driver")
}

func TestEachLimitOfTheHostHasItsOwnPatch(t *testing.T) {
	for _, tc := range []struct {
		name  string
		facts HostFacts
		want  []string
		not   []string
	}{
		{"cgroup v1 alone", HostFacts{SysResource: true, IPv6: true},
			[]string{"cgroupDriver: cgroupfs", "failCgroupV1: false", "SystemdCgroup = false", "umount -l"},
			[]string{"restrict_oom_score_adj", "runsc-systemd"}},
		{"a missing capability alone", HostFacts{CgroupV2: true, IPv6: true},
			[]string{"restrict_oom_score_adj = true", "runsc-systemd"},
			[]string{"cgroupfs", "umount"}},
		{"both", nested,
			[]string{"cgroupDriver: cgroupfs", "restrict_oom_score_adj = true"},
			[]string{"runsc-systemd"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			all := strings.Join(append(kubeadmPatches(tc.facts, "repo"), containerdPatches(tc.facts)...), "\n") + kubeletDropIn(tc.facts)
			for _, w := range tc.want {
				assert.Contains(t, all, w)
			}
			for _, n := range tc.not {
				assert.NotContains(t, all, n)
			}
		})
	}
}

func TestPatchesAreValidYAML(t *testing.T) {
	c := Config(nested, "stockade", "image", "repo", "/files")
	patches := c.KubeadmConfigPatches
	for _, n := range c.Nodes {
		patches = append(patches, n.KubeadmConfigPatches...)
	}
	require.Len(t, patches, 4)
	for _, p := range patches {
		var doc map[string]any
		require.NoError(t, yaml.UnmarshalStrict([]byte(p), &doc), p)
		assert.NotEmpty(t, doc["kind"], p)
	}
	var policy map[string]any
	require.NoError(t, yaml.UnmarshalStrict([]byte(auditPolicy), &policy))
}

func TestSandboxesHaveANodeOfTheirOwn(t *testing.T) {
	c := Config(laptop, "stockade", "image", "repo", "/files")
	require.Len(t, c.Nodes, 2)
	system, sandbox := c.Nodes[0], c.Nodes[1]
	assert.Equal(t, v1alpha4.ControlPlaneRole, system.Role)
	assert.Empty(t, system.Labels)
	assert.Contains(t, system.KubeadmConfigPatches[0], "taints: []")
	assert.Equal(t, map[string]string{"sandbox.gke.io/runtime": "gvisor"}, sandbox.Labels)
	assert.Contains(t, sandbox.KubeadmConfigPatches[0], "effect: NoSchedule")
}

func TestEveryNodeFileIsMountedIntoEveryNode(t *testing.T) {
	c := Config(laptop, "stockade", "image", "repo", "/files")
	for _, n := range c.Nodes {
		mounted := map[string]string{}
		for _, m := range n.ExtraMounts {
			assert.True(t, m.Readonly)
			mounted[m.ContainerPath] = m.HostPath
		}
		hostPaths := map[string]bool{}
		for path := range NodeFiles(laptop) {
			require.Contains(t, mounted, path)
			assert.False(t, hostPaths[mounted[path]], "two files share %s", mounted[path])
			hostPaths[mounted[path]] = true
		}
	}
}

func TestKubeadmFindsThePatchOfDNSByItsName(t *testing.T) {
	c := Config(laptop, "stockade", "image", "repo", "/files")
	var found bool
	for path := range NodeFiles(laptop) {
		if strings.Contains(c.Nodes[0].KubeadmConfigPatches[0], "patches: {directory: "+filepath.Dir(path)+"}") {
			// It refuses a folder that holds anything else.
			assert.Equal(t, "corednsdeployment.yaml", filepath.Base(path))
			found = true
		}
	}
	assert.True(t, found)
}

func TestAKernelWithoutIPv6GetsAnIPv4Cluster(t *testing.T) {
	c := Config(HostFacts{CgroupV2: true, SysResource: true}, "stockade", "image", "repo", "/files")
	assert.Equal(t, v1alpha4.IPv4Family, c.Networking.IPFamily)
	assert.Equal(t, "10.244.0.0/16", c.Networking.PodSubnet)
	assert.Equal(t, "10.96.0.0/16", c.Networking.ServiceSubnet)
	assert.Equal(t, v1alpha4.DualStackFamily, Config(laptop, "stockade", "image", "repo", "/files").Networking.IPFamily)
}

func TestTheCapabilityIsReadFromTheBoundingSet(t *testing.T) {
	for status, want := range map[string]bool{
		"Name:\tx\nCapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\n": true,
		"Name:\tx\nCapEff:\t000001ffffffffff\nCapBnd:\t000001fffeffffff\n": false,
	} {
		got, err := hasSysResource(status)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err := hasSysResource("Name:\tx\n")
	require.Error(t, err)
	_, err = hasSysResource("CapBnd:\tzz\n")
	require.Error(t, err)
}
