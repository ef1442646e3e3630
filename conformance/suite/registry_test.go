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

func nothing(context.Context, *probe.Env) []verdict.Step { return nil }

func valid(id string) Scenario {
	return Scenario{
		ID: id, Title: "Do a thing", About: "It.", Claims: []string{"AS-01"}, Kind: Guarantee,
		Severity: High, Attack: nothing, Control: ControlSpec{Why: "it works there"},
		Accept: []verdict.Class{verdict.Dropped}, Mutants: []string{"broken"},
	}
}

func TestADeclarationThatCouldBeVacuousIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Scenario){
		"no claim":             func(s *Scenario) { s.Claims = nil },
		"a claim of no system": func(s *Scenario) { s.Claims = []string{"XX-1"} },
		"no control":           func(s *Scenario) { s.Control.Why = "" },
		"no accepted class":    func(s *Scenario) { s.Accept = nil },
		"unknown is accepted":  func(s *Scenario) { s.Accept = []verdict.Class{verdict.Unknown} },
		"no mutant":            func(s *Scenario) { s.Mutants = nil },
		"a path for a mutant":  func(s *Scenario) { s.Mutants = []string{"../x"} },
		"no action":            func(s *Scenario) { s.Attack = nil },
		"an id without family": func(s *Scenario) { s.ID = "thing" },
		"an id with a capital": func(s *Scenario) { s.ID = "net.Thing" },
		"an id with two dots":  func(s *Scenario) { s.ID = "net.a.thing" },
		"a dash at the end":    func(s *Scenario) { s.ID = "net-.thing" },
		"no severity":          func(s *Scenario) { s.Severity = "" },
		"nobody's own report":  func(s *Scenario) { s.SelfReported = true },
		"an API without control": func(s *Scenario) {
			s.Attack, s.Ask = nil, func(context.Context, *APIEnv) []verdict.Step { return nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			var r Registry
			s := valid("net.thing")
			spoil(&s)
			assert.Error(t, r.Add(s))
		})
	}
}

func TestAnIDIsTakenOnce(t *testing.T) {
	var r Registry
	require.NoError(t, r.Add(valid("net.thing")))
	assert.Error(t, r.Add(valid("net.thing")))
	assert.NoError(t, r.Add(valid("net-work.a-thing")), "a family may have a dash")
}

func TestAWordThatSelectsNothingIsAnError(t *testing.T) {
	var r Registry
	r.MustAdd(valid("net.a"), valid("net.b"), valid("disk.c"))
	for word, want := range map[string]int{"net": 2, "disk.c": 1, "AS-01": 3, "broken": 3} {
		got, err := r.Select(word)
		require.NoError(t, err)
		assert.Len(t, got, want, word)
	}
	_, err := r.Select("net", "nett")
	assert.ErrorContains(t, err, `"nett"`)
	all, err := r.Select()
	require.NoError(t, err)
	assert.Len(t, all, 3)
}

func TestTheControlIsTheAttackUnlessAnotherIsDeclared(t *testing.T) {
	var r Registry
	r.MustAdd(valid("net.thing"))
	_, ok := r.Find("net.thing", probe.Control)
	assert.True(t, ok)
	_, ok = r.Find("net.thing", "else")
	assert.False(t, ok)
	_, ok = r.Find("net.none", probe.Attack)
	assert.False(t, ok)
}
