// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryClaimIsDeclaredOnceAndIsOfAProfile(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Claims {
		assert.Regexp(t, claimForm, c.ID)
		assert.False(t, seen[c.ID], "%s stands there twice", c.ID)
		seen[c.ID] = true
		assert.NotEmpty(t, c.Text, c.ID)
		assert.NotEmpty(t, c.Kinds, c.ID)
		assert.Contains(t, Topics, c.Topic, c.ID)
		assert.True(t, slices.ContainsFunc(Profiles, func(p Profile) bool { return slices.Contains(p.Claims, c.ID) }),
			"no profile answers for %s", c.ID)
	}
	for _, p := range Profiles {
		for _, c := range p.Claims {
			assert.True(t, seen[c], "profile %s claims %s, which no text does", p.ID, c)
		}
	}
}

func TestAProfileWithMutantsHasACanary(t *testing.T) {
	for _, p := range Profiles {
		if p.ID != "agent-sandbox-default" { // it is proved with the mutants of the reference
			assert.Regexp(t, idForm, p.Canary, p.ID)
		}
	}
}

func TestAProfileIsNamedOnce(t *testing.T) {
	ids := ProfileIDs()
	slices.Sort(ids)
	assert.Equal(t, slices.Compact(slices.Clone(ids)), ids)
	_, ok := ProfileByID(DefaultProfile)
	assert.True(t, ok)
	_, ok = ProfileByID("nothing")
	assert.False(t, ok)
}

func TestAScenarioIsOfTheProfilesWhoseClaimsItSpeaksFor(t *testing.T) {
	var r Registry
	kernel, door, policy := valid("kernel.ask"), valid("door.knock"), valid("net.default")
	kernel.Claims, door.Claims, policy.Claims = []string{"AS-01", "PG-01"}, []string{"PG-02"}, []string{"AS-05"}
	policy.Target = "seed"
	r.MustAdd(kernel, door, policy)
	ids := func(profile string, words ...string) (out []string) {
		p, ok := ProfileByID(profile)
		require.True(t, ok)
		found, err := r.Pick(p, words...)
		require.NoError(t, err)
		for _, s := range found {
			out = append(out, s.ID)
		}
		return out
	}
	assert.Equal(t, []string{"kernel.ask"}, ids("agent-sandbox"))
	assert.Equal(t, []string{"net.default"}, ids("agent-sandbox-default"))
	assert.Equal(t, []string{"door.knock", "kernel.ask"}, ids("playground"))
	assert.Equal(t, []string{"kernel.ask"}, ids("playground", "kernel"))

	p, _ := ProfileByID("agent-sandbox")
	_, err := r.Pick(p, "kernel", "door")
	assert.ErrorContains(t, err, "--profile playground")
	_, err = r.Pick(p, "nonsense")
	assert.ErrorContains(t, err, `"nonsense"`)
}
