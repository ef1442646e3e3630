// SPDX-License-Identifier: Apache-2.0

package report

import (
	"time"

	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// What stands in a report's apiVersion and kind.
const (
	APIVersion = "stockade.dev/v1alpha1"
	Kind       = "Report"
)

// Report is everything that one run found.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// ID is the run's: 16 hex digits, also the label of all it created.
	ID string `json:"id"`
	// Profile is the system as it is deployed, whose claims the run is about.
	Profile string `json:"profile,omitempty"`
	// Target is what was attacked: a name of the descriptor's, or a mutant's id.
	Target  string    `json:"target"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Seconds is how long the whole run took.
	Seconds float64 `json:"seconds"`
	// Substrate names what it ran on: versions, node, kernel, platform.
	Substrate map[string]string `json:"substrate,omitempty"`
	// DiffersFromGKE says in which ways this substrate is not the real GKE.
	DiffersFromGKE []string `json:"differsFromGKE,omitempty"`
	Summary        Summary  `json:"summary"`
	// Claims are ordered by id; each has the worst verdict of its scenarios.
	Claims []Claim `json:"claims"`
	// Results are ordered by id. Every scenario of the profile stands in the report
	// once: here where it was selected, else under Unselected.
	Results []Result `json:"results"`
	// Unselected are the profile's scenarios that the run left out, because others were
	// asked for: of what they are about, no verdict here says anything.
	Unselected []string `json:"unselected,omitempty"`
	// Mutants is the kill matrix, if mutants were tried: what Held is worth.
	Mutants []Mutant `json:"mutants,omitempty"`
	// Waivers are those that changed the exit code of this run. They change no
	// verdict.
	Waivers []Waiver `json:"waivers,omitempty"`
	// Residue lists objects that the cleanup could not remove.
	Residue []string `json:"residue,omitempty"`
	// Incomplete says why the run ended early; empty if it did not.
	Incomplete string `json:"incomplete,omitempty"`
}

// Summary counts. Total is the denominator: every id, whatever became of it.
type Summary struct {
	Verdict verdict.Verdict `json:"verdict"`
	// Text is the sentence for a person: "37 held of 41".
	Text          string `json:"text"`
	Total         int    `json:"total"`
	Held          int    `json:"held"`
	Breached      int    `json:"breached"`
	Inconclusive  int    `json:"inconclusive"`
	NotRun        int    `json:"notRun"`
	NotApplicable int    `json:"notApplicable"`
	// Killed, Survived and Void count the cells of the kill matrix.
	Killed   int `json:"mutantsKilled,omitempty"`
	Survived int `json:"mutantsSurvived,omitempty"`
	Void     int `json:"mutantsVoid,omitempty"`
}

// Claim is one claim of the system under test, with what speaks for it.
type Claim struct {
	ID        string          `json:"id"`
	Verdict   verdict.Verdict `json:"verdict"`
	Scenarios []string        `json:"scenarios"`
}

// Result is what the run says of one scenario.
type Result struct {
	ID         string          `json:"id"`
	Title      string          `json:"title"`
	Claims     []string        `json:"claims"`
	ClaimKind  suite.Kind      `json:"claimKind"`
	Severity   suite.Severity  `json:"severity"`
	Techniques []string        `json:"techniques,omitempty"`
	Verdict    verdict.Verdict `json:"verdict"`
	Reason     verdict.Reason  `json:"reason,omitempty"`
	Detail     string          `json:"detail,omitempty"`
	Seconds    float64         `json:"seconds"`
	// Control says what the positive control proves.
	Control string `json:"control,omitempty"`
	// ProbeOnly is true when nothing outside of the Pod had to speak for the
	// verdict: it is then as honest as the code in the sandbox.
	ProbeOnly bool `json:"probeOnly,omitempty"`
	// Added is true where nobody selected the scenario: the verdicts of the others
	// rest on it, and its own answers nothing that was asked.
	Added bool `json:"added,omitempty"`
	// Rounds are all tries, in order: only Inconclusive is tried again.
	Rounds []Round `json:"rounds,omitempty"`
}

// Round is one try of a scenario with all its evidence.
type Round struct {
	Verdict verdict.Verdict `json:"verdict"`
	Reason  verdict.Reason  `json:"reason,omitempty"`
	Detail  string          `json:"detail,omitempty"`
	// Attempts of the attack and their positive Controls.
	Attempts []verdict.Attempt `json:"attempts,omitempty"`
	Controls []verdict.Attempt `json:"controls,omitempty"`
	// AttemptsNeeded, Accepts, WindowSeconds and Requires are what the
	// verdict was decided with: how many attempts, which denial classes, how
	// far attack and control may lie apart, and which witnesses must speak.
	AttemptsNeeded int `json:"attemptsNeeded"`
	// Core is the kind of step that every attempt must have made: mustFail for a
	// guarantee, which is meant where it is empty.
	Core          verdict.Expect      `json:"core,omitempty"`
	Accepts       []verdict.Class     `json:"accepts,omitempty"`
	WindowSeconds float64             `json:"windowSeconds"`
	Requires      []string            `json:"requires,omitempty"`
	Witnesses     []verdict.Statement `json:"witnesses,omitempty"`
}

// Mutant is one cell of the kill matrix.
type Mutant struct {
	ID       string          `json:"id"`
	Scenario string          `json:"scenario"`
	Fate     runner.Fate     `json:"fate"`
	Verdict  verdict.Verdict `json:"verdict"`
	Reason   verdict.Reason  `json:"reason,omitempty"`
	Detail   string          `json:"detail,omitempty"`
	Seconds  float64         `json:"seconds"`
}
