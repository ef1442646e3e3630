// SPDX-License-Identifier: Apache-2.0

package verdict

import "fmt"

// Verdict is what the suite says of one scenario. The zero value is NotRun, so
// that a scenario that was forgotten can never look like one that held.
type Verdict uint8

// The five verdicts.
const (
	NotRun Verdict = iota
	NotApplicable
	Held
	Inconclusive
	Breached
)

var names = map[Verdict]string{
	NotRun: "NotRun", NotApplicable: "NotApplicable", Held: "Held",
	Inconclusive: "Inconclusive", Breached: "Breached",
}

// String returns the verdict's name as it stands in reports.
func (v Verdict) String() string {
	if s, ok := names[v]; ok {
		return s
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// MarshalText writes the name.
func (v Verdict) MarshalText() ([]byte, error) {
	if _, ok := names[v]; !ok {
		return nil, fmt.Errorf("writing verdict %d: not one of the five", uint8(v))
	}
	return []byte(v.String()), nil
}

// UnmarshalText reads a name; it knows the five and nothing else.
func (v *Verdict) UnmarshalText(b []byte) error {
	for k, s := range names {
		if s == string(b) {
			*v = k
			return nil
		}
	}
	return fmt.Errorf("reading verdict %q: not one of the five", b)
}

// weight orders verdicts for aggregation: the worst wins.
func (v Verdict) weight() int {
	switch v {
	case Breached:
		return 4
	case Inconclusive:
		return 3
	case NotRun:
		return 2
	case Held:
		return 1
	case NotApplicable:
		return 0
	}
	// An unknown value must never make a whole look better.
	return 3
}

// Aggregate returns the worst of all: Breached > Inconclusive > NotRun > Held
// > NotApplicable. Nothing tested (no verdicts, or nothing but NotApplicable)
// is Inconclusive.
func Aggregate(all ...Verdict) Verdict {
	worst := NotApplicable
	for _, v := range all {
		if v.weight() > worst.weight() {
			worst = v
		}
	}
	if worst == NotApplicable {
		return Inconclusive
	}
	return worst
}

// Exit codes of the command line. They are an interface: CI jobs branch on
// them.
const (
	ExitConformant   = 0
	ExitBreached     = 1
	ExitUsage        = 2
	ExitInconclusive = 3
	ExitResidue      = 4
	ExitInternal     = 5
	ExitInterrupted  = 130
)

// ExitCode maps an aggregate to the exit code of a run.
func ExitCode(v Verdict) int {
	switch v {
	case Held:
		return ExitConformant
	case Breached:
		return ExitBreached
	case NotRun, NotApplicable, Inconclusive:
	}
	return ExitInconclusive
}

// Reason says why a result is Inconclusive. The set is closed: a report's
// reader can rely on these words.
type Reason string

// The reasons.
const (
	NoFrame          Reason = "no-completion-frame"
	NoSteps          Reason = "no-steps"
	ControlMissing   Reason = "control-missing"
	ControlFailed    Reason = "control-failed"
	ControlStale     Reason = "control-outside-window"
	UnexpectedClass  Reason = "unexpected-denial-class"
	NoEvidenceClass  Reason = "transport-or-tool-error"
	WitnessMissing   Reason = "witness-missing"
	WitnessDead      Reason = "witness-not-live"
	WitnessDisagrees Reason = "witness-disagrees"
	TooFewAttempts   Reason = "too-few-attempts"
	DetectionFailed  Reason = "detection-failed"
	TargetGone       Reason = "target-gone"
	Interrupted      Reason = "interrupted"
	SetupFailed      Reason = "setup-failed"
	DisclosedAbsent  Reason = "disclosed-exposure-not-seen"
	NoReason         Reason = ""
)

// Result is a verdict with its reason. Its fields cannot be set from outside,
// so that Held comes from [Decide] alone.
type Result struct {
	verdict Verdict
	reason  Reason
	detail  string
}

// Verdict returns the verdict; NotRun for the zero Result.
func (r Result) Verdict() Verdict { return r.verdict }

// Reason returns the reason of an Inconclusive result, else NoReason.
func (r Result) Reason() Reason { return r.reason }

// Detail is one sentence for a person. It may quote the sandbox: renderers
// must escape it.
func (r Result) Detail() string { return r.detail }

// Unsure returns an Inconclusive result.
func Unsure(reason Reason, format string, args ...any) Result {
	return Result{Inconclusive, reason, fmt.Sprintf(format, args...)}
}

// Breach returns a Breached result: a success of the attack needs no control.
func Breach(format string, args ...any) Result {
	return Result{Breached, NoReason, fmt.Sprintf(format, args...)}
}

// Skip returns NotApplicable. It is only right when the feature was declared
// absent and detected absent; declared and absent is a breach.
func Skip(format string, args ...any) Result {
	return Result{NotApplicable, NoReason, fmt.Sprintf(format, args...)}
}
