// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

func TestADestinationThatTheSiteLacksIsNotLookedFor(t *testing.T) {
	site := probe.Site{PublicTCP: "203.0.113.7:8080", RFC1918: []string{"10.99.0.7:8080", "", "172.20.0.7:8080"}}
	all := NothingOut(func(s probe.Site) []string { return append([]string{s.PublicTCP, s.Metadata}, s.RFC1918...) })
	require.Len(t, all, 2)
	assert.Equal(t, RangeLog, all[0].Name)
	assert.Equal(t, Flows, all[1].Name)
	assert.Equal(t, []string{"203.0.113.7:8080", "10.99.0.7:8080", "172.20.0.7:8080"}, all[1].Flow.To(site))

	own := PolicyDrop(func(s probe.Site) []string { return s.RFC1918 })
	assert.Equal(t, []string{"10.99.0.7:8080", "172.20.0.7:8080"}, own.Flow.To(site))
	assert.Equal(t, []string{"10.99.0.7:8080", "", "172.20.0.7:8080"}, site.RFC1918, "the site is every scenario's")
}

func TestAQuestionIsAskedOfTheAPIServerAndOfNobodyElse(t *testing.T) {
	ask := func(context.Context, *APIEnv) []verdict.Step { return nil }
	for name, c := range map[string]struct {
		s    Scenario
		want bool
	}{
		"the API server alone":     {Scenario{Ask: ask}, true},
		"about a sandbox":          {Scenario{Ask: ask, Live: true}, true},
		"an attack in a sandbox":   {Scenario{Attack: func(context.Context, *probe.Env) []verdict.Step { return nil }}, false},
		"a server of the target's": {Scenario{Ask: ask, Server: true}, false},
		"as somebody":              {Scenario{Ask: ask, As: []string{"alice"}}, false},
		"a witness looks":          {Scenario{Ask: ask, Witnesses: []Witness{{Name: Flows}}}, false},
		"it listens":               {Scenario{Ask: ask, Listener: true}, false},
		"it stores something":      {Scenario{Ask: ask, Stores: true}, false},
		"it loads":                 {Scenario{Ask: ask, Exclusive: true}, false},
		"it kills":                 {Scenario{Ask: ask, MayKill: true}, false},
	} {
		assert.Equal(t, c.want, c.s.Question(), name)
	}
}

func TestWhoseWordAVerdictRestsOn(t *testing.T) {
	ask := func(context.Context, *APIEnv) []verdict.Step { return nil }
	attack := func(context.Context, *probe.Env) []verdict.Step { return nil }
	witnesses := []Witness{{Name: APIServer}}
	for name, c := range map[string]struct {
		s    Scenario
		want bool
	}{
		"the probe's":                          {Scenario{Attack: attack}, true},
		"a witness's as well":                  {Scenario{Attack: attack, Witnesses: witnesses}, false},
		"the API server's":                     {Scenario{Ask: ask}, false},
		"a server's":                           {Scenario{Ask: ask, Server: true}, false},
		"that of a program which it ran":       {Scenario{Ask: ask, Server: true, SelfReported: true}, true},
		"that of a program and of a witness's": {Scenario{Ask: ask, Server: true, SelfReported: true, Witnesses: witnesses}, false},
	} {
		assert.Equal(t, c.want, c.s.ProbeOnly(), name)
	}
}
