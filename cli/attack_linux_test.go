// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/scenarios/all"
)

func TestTheReferenceHasToShowItsEnforcer(t *testing.T) {
	g := gateOf("reference")
	require.NotNil(t, g)
	assert.Contains(t, g.Claims, "AS-12")
	for _, target := range []string{"seed", "template/mine"} {
		assert.Nil(t, gateOf(target), target)
	}
}

func TestTheCanaryIsJudgedOutsideOfTheSandbox(t *testing.T) {
	s, ok := all.Registry.Get(canary)
	require.True(t, ok)
	assert.NotNil(t, s.Judge)
}
