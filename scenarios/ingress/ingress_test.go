// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

func TestTheFamilyRegisters(t *testing.T) {
	var r suite.Registry
	r.MustAdd(Scenarios()...)
	require.Len(t, r.All(), 4)
	for _, s := range r.All() {
		assert.True(t, s.Listener, "%s: without a listener a refusal looks like a denial", s.ID)
		assert.Equal(t, suite.Router, s.Control.At, "%s: only the router may get in", s.ID)
		assert.Equal(t, s.From, s.Witnesses[0].Flow.From, "%s: the flow begins where the attack does", s.ID)
		assert.Equal(t, []verdict.Class{verdict.Dropped}, s.Accept, s.ID)
		assert.GreaterOrEqual(t, s.Attempts, 2, s.ID)
	}
}

func TestASandboxThatLetsOneInIsFound(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // a TCP listener's address
	env := &probe.Env{Nonce: "n", Site: probe.Site{Own: "127.0.0.1", ListenPort: port}}
	assert.True(t, knock(t.Context(), env)[0].OK, "the kernel accepts before the listener does")
	env.Part = probe.Control
	assert.False(t, knock(t.Context(), env)[0].OK, "the control wants the listener's own word")
	env.Part = probe.Attack
	require.NoError(t, l.Close())
	s := knock(t.Context(), env)[0]
	assert.Equal(t, verdict.Refused, s.Class, "which the scenarios do not take for a denial")
}

func TestWithoutAnAddressNothingIsTried(t *testing.T) {
	assert.False(t, knock(t.Context(), &probe.Env{})[0].Class.IsEvidence())
	assert.Empty(t, own(probe.Site{}))
	assert.Empty(t, own(probe.Site{Own: "10.0.0.9"}), "a drop of anything at all is none of the attack")
	assert.Equal(t, []string{"10.0.0.9:47321", "10.0.0.9"}, own(probe.Site{Own: "10.0.0.9", ListenPort: 47321}))
}

func TestTheDefaultPolicyIsAttackedToo(t *testing.T) {
	seed := 0
	for _, s := range Scenarios() {
		if s.Target == "seed" {
			seed++
			assert.Equal(t, []string{"AS-04"}, s.Claims)
			assert.Contains(t, s.Mutants, "network-unmanaged", "%s: no policy at all must be noticed", s.ID)
		}
	}
	assert.Equal(t, 2, seed)
}
