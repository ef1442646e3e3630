// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Expect says what a step must do for the claim to hold.
type Expect string

// What a step may be expected to do.
const (
	// MustFail: the step is an attack. Its success is a breach.
	MustFail Expect = "must-fail"
	// MustWork: the step is honest work (claims of kind function). Its
	// failure is a breach of the claim. That the network kept silent breaks it
	// only where it did so each time, and beside a control that was answered.
	MustWork Expect = "must-work"
	// Disclosed: the step is an exposure that the text itself admits (claims
	// of kind limit). It is expected to succeed; when it does not, the claim
	// was not shown, which is no breach.
	Disclosed Expect = "disclosed"
)

// Step is one observed action of an attempt.
type Step struct {
	// Name tells the action apart from the attempt's other steps.
	Name string `json:"name"`
	// Expect is what the claim demands of the step; empty is MustFail.
	Expect Expect `json:"expect,omitempty"`
	// OK is true when the action reached its aim, seen from the attacker.
	OK bool `json:"ok"`
	// Class says how the action was denied; meaningless when OK.
	Class Class `json:"class,omitempty"`
	// Detail is free text from the attacker's side: hostile.
	Detail string `json:"detail,omitempty"`
	// Millis is how long the action took.
	Millis int64 `json:"millis,omitempty"`
}

// Attempt is one execution of an action, as the runner received it.
type Attempt struct {
	// Nonce is the attempt's own, 32 lower-case hex digits.
	Nonce string `json:"nonce"`
	// Complete is true when a completion frame with exactly this nonce
	// arrived, or when Ended tells by an outside fact that the attempt ended.
	Complete bool `json:"complete"`
	// Ended names the outside fact that stands in for a completion frame
	// where the attack's expected end is its own death ("container exit 137").
	Ended string    `json:"ended,omitempty"`
	Steps []Step    `json:"steps"`
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	// Error is the carrier's error (exec lost, decode failed), if any.
	Error string `json:"error,omitempty"`
}

