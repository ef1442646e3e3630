// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// Round is one time that a scenario was tried. Only Inconclusive is tried
// again, and every round is kept.
type Round struct {
	Evidence verdict.Evidence
	Result   verdict.Result
}

// Outcome is what a run says of one scenario: exactly one for each that was selected.
type Outcome struct {
	Scenario *suite.Scenario
	// Result is the worst of the rounds where one is Breached, else the last.
	Result verdict.Result
	Rounds []Round
	Took   time.Duration
	// Added is true of the enforcement scenario where nobody selected it.
	Added bool
}

// Attacked is what the rounds alone say, without what is known beside them: a
// feature that the target declares and lacks makes a Result Breached whatever
// the attack met. Without rounds it is the Result, but never Breached.
func (o Outcome) Attacked() verdict.Result {
	if len(o.Rounds) > 0 {
		return worst(o.Rounds)
	}
	if o.Result.Verdict() == verdict.Breached {
		return verdict.Result{}
	}
	return o.Result
}

// worst is Breached where one round is, else what the last one said.
func worst(rounds []Round) (last verdict.Result) {
	for _, rd := range rounds {
		if last = rd.Result; last.Verdict() == verdict.Breached {
			break
		}
	}
	return last
}

// Run is everything that one `stockade run` found.
type Run struct {
	ID         string // 16 hex digits, also the label of all it created
	Started    time.Time
	Ended      time.Time
	Profile    string            // the profile that the scenarios are of
	Target     string            // what was attacked: a target's name, or a mutant's id
	Substrate  map[string]string // what it ran on: versions, node, kernel, platform
	Differs    []string          // what differs from real GKE on this substrate
	Outcomes   []Outcome
	Residue    []string // objects that cleanup could not remove
	Incomplete string   // why the run ended early, empty if it did not
}

// Fate is what became of a mutant under one scenario.
type Fate string

// The fates. Only Killed counts for the suite.
const (
	Killed   Fate = "killed"   // took effect, and the scenario's attack said Breached
	Survived Fate = "survived" // took effect, and the attack said something else
	Void     Fate = "void"     // did not take effect, or broke more than its control
)

// Kill is one cell of the kill matrix.
type Kill struct {
	Mutant   string
	Scenario string
	Fate     Fate
	Result   verdict.Result // of the attack alone, see Outcome.Attacked
	// Denied is true of a scenario that survived and showed that the attack was denied,
	// in whichever way.
	Denied bool
	Detail string
	Took   time.Duration
}
