// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func names(t *testing.T, profiles ...string) (out []string) {
	t.Helper()
	all, err := Parts(profiles...)
	require.NoError(t, err)
	for _, p := range all {
		out = append(out, p.Name)
	}
	return out
}

func TestAProfileBringsItsPartsAndWhatAllNeed(t *testing.T) {
	assert.Equal(t, []string{"agent-sandbox-system", "controls", "router", "reference", "seed"}, names(t))
	assert.Equal(t, names(t), names(t, DefaultProfile))
	assert.Equal(t, []string{"agent-sandbox-system", "controls", "router", "playground"}, names(t, "playground"))
	assert.Equal(t, []string{"agent-sandbox-system", "controls", "router", "reference", "seed", "playground"}, names(t, "playground", DefaultProfile),
		"in their own order, whatever the caller's")
	assert.Len(t, names(t, AllProfiles), len(parts))
	_, err := Parts("nobody's")
	require.ErrorContains(t, err, "it is agent-sandbox, agent-sandbox-default, playground, kode-gopher-local, kode-gopher-shared or all")
}

func TestAProfileNeedsTheImagesOfItsOwnPods(t *testing.T) {
	images := func(profiles ...string) []string {
		chosen, err := Parts(profiles...)
		require.NoError(t, err)
		out, err := Images(module(t), chosen)
		require.NoError(t, err)
		return out
	}
	assert.Equal(t, []string{"stockade.local/probe:dev"}, images(DefaultProfile))
	assert.Equal(t, []string{"stockade.local/execution:dev", "stockade.local/playground:dev", "stockade.local/probe:dev"}, images("playground"),
		"that of the Pods which the execution service makes is in a ConfigMap")
	all := images(AllProfiles)
	for _, p := range Profiles() {
		assert.Subset(t, all, images(p), p)
	}
}
