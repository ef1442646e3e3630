// SPDX-License-Identifier: Apache-2.0

package ociwrap

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheSubCommandIsFoundBehindGlobalFlags(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want Invocation
	}{
		{"as containerd's shim calls create",
			[]string{"--root", "/run/runc", "--log", "/b/log.json", "--log-format", "json", "create", "--bundle", "/b", "--pid-file", "/b/init.pid", "id"},
			Invocation{Command: "create", Bundle: "/b"}},
		{"as containerd's shim calls exec",
			[]string{"--root=/run/runc", "exec", "--process", "/tmp/p.json", "--detach", "--pid-file", "/x.pid", "id"},
			Invocation{Command: "exec", Process: "/tmp/p.json"}},
		{"with an equals sign", []string{"run", "--bundle=/b", "id"}, Invocation{Command: "run", Bundle: "/b"}},
		{"with short flags", []string{"create", "-b", "/b", "id"}, Invocation{Command: "create", Bundle: "/b"}},
		{"in the working directory", []string{"create", "id"}, Invocation{Command: "create", Bundle: "."}},
		{"a container that is called create", []string{"--log", "create", "delete", "create"}, Invocation{Command: "delete"}},
		{"a signal number is no process file", []string{"kill", "-p", "id"}, Invocation{Command: "kill"}},
		{"a flag that lost its value", []string{"create", "--bundle"}, Invocation{Command: "create", Bundle: "."}},
		{"nothing", nil, Invocation{}},
	} {
		t.Run(tc.name, func(t *testing.T) { assert.Equal(t, tc.want, ParseArgs(tc.args)) })
	}
}

func weak() Privileges {
	return Privileges{
		Bounding:    map[string]bool{"CAP_CHOWN": true, "CAP_SYS_ADMIN": true},
		HardLimits:  map[string]uint64{"RLIMIT_NOFILE": 4096},
		OOMScoreAdj: 0,
	}
}

const config = `{
  "ociVersion": "1.0.2", "future": {"field": 18446744073709551615},
  "process": {
    "args": ["/sbin/init"],
    "capabilities": {
      "bounding": ["CAP_CHOWN", "CAP_SYS_RESOURCE", "CAP_SYS_ADMIN"],
      "effective": ["CAP_SYS_RESOURCE"]
    },
    "rlimits": [
      {"type": "RLIMIT_NOFILE", "hard": 18446744073709551615, "soft": 1024},
      {"type": "RLIMIT_RTPRIO", "hard": 99, "soft": 99}
    ],
    "oomScoreAdj": -500
  }
}`

func TestCreateAsksOnlyForWhatTheHostHas(t *testing.T) {
	bundle := t.TempDir()
	file := filepath.Join(bundle, "config.json")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))

	require.NoError(t, Adapt(Invocation{Command: "create", Bundle: bundle}, weak()))

	got, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.JSONEq(t, `{
  "ociVersion": "1.0.2", "future": {"field": 18446744073709551615},
  "process": {
    "args": ["/sbin/init"],
    "capabilities": {"bounding": ["CAP_CHOWN", "CAP_SYS_ADMIN"], "effective": []},
    "rlimits": [
      {"type": "RLIMIT_NOFILE", "hard": 4096, "soft": 1024},
      {"type": "RLIMIT_RTPRIO", "hard": 99, "soft": 99}
    ],
    "oomScoreAdj": 0
  }
}`, string(got))
	assert.Contains(t, string(got), "18446744073709551615", "numbers pass unrounded")
}

func TestExecIsReducedToo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "process.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"capabilities":{"permitted":["CAP_SYS_RESOURCE","CAP_CHOWN"]}}`), 0o600))

	require.NoError(t, Adapt(Invocation{Command: "exec", Process: file}, weak()))

	got, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.JSONEq(t, `{"capabilities":{"permitted":["CAP_CHOWN"]}}`, string(got))
}

func TestAHostThatMayRaiseLimitsIsLeftAlone(t *testing.T) {
	have := weak()
	have.Bounding["CAP_SYS_RESOURCE"] = true
	process := map[string]any{
		"rlimits":     []any{map[string]any{"type": "RLIMIT_NOFILE", "hard": json.Number("1048576")}},
		"oomScoreAdj": json.Number("-500"),
	}
	Reduce(process, have)
	assert.Equal(t, map[string]any{
		"rlimits":     []any{map[string]any{"type": "RLIMIT_NOFILE", "hard": json.Number("1048576")}},
		"oomScoreAdj": json.Number("-500"),
	}, process)
}

func TestAProcessWithoutCapabilitiesIsNoError(t *testing.T) {
	process := map[string]any{"capabilities": nil, "rlimits": "odd"}
	Reduce(process, weak())
	assert.Equal(t, map[string]any{"capabilities": nil, "rlimits": "odd"}, process)
}

func TestABrokenDescriptionIsReported(t *testing.T) {
	bundle := t.TempDir()
	require.ErrorContains(t, Adapt(Invocation{Command: "create", Bundle: bundle}, weak()), "reading the container's description")
	require.NoError(t, os.WriteFile(filepath.Join(bundle, "config.json"), []byte(`[]`), 0o600))
	require.ErrorContains(t, Adapt(Invocation{Command: "create", Bundle: bundle}, weak()), "config.json")
}

func TestPrivilegesOfThisProcessAreReadable(t *testing.T) {
	p, err := ReadPrivileges()
	require.NoError(t, err)
	assert.Contains(t, p.Bounding, "CAP_SYS_RESOURCE")
	assert.Contains(t, p.HardLimits, "RLIMIT_NOFILE")
}
