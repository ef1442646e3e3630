// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/scenarios/all"
)

func TestEveryTargetButTheSeedHasToShowItsEnforcer(t *testing.T) {
	for _, target := range []string{"reference", "template/mine"} {
		g := gateOf(target)
		require.NotNil(t, g, target)
		assert.Contains(t, g.Claims, "AS-12", target)
	}
	assert.Nil(t, gateOf("seed"))
}

func TestTheCanaryIsJudgedOutsideOfTheSandbox(t *testing.T) {
	s, ok := all.Registry.Get(canary)
	require.True(t, ok)
	assert.NotNil(t, s.Judge)
}
