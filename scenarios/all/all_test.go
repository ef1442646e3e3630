// SPDX-License-Identifier: Apache-2.0

package all

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/stockade-dev/stockade/conformance/suite"
)

func TestEveryScenarioIsOfAProfile(t *testing.T) {
	for _, s := range Registry.All() {
		assert.NotEmpty(t, suite.ProfilesOf(s), "%s would be run by nobody", s.ID)
		for _, c := range s.Claims {
			assert.NotEmpty(t, suite.ClaimText(c), "%s claims %s, which no text does", s.ID, c)
		}
	}
	for _, p := range suite.Profiles {
		for _, id := range p.Also {
			_, ok := Registry.Get(id)
			assert.True(t, ok, "%s: there is no scenario %s", p.ID, id)
		}
		if p.Canary != "" {
			_, ok := Registry.Get(p.Canary)
			assert.True(t, ok, "%s: there is no canary %s", p.ID, p.Canary)
		}
	}
}

// A denial on the network is a silence, and so is a lost packet.
func TestWhatRestsOnTheNetworkIsTriedTwice(t *testing.T) {
	for _, s := range Registry.All() {
		for _, w := range s.Witnesses {
			if w.Name == suite.RangeLog || w.Name == suite.Flows {
				assert.GreaterOrEqual(t, s.Attempts, 2, "%s has the witness %s", s.ID, w.Name)
			}
		}
	}
}

// Only one of the two deployments of kode-gopher makes each of these claims.
func TestWhatOneDeploymentOfKodeGopherClaimsIsAskedOfThatOne(t *testing.T) {
	profiles := func(id string) []string {
		s, ok := Registry.Get(id)
		assert.True(t, ok, id)
		return suite.ProfilesOf(s)
	}
	for _, id := range []string{"kode-gopher.allowed-host", "kode-gopher.unlisted-host", "kode-gopher.other-port", "kode-gopher.shared-front-end", "kode-gopher.perimeter"} {
		assert.Equal(t, []string{"kode-gopher-shared"}, profiles(id), id)
	}
	assert.Equal(t, []string{"kode-gopher-local"}, profiles("kode-gopher.public-data"))
	for _, id := range []string{"kode-gopher.run-program", "kode-gopher.service-links", "kode-gopher.port-from-sibling", "kode-gopher.port-from-stranger",
		"kode-gopher.port-from-impostor", "kode-gopher.other-pods", "kode-gopher.private-in-ipv6", "kode-gopher.dns-tunnel"} {
		assert.Equal(t, []string{"kode-gopher-local", "kode-gopher-shared"}, profiles(id), id)
	}
	// On a cluster of one's own, all that is public is open.
	for _, id := range []string{"egress.tcp-public", "egress.tls-public", "egress.udp-public", "egress.icmp", "egress.ipv6-public", "egress.dns-foreign-resolver"} {
		assert.Contains(t, profiles(id), "kode-gopher-shared", id)
		assert.NotContains(t, profiles(id), "kode-gopher-local", id)
	}
	// A sandbox may ask the cluster's DNS, which there means anybody's.
	for _, id := range []string{"egress.cluster-dns", "egress.dns-tunnel", "egress.dns-link-local"} {
		assert.NotContains(t, profiles(id), "kode-gopher-local", id)
		assert.NotContains(t, profiles(id), "kode-gopher-shared", id)
	}
}