// Statement is what one witness says about one attempt.
type Statement struct {
	Witness string `json:"witness"`
	// Live is true when the witness saw the positive control of the same
	// window: a witness that sees nothing at all proves nothing.
	Live bool `json:"live"`
	// Agrees is true when the witness confirms that the attack failed (for
	// MustWork: that the work was done).
	Agrees bool `json:"agrees"`
	// Breach is true when the witness saw the attack succeed, whatever the
	// probe said.
	Breach bool   `json:"breach,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// Window is how far apart an attack and its control may lie.
const Window = time.Minute

// Evidence is all that is known of one scenario in one round.
type Evidence struct {
	// Attempts of the attack, in order. Every one must be complete.
	Attempts []Attempt
	// Core is what at least one step of every attempt must have been: without a
	// denial there is no guarantee, without an exposure no limit, and without
	// work no function. Empty is MustFail.
	Core Expect
	// MinAttempts is how many are demanded (2 for the network); 0 means 1.
	MinAttempts int
	// Accept are the classes that the scenario expects of a denial.
	Accept []Class
	// Controls are the positive controls; all their steps must be OK.
	Controls []Attempt
	// Require names the witnesses that must speak.
	Require    []string
	Statements []Statement
}

// Decide is the only place where Held is made. It is a pure function.
//
// The order matters: a breach needs less evidence than a denial does, so
// breaches are looked for first, over all attempts and witnesses.
func Decide(e Evidence) Result {
	if r, found := breach(e); found {
		return r
	}
	if want := max(e.MinAttempts, 1); len(e.Attempts) < want {
		return Unsure(TooFewAttempts, "%d of %d attempts were made", len(e.Attempts), want)
	}
	for _, a := range e.Attempts {
		if r, ok := denied(a, e); !ok {
			return r
		}
	}
	if r, ok := controlled(e); !ok {
		return r
	}
	if r, ok := witnessed(e); !ok {
		return r
	}
	return Result{Held, NoReason, summary(e)}
}

func breach(e Evidence) (Result, bool) {
	for _, s := range e.Statements {
		if s.Breach {
			return Breach("witness %s: %s", s.Witness, s.Detail), true
		}
	}
	for _, a := range e.Attempts {
		for _, s := range a.Steps {
			if s.OK && (s.Expect == MustFail || s.Expect == "") {
				return Breach("%s: %s", s.Name, s.Detail), true
			}
			// Honest work that the environment forbids breaks the claim; honest
			// work that was never tried for lack of a tool does not.
			if !forbidden(s) || !a.Complete {
				continue
			}
			if unanswered[s.Class] && !neverWorked(e, s.Name) {
				continue
			}
			return Breach("%s did not work (%s): %s", s.Name, s.Class, s.Detail), true
		}
	}
	return Result{}, false
}

// forbidden tells whether a step is honest work that was denied.
func forbidden(s Step) bool { return !s.OK && s.Expect == MustWork && s.Class.IsEvidence() }

// neverWorked tells whether a step was denied in every attempt that had to be
// made, while the control worked. A peer that is down, or a Pod that has no
// network for a moment, is as silent as a policy.
func neverWorked(e Evidence, name string) bool {
	for _, a := range e.Attempts {
		if !a.Complete || !slices.ContainsFunc(a.Steps, func(s Step) bool { return s.Name == name && forbidden(s) }) {
			return false
		}
	}
	_, live := controlled(e)
	return live && len(e.Attempts) >= max(e.MinAttempts, 1)
}

func denied(a Attempt, e Evidence) (Result, bool) {
	if !a.Complete {
		return Unsure(NoFrame, "attempt %s: %s", short(a.Nonce), a.Error), false
	}
	if len(a.Steps) == 0 {
		return Unsure(NoSteps, "attempt %s reported no step", short(a.Nonce)), false
	}
	for _, s := range a.Steps {
		switch s.Expect {
		case MustWork:
			if !s.OK {
				return Unsure(NoEvidenceClass, "%s: %s: %s", s.Name, s.Class, s.Detail), false
			}
		case Disclosed:
			if !s.OK {
				return Unsure(DisclosedAbsent, "%s: %s: %s", s.Name, s.Class, s.Detail), false
			}
		case MustFail, "":
			if !s.Class.IsEvidence() {
				return Unsure(NoEvidenceClass, "%s: %s: %s", s.Name, s.Class, s.Detail), false
			}
			if !slices.Contains(e.Accept, s.Class) {
				return Unsure(UnexpectedClass, "%s was denied as %s, which this scenario does not expect: %s", s.Name, s.Class, s.Detail), false
			}
		default:
			return Unsure(NoEvidenceClass, "%s has the unknown expectation %q", s.Name, s.Expect), false
		}
	}
	core := cmp.Or(e.Core, MustFail)
	if !slices.ContainsFunc(a.Steps, func(s Step) bool { return cmp.Or(s.Expect, MustFail) == core }) {
		return Unsure(NoSteps, "attempt %s reported no %s step", short(a.Nonce), core), false
	}
	return Result{}, true
}

func controlled(e Evidence) (Result, bool) {
	if len(e.Controls) == 0 {
		return Unsure(ControlMissing, "no positive control ran"), false
	}
	for _, c := range e.Controls {
		if !c.Complete || len(c.Steps) == 0 {
			return Unsure(ControlFailed, "the control %s did not complete: %s", short(c.Nonce), c.Error), false
		}
		for _, s := range c.Steps {
			if !s.OK {
				return Unsure(ControlFailed, "the control's %s failed (%s): %s", s.Name, s.Class, s.Detail), false
			}
		}
		for _, a := range e.Attempts {
			if c.End.Add(Window).Before(a.Start) || a.End.Add(Window).Before(c.Start) {
				return Unsure(ControlStale, "control %s and attempt %s are more than %s apart", short(c.Nonce), short(a.Nonce), Window), false
			}
		}
	}
	return Result{}, true
}

func witnessed(e Evidence) (Result, bool) {
	for _, name := range e.Require {
		spoke := false
		for _, s := range e.Statements {
			if s.Witness != name {
				continue
			}
			spoke = true
			if !s.Live {
				return Unsure(WitnessDead, "%s did not see the control: %s", name, s.Detail), false
			}
			if !s.Agrees {
				return Unsure(WitnessDisagrees, "%s: %s", name, s.Detail), false
			}
		}
		if !spoke {
			return Unsure(WitnessMissing, "%s said nothing", name), false
		}
	}
	return Result{}, true
}

func summary(e Evidence) string {
	steps, disclosed := 0, 0
	for _, a := range e.Attempts {
		steps += len(a.Steps)
		for _, s := range a.Steps {
			if s.Expect == Disclosed {
				disclosed++
			}
		}
	}
	if disclosed > 0 {
		return fmt.Sprintf("as disclosed: %d of %d steps are exposures the text admits, the rest was denied", disclosed, steps)
	}
	return fmt.Sprintf("%d steps in %d attempts, %d controls, %d witnesses", steps, len(e.Attempts), len(e.Controls), len(e.Require))
}

func short(nonce string) string {
	if len(nonce) > 8 {
		return nonce[:8]
	}
	return nonce
}
