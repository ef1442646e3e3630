// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"testing"

	"github.com/pelletier/go-toml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const kindsConfig = `version = 2
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.example/pause:3.10"
  restrict_oom_score_adj = false
`

func TestContainerdGetsOurPauseImageAndGVisorAndKeepsTheRest(t *testing.T) {
	out, err := containerdConfig([]byte(kindsConfig), "stockade.local/pause:3.10.2")
	require.NoError(t, err)
	tree, err := toml.LoadBytes(out)
	require.NoError(t, err)
	cri := []string{"plugins", "io.containerd.grpc.v1.cri"}
	at := func(keys ...string) any { return tree.GetPath(append(cri[:2:2], keys...)) }
	assert.Equal(t, "stockade.local/pause:3.10.2", at("sandbox_image"))
	assert.Equal(t, false, at("restrict_oom_score_adj"))
	assert.Equal(t, "io.containerd.runc.v2", at("containerd", "runtimes", "runc", "runtime_type"))
	assert.Equal(t, "io.containerd.runsc.v1", at("containerd", "runtimes", "runsc", "runtime_type"))
	assert.Equal(t, "/etc/containerd/runsc.toml", at("containerd", "runtimes", "runsc", "options", "ConfigPath"))
}

func TestConfigurationThatSetsNoPauseImageIsRefused(t *testing.T) {
	_, err := containerdConfig([]byte("version = 2\n"), "x")
	assert.ErrorContains(t, err, "sets sandbox_image 0 times")
}

func TestGVisorRunsOnSystrapWithEitherCgroupDriver(t *testing.T) {
	for text, systemd := range map[string]any{runscConfig: nil, runscSystemdConfig: "true"} {
		tree, err := toml.Load(text)
		require.NoError(t, err)
		assert.Equal(t, "systrap", tree.GetPath([]string{"runsc_config", "platform"}))
		assert.Equal(t, systemd, tree.GetPath([]string{"runsc_config", "systemd-cgroup"}))
	}
}

func TestBaseSpecHidesTheHostAndSetsNoLimits(t *testing.T) {
	out, err := baseSpec([]byte(`{"ociVersion":"1.2.0","process":{"cwd":"/","rlimits":[{"type":"RLIMIT_NOFILE"}]},
		"hooks":{"createContainer":[{"path":"/first"}]}}`))
	require.NoError(t, err)
	var spec struct {
		OCIVersion string `json:"ociVersion"`
		Process    map[string]any
		Hooks      struct{ CreateContainer []struct{ Path string } }
	}
	require.NoError(t, json.Unmarshal(out, &spec))
	assert.Equal(t, "1.2.0", spec.OCIVersion)
	assert.Equal(t, map[string]any{"cwd": "/"}, spec.Process)
	require.Len(t, spec.Hooks.CreateContainer, 2)
	assert.Equal(t, "/kind/bin/mount-product-files.sh", spec.Hooks.CreateContainer[1].Path)

	_, err = baseSpec([]byte(`{}`))
	assert.ErrorContains(t, err, "no process")
}

func TestScriptsOfKindAreExecutableAndItsOtherFilesAreNot(t *testing.T) {
	assert.EqualValues(t, 0o755, kindMode("usr/local/bin/entrypoint"))
	assert.EqualValues(t, 0o755, kindMode("kind/bin/undo-mount-hacks.sh"))
	assert.EqualValues(t, 0o644, kindMode("etc/crictl.yaml"))
	for _, f := range notFromKind {
		assert.Zero(t, kindMode(f), f)
	}
}

func TestNodeHasEveryProgramOnThePathItsUnitsUse(t *testing.T) {
	paths := map[string]bool{}
	for _, e := range testBuilder(t).nodeImage().Entries {
		paths[e.Path] = true
	}
	for _, p := range []string{
		"usr/bin/kubelet", "usr/bin/kubeadm", "usr/bin/kubectl", "usr/local/bin/containerd", "usr/local/bin/runsc",
		"usr/local/bin/containerd-shim-runsc-v1", "usr/local/bin/containerd-shim-runc-v2", "usr/local/bin/crictl",
		"opt/cni/bin/loopback", "opt/cni/bin/cilium-cni", "kind/version",
	} {
		assert.True(t, paths[p], p)
	}
}
