// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var t0 = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func attempt(nonce string, steps ...Step) Attempt {
	return Attempt{Nonce: nonce, Complete: true, Steps: steps, Start: t0, End: t0.Add(time.Second)}
}

// complete is evidence with nothing missing; each test takes one thing away.
func complete() Evidence {
	return Evidence{
		Attempts:    []Attempt{attempt("a1", Step{Name: "connect", Class: Dropped}), attempt("a2", Step{Name: "connect", Class: Dropped})},
		MinAttempts: 2,
		Accept:      []Class{Dropped},
		Controls:    []Attempt{attempt("c1", Step{Name: "connect", OK: true})},
		Require:     []string{"range-log"},
		Statements:  []Statement{{Witness: "range-log", Live: true, Agrees: true}},
	}
}

func TestCompleteEvidenceIsHeld(t *testing.T) {
	r := Decide(complete())
	assert.Equal(t, Held, r.Verdict(), r.Detail())
	assert.Equal(t, NoReason, r.Reason())
}

func TestNothingMissingMayBeCalledHeld(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*Evidence)
		want  Reason
	}{
		"no evidence at all":              {func(e *Evidence) { *e = Evidence{} }, TooFewAttempts},
		"one attempt where two are asked": {func(e *Evidence) { e.Attempts = e.Attempts[:1] }, TooFewAttempts},
		"no completion frame":             {func(e *Evidence) { e.Attempts[1].Complete = false }, NoFrame},
		"no step":                         {func(e *Evidence) { e.Attempts[0].Steps = nil }, NoSteps},
		"another class than expected":     {func(e *Evidence) { e.Attempts[0].Steps[0].Class = Refused }, UnexpectedClass},
		"a transport error":               {func(e *Evidence) { e.Attempts[0].Steps[0].Class = TransportError }, NoEvidenceClass},
		"a missing tool":                  {func(e *Evidence) { e.Attempts[0].Steps[0].Class = ToolMissing }, NoEvidenceClass},
		"an unknown outcome":              {func(e *Evidence) { e.Attempts[0].Steps[0].Class = Unknown }, NoEvidenceClass},
		"a made-up class that is accepted": {func(e *Evidence) {
			e.Accept = append(e.Accept, "blocked")
			e.Attempts[0].Steps[0].Class = "blocked"
		}, NoEvidenceClass},
		"an empty class that is accepted": {func(e *Evidence) {
			e.Accept = append(e.Accept, "")
			e.Attempts[0].Steps[0].Class = ""
		}, NoEvidenceClass},
		"a made-up expectation":      {func(e *Evidence) { e.Attempts[0].Steps[0].Expect = "whatever" }, NoEvidenceClass},
		"no control":                 {func(e *Evidence) { e.Controls = nil }, ControlMissing},
		"a control that failed":      {func(e *Evidence) { e.Controls[0].Steps[0].OK = false }, ControlFailed},
		"a control without a frame":  {func(e *Evidence) { e.Controls[0].Complete = false }, ControlFailed},
		"a control without steps":    {func(e *Evidence) { e.Controls[0].Steps = nil }, ControlFailed},
		"a control of an hour ago":   {func(e *Evidence) { shift(&e.Controls[0], -time.Hour) }, ControlStale},
		"a control of an hour later": {func(e *Evidence) { shift(&e.Controls[0], time.Hour) }, ControlStale},
		"a silent witness":           {func(e *Evidence) { e.Statements = nil }, WitnessMissing},
		"a witness that saw nothing": {func(e *Evidence) { e.Statements[0].Live = false }, WitnessDead},
		"a witness that disagrees":   {func(e *Evidence) { e.Statements[0].Agrees = false }, WitnessDisagrees},
		"another witness instead":    {func(e *Evidence) { e.Statements[0].Witness = "flows" }, WitnessMissing},
		"one of two that disagrees": {func(e *Evidence) {
			e.Statements = append(e.Statements, Statement{Witness: "range-log", Live: true})
		}, WitnessDisagrees},
		"nothing but work that worked": {func(e *Evidence) {
			e.Attempts[1].Steps[0] = Step{Name: "connect", Expect: MustWork, OK: true}
		}, NoSteps},
		"nothing but exposures": {func(e *Evidence) {
			e.Attempts[1].Steps[0] = Step{Name: "connect", Expect: Disclosed, OK: true}
		}, NoSteps},
		"a limit of which nothing was shown": {func(e *Evidence) { e.Core = Disclosed }, NoSteps},
		"a function that did no work":        {func(e *Evidence) { e.Core = MustWork }, NoSteps},
		"honest work never tried": {func(e *Evidence) {
			e.Attempts[0].Steps[0] = Step{Name: "work", Expect: MustWork, Class: ToolMissing}
		}, NoEvidenceClass},
		"a disclosed exposure not seen": {func(e *Evidence) {
			e.Attempts[0].Steps[0] = Step{Name: "public", Expect: Disclosed, Class: Dropped}
		}, DisclosedAbsent},
	} {
		t.Run(name, func(t *testing.T) {
			e := complete()
			c.spoil(&e)
			r := Decide(e)
			assert.Equal(t, Inconclusive, r.Verdict(), r.Detail())
			assert.Equal(t, c.want, r.Reason(), r.Detail())
		})
	}
}

func shift(a *Attempt, by time.Duration) { a.Start, a.End = a.Start.Add(by), a.End.Add(by) }

