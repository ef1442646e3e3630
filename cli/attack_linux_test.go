// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/overlays"
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

func TestEveryCanaryIsJudgedOutsideOfTheSandbox(t *testing.T) {
	for _, base := range overlays.Bases {
		p, ok := suite.ProfileByID(base)
		require.True(t, ok, base)
		s, ok := all.Registry.Get(p.Canary)
		require.True(t, ok, "%s: there is no scenario %s", base, p.Canary)
		assert.NotNil(t, s.Judge, s.ID)
		assert.Equal(t, suite.Function, s.Kind, s.ID)
	}
}

func TestAStandInIsBesideTheServerThatItLooksLike(t *testing.T) {
	for name, target := range targets {
		want := ""
		if target.Gateway != "" {
			want = target.Namespace
		}
		assert.Equal(t, want, routerOf(target), name)
	}
	assert.NotEmpty(t, routerOf(targets[kodeGopherShared]))
}
