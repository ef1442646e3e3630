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
	}
}
