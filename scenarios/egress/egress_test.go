// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

const nonce = "0123456789abcdef0123456789abcdef"

func TestTheFamilyRegisters(t *testing.T) {
	var r suite.Registry
	r.MustAdd(Scenarios()...)
	require.Len(t, r.All(), 15)
	for _, s := range r.All() {
		assert.GreaterOrEqual(t, s.Attempts, 2, "%s: a network denial must hold twice", s.ID)
		assert.NotEmpty(t, s.Witnesses, "%s: silence alone proves nothing", s.ID)
		for _, c := range []verdict.Class{verdict.Refused, verdict.Reset, verdict.NoName, verdict.HTTP401, verdict.HTTP403, verdict.Unreachable} {
			assert.NotContains(t, s.Accept, c, "%s: somebody beyond the policy answered, or nothing was sent", s.ID)
		}
	}
}

func TestASiteThatNamesNothingGivesNoEvidence(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, s := range Scenarios() {
		if s.ID == "egress.dns-tunnel" {
			continue // it asks the machine's own resolvers
		}
		steps := s.Attack(t.Context(), &probe.Env{Nonce: nonce})
		require.NotEmpty(t, steps, s.ID)
		for _, step := range steps {
			assert.False(t, step.OK, "%s: %s", s.ID, step.Name)
			assert.False(t, step.Class.IsEvidence(), "%s: %s: %s", s.ID, step.Name, step.Class)
		}
	}
}

// listener answers on loopback and stands in for every place of a site.
func listener(t *testing.T) (addr string, port int) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("hello\n"))
			_ = c.Close()
		}
	}()
	return l.Addr().String(), l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // a TCP listener's address
}

func TestAnOpenDoorIsFound(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	addr, port := listener(t)
	env := &probe.Env{Nonce: nonce, Site: probe.Site{
		PublicTCP: addr, PublicTLS: addr, PublicTCP6: addr, APIServer: addr, APIDirect: addr,
		Sibling: "127.0.0.1", ListenPort: port, Tunnel: "tunnel.test.",
	}}
	for _, s := range []suite.Scenario{tcpPublic(), tlsPublic(), ipv6Public(), apiServer(), siblingSandbox()} {
		assert.True(t, s.Attack(t.Context(), env)[0].OK, s.ID)
	}
}

func TestTheControlOfTheKubeletIsTheKubeletAlone(t *testing.T) {
	addr, _ := listener(t)
	steps := kubelet().Control.Act(t.Context(), &probe.Env{Nonce: nonce, Site: probe.Site{Kubelet: addr, NodeIP: "127.0.0.1"}})
	require.Len(t, steps, 1)
	assert.True(t, steps[0].OK)
}

func TestOnlyThePublicHalfIsDisclosed(t *testing.T) {
	addr, _ := listener(t)
	site := probe.Site{
		PublicTCP: addr, PublicTLS: addr, APIServer: addr, Metadata: addr, MetadataAlso: []string{addr, "[::1]:1"}, LinkLocalDNS: []string{addr},
		ClusterDNS: addr, RFC1918: []string{addr}, Tunnel: "tunnel.test.",
	}
	steps := defaultPolicyPublic().Attack(t.Context(), &probe.Env{Nonce: nonce, Site: site})
	disclosed := 0
	for _, s := range steps {
		if s.Expect == verdict.Disclosed {
			disclosed++
			continue
		}
		// Nobody listens for datagrams.
		datagram := strings.HasSuffix(s.Name, " over udp") || strings.HasPrefix(s.Name, "send to ")
		assert.NotEqual(t, datagram, s.OK, s.Name)
	}
	assert.Equal(t, 4, disclosed)
	assert.Len(t, steps, disclosed+len(privatePlaces(site)), "each place that is watched is tried, and the other way round")
	assert.Equal(t, verdict.Breached, verdict.Decide(verdict.Evidence{
		Attempts: []verdict.Attempt{{Nonce: nonce, Complete: true, Steps: steps}}}).Verdict(), "more than disclosed is a breach")
}

func TestATunnelsNameHoldsTheWholeNonceInItsLabels(t *testing.T) {
	name := tunnelName(&probe.Env{Nonce: nonce, Site: probe.Site{Tunnel: "tunnel.stockade.test."}})
	assert.Equal(t, "0123456789abcdef.0123456789abcdef.64617461.tunnel.stockade.test.", name)
}

func TestTheFlowsToLookForAreThoseTheSiteHas(t *testing.T) {
	w := suite.PolicyDrop(func(s probe.Site) []string { return []string{s.APIServer, s.APIDirect} })
	assert.Equal(t, []string{"10.96.0.1:443"}, w.Flow.To(probe.Site{APIServer: "10.96.0.1:443"}))
	assert.Empty(t, w.Flow.To(probe.Site{}))
}
