// SPDX-License-Identifier: Apache-2.0

package node

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testBuilder has the keys of this checkout and an empty home.
func testBuilder(t *testing.T) *builder {
	t.Helper()
	source, err := filepath.Abs(checkout)
	require.NoError(t, err)
	b := &builder{
		Options:    Options{Home: t.TempDir(), Source: source},
		tc:         testToolchain,
		pauseKey:   "0123456789ab",
		moduleDirs: map[string]string{},
	}
	require.NoError(t, b.keyComponents(Components()))
	return b
}

func TestImagesAreNamedAsKubeadmNamesThem(t *testing.T) {
	names, err := parseImageList("stockade.local/kube-apiserver:v1.36.3\nstockade.local/pause:3.10.2\n")
	require.NoError(t, err)
	assert.Equal(t, map[string]string{
		"kube-apiserver": "stockade.local/kube-apiserver:v1.36.3",
		"pause":          "stockade.local/pause:3.10.2",
	}, names)

	_, err = parseImageList("registry.example/pause:3.10.2")
	assert.ErrorContains(t, err, `unexpected name "registry.example/pause:3.10.2"`)
}

func TestNoImageNamesAnythingThatCouldBeFetched(t *testing.T) {
	for _, s := range testBuilder(t).clusterImages() {
		if s.Kubeadm == "" {
			assert.Regexp(t, `^stockade\.local/[a-z-]+:[a-z0-9.]+$`, s.Name)
		}
		assert.NotEmpty(t, append(s.Config.Entrypoint, s.Config.Cmd...), s.Name)
	}
}

func TestAssemblingWithoutItsTreeSaysWhichOne(t *testing.T) {
	b := testBuilder(t)
	_, err := b.assemble(t.TempDir(), imageSpec{Name: "x", Trees: []debianTree{minimalTree}})
	assert.ErrorContains(t, err, "the minimal tree is gone; run the build again")
}

func TestTestsOfTheBPFSourcesStayOut(t *testing.T) {
	assert.Zero(t, bpfMode("var/lib/cilium/bpf/tests/tc.c"))
	assert.NotZero(t, bpfMode("var/lib/cilium/bpf/bpf_lxc.c"))
	assert.NotZero(t, bpfMode("var/lib/cilium/bpf/lib/tests.h"))
}

func TestEveryTreeIsListedOnceAndTheMinimalFirst(t *testing.T) {
	b := testBuilder(t)
	var names []string
	for _, tree := range trees(append(b.clusterImages(), b.nodeImage())...) {
		names = append(names, tree.Name)
	}
	assert.Equal(t, "minimal", names[0])
	assert.ElementsMatch(t, []string{"minimal", "cilium", "python", "node"}, names)
}
