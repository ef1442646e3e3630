// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/scenarios/all"
)

func TestTheGateIsOfTheTargetsThatItCanHoldOn(t *testing.T) {
	for _, p := range suite.Profiles {
		s := gateOf(p, p.Target)
		if p.ID != suite.DefaultProfile {
			assert.Nil(t, s, "%s: its own policy lets the gate's packets out, or there is no network", p.ID)
			continue
		}
		require.NotNil(t, s, p.ID)
		assert.Contains(t, s.Claims, "AS-12")
		for _, target := range []string{"seed", "template/mine"} {
			assert.Nil(t, gateOf(p, target), target)
		}
	}
}

func TestTheCanaryIsJudgedOutsideOfTheSandbox(t *testing.T) {
	s, ok := all.Registry.Get(canary)
	require.True(t, ok)
	assert.NotNil(t, s.Judge)
}