func TestABreachNeedsNoControl(t *testing.T) {
	for name, e := range map[string]Evidence{
		"a step of an incomplete attempt got through": {Attempts: []Attempt{{Nonce: "a", Steps: []Step{{Name: "connect", OK: true}}}}},
		"a witness saw the nonce":                     {Statements: []Statement{{Witness: "range-log", Breach: true}}},
		"honest work is forbidden":                    {Attempts: []Attempt{attempt("a", Step{Name: "run", Expect: MustWork, Class: Permission})}},
		"more is exposed than disclosed": {Attempts: []Attempt{attempt("a",
			Step{Name: "public", Expect: Disclosed, OK: true}, Step{Name: "private", Expect: MustFail, OK: true})}},
		"the second of two attempts got through": {Attempts: []Attempt{
			attempt("a", Step{Name: "connect", Class: Dropped}), attempt("b", Step{Name: "connect", OK: true})}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, Breached, Decide(e).Verdict())
		})
	}
}

// The network's silence is the far end's as well, and a young Pod's: it is a wall
// in the way of honest work only where it is there each time, beside a control.
func TestHonestWorkIsForbiddenBySilenceOnlyEachTimeAndBesideAControl(t *testing.T) {
	silent := func(class Class) Evidence {
		e := complete()
		e.Core, e.Accept = MustWork, nil
		for i := range e.Attempts {
			e.Attempts[i].Steps = []Step{{Name: "reach", Expect: MustWork, Class: class}}
		}
		return e
	}
	for _, class := range []Class{Dropped, Refused, Reset, Unreachable} {
		assert.Equal(t, Breached, Decide(silent(class)).Verdict(), class)
		for name, spoil := range map[string]func(*Evidence){
			"it worked the other time":    func(e *Evidence) { e.Attempts[0].Steps[0] = Step{Name: "reach", Expect: MustWork, OK: true} },
			"something else was tried":    func(e *Evidence) { e.Attempts[0].Steps[0].Name = "ask for the name" },
			"it could not be tried":       func(e *Evidence) { e.Attempts[1].Steps[0].Class = ToolMissing },
			"an attempt was lost":         func(e *Evidence) { e.Attempts[0].Complete = false },
			"an attempt was not made":     func(e *Evidence) { e.Attempts = e.Attempts[1:] },
			"nobody answers the control":  func(e *Evidence) { e.Controls[0].Steps[0] = Step{Name: "reach", Class: class} },
			"there was no control":        func(e *Evidence) { e.Controls = nil },
			"the control was long before": func(e *Evidence) { shift(&e.Controls[0], -time.Hour) },
		} {
			e := silent(class)
			spoil(&e)
			r := Decide(e)
			assert.Equal(t, Inconclusive, r.Verdict(), "%s, and %s: %s", class, name, r.Detail())
		}
	}
	// An answer that says no is one, whatever became of the rest.
	e := silent(HTTP403)
	e.Attempts[0].Steps[0], e.Controls = Step{Name: "reach", Expect: MustWork, OK: true}, nil
	assert.Equal(t, Breached, Decide(e).Verdict())
}

func TestAWitnessOverrulesAProbeThatSaysDenied(t *testing.T) {
	e := complete()
	e.Statements[0] = Statement{Witness: "range-log", Live: true, Breach: true, Detail: "the nonce arrived"}
	assert.Equal(t, Breached, Decide(e).Verdict())
}

func TestALimitIsGoodAsDisclosed(t *testing.T) {
	e := complete()
	for i := range e.Attempts {
		e.Attempts[i].Steps = append(e.Attempts[i].Steps, Step{Name: "public", Expect: Disclosed, OK: true})
	}
	r := Decide(e)
	assert.Equal(t, Held, r.Verdict(), r.Detail())
	assert.Contains(t, r.Detail(), "as disclosed")
}

func TestTheWorstVerdictWins(t *testing.T) {
	for _, c := range []struct {
		in   []Verdict
		want Verdict
	}{
		{nil, Inconclusive},
		{[]Verdict{NotApplicable, NotApplicable}, Inconclusive},
		{[]Verdict{Held, NotApplicable}, Held},
		{[]Verdict{Held, NotRun}, NotRun},
		{[]Verdict{Held, NotRun, Inconclusive}, Inconclusive},
		{[]Verdict{Inconclusive, Breached, Held}, Breached},
		{[]Verdict{Held, Verdict(99)}, Verdict(99)},
	} {
		got := Aggregate(c.in...)
		assert.Equal(t, c.want, got)
		if c.want != Held {
			assert.NotEqual(t, ExitConformant, ExitCode(got), "only Held may exit 0")
		}
	}
}

func TestTheZeroResultIsNotRun(t *testing.T) {
	var r Result
	assert.Equal(t, NotRun, r.Verdict())
	assert.Equal(t, NoReason, r.Reason())
}

func TestVerdictsReadBackWhatTheyWrite(t *testing.T) {
	for v := range names {
		b, err := v.MarshalText()
		require.NoError(t, err)
		var back Verdict
		require.NoError(t, back.UnmarshalText(b))
		assert.Equal(t, v, back)
	}
	var v Verdict
	assert.Error(t, v.UnmarshalText([]byte("held")))
	_, err := Verdict(77).MarshalText()
	assert.Error(t, err)
}
