// SPDX-License-Identifier: Apache-2.0

package descriptor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/suite"
)

func whole() Descriptor {
	return Descriptor{
		APIVersion: APIVersion, Kind: Kind, Kubeconfig: "/k", ClusterUID: "u", Controls: "c", Probe: "/p", RangeSocket: "/s", Seal: "stockade",
		Targets: map[string]Target{
			"reference": {Namespace: "n", Template: "t", Pool: "p"},
			"served":    {Namespace: "n", Template: "t", Pool: "p", Gateway: "g", Callers: "/c", SignIn: "/s"},
		},
		Features: []suite.Feature{suite.GVisor}, Disruptive: true,
	}
}

func TestADescriptorReadsBackWhatItWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "target.json")
	require.NoError(t, whole().Write(path))
	got, err := Read(path)
	require.NoError(t, err)
	assert.Equal(t, whole(), *got)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".target-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestADescriptorThatLeavesTheTargetOpenIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Descriptor){
		"no cluster":            func(d *Descriptor) { d.ClusterUID = "" },
		"no kubeconfig":         func(d *Descriptor) { d.Kubeconfig = "" },
		"no range":              func(d *Descriptor) { d.RangeSocket = "" },
		"no seal":               func(d *Descriptor) { d.Seal = "" },
		"no controls":           func(d *Descriptor) { d.Controls = "" },
		"no probe":              func(d *Descriptor) { d.Probe = "" },
		"no targets":            func(d *Descriptor) { d.Targets = nil },
		"a target without pool": func(d *Descriptor) { d.Targets = map[string]Target{"x": {Namespace: "n", Template: "t"}} },
		"a target of two kinds": func(d *Descriptor) {
			d.Targets = map[string]Target{"x": {Namespace: "n", Template: "t", Pool: "p", PodTemplate: "r", Service: "a/b"}}
		},
		"a gateway without sandboxes": func(d *Descriptor) {
			d.Targets = map[string]Target{"x": {Namespace: "n", PodTemplate: "r", Service: "a/b", Gateway: "g"}}
		},
		"a signer for nothing": func(d *Descriptor) {
			d.Targets = map[string]Target{"x": {Namespace: "n", Template: "t", Pool: "p", SignIn: "/s"}}
		},
		"callers of nothing": func(d *Descriptor) {
			d.Targets = map[string]Target{"x": {Namespace: "n", Template: "t", Pool: "p", Callers: "/c"}}
		},
		"a target without service": func(d *Descriptor) { d.Targets = map[string]Target{"x": {Namespace: "n", PodTemplate: "r"}} },
	} {
		t.Run(name, func(t *testing.T) {
			d := whole()
			spoil(&d)
			assert.Error(t, d.Write(filepath.Join(t.TempDir(), "target.json")))
		})
	}
}

func TestWhatCannotBeReadSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	_, err := Read(filepath.Join(dir, "absent.json"))
	assert.ErrorContains(t, err, "stockade up")
	for name, doc := range map[string]string{"no JSON": "{", "another kind": `{"apiVersion":"v1","kind":"Pod"}`, "a typo": `{"clusterUid":"u"}`} {
		path := filepath.Join(dir, "target.json")
		require.NoError(t, os.WriteFile(path, []byte(doc), 0o600))
		_, err := Read(path)
		assert.ErrorContains(t, err, path, name)
		assert.ErrorContains(t, err, "stockade up", name)
	}
}

func TestATargetOnGoogleCloudIsRefusedWithTheReason(t *testing.T) {
	_, err := Decode([]byte(`{"apiVersion": "stockade.dev/v1alpha1", "kind": "CloudTarget", "cluster": {"name": "c"}}`))
	assert.ErrorIs(t, err, ErrCloud)
}

func TestCallersAreReadFromAFileThatIsTheOwnersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "callers.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"user1": "one", "user2": "two"}`), 0o600))
	got, err := ReadCallers(path)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"user1": "one", "user2": "two"}, got)
	require.NoError(t, os.Chmod(path, 0o640))
	_, err = ReadCallers(path)
	assert.ErrorContains(t, err, "chmod 600")
}

func TestAFileOfCallersIsCheckedAndNeverQuoted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "callers.json")
	for _, text := range []string{"", "hunter2", `{"user1": hunter2}`, `{"user1": {"hunter2": 1}}`, `{"": "hunter2"}`, `{"hunter2": ""}`, "{}", "null", "[]"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := ReadCallers(path)
		require.ErrorContains(t, err, path, text)
		assert.NotContains(t, err.Error(), "hunter2")
	}
	_, err := ReadCallers(filepath.Join(t.TempDir(), "absent"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}
