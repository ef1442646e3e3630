// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// Style says how the text form looks.
type Style struct {
	// Color adds ANSI colours: for a terminal, where NO_COLOR is not set.
	Color bool
	// Verbose adds the evidence: attempts, steps, controls and witnesses.
	Verbose bool
}

const (
	red    = "31"
	green  = "32"
	yellow = "33"
	faint  = "2"
	bold   = "1"
)

func (s Style) paint(code, text string) string {
	if !s.Color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s Style) verdict(v verdict.Verdict) string {
	return s.paint(color(v), fmt.Sprintf("%-13s", v))
}

func color(v verdict.Verdict) string {
	switch v {
	case verdict.Held:
		return green
	case verdict.Breached:
		return red
	case verdict.Inconclusive, verdict.NotRun:
		return yellow
	case verdict.NotApplicable:
	}
	return faint
}

// Text writes the report for a person.
func (r *Report) Text(w io.Writer, style Style) error {
	// The whole is put together first: a report that is cut off half way by a
	// failing writer could look like a shorter one.
	var b bytes.Buffer
	r.head(&b, style)
	width := 0
	for _, x := range r.Results {
		width = max(width, len(x.ID))
	}
	for _, x := range r.Results {
		alone := ""
		if x.ProbeOnly {
			alone = " " + style.paint(faint, "(probe's word only)")
		}
		fmt.Fprintf(&b, "  %s %-*s %6.1f s  %s%s\n", style.verdict(x.Verdict), width, x.ID, x.Seconds, x.Title, alone)
		if x.Verdict != verdict.Held || style.Verbose {
			explain(&b, style, x)
		}
		if style.Verbose {
			evidence(&b, style, x)
		}
	}
	r.matrix(&b, style)
	r.tail(&b, style)
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func (r *Report) head(b *bytes.Buffer, style Style) {
	fmt.Fprintf(b, "%s  run %s, %s, %.1f s\n", style.paint(bold, "Target "+r.Target), r.ID, r.Started.Format("2006-01-02 15:04 UTC"), r.Seconds)
	if r.Profile != "" {
		fmt.Fprintf(b, "  %s %s\n", style.paint(faint, "profile:"), r.Profile)
	}
	for _, k := range slices.Sorted(maps.Keys(r.Substrate)) {
		fmt.Fprintf(b, "  %s %s\n", style.paint(faint, k+":"), r.Substrate[k])
	}
	b.WriteString("\n")
}

// indent lies under the id column: two spaces, the verdict and one more.
const indent = "                "

func explain(b *bytes.Buffer, style Style, x Result) {
	about := fmt.Sprintf("%s, %s", strings.Join(x.Claims, " "), x.Severity)
	if x.Reason != "" {
		about += ", " + string(x.Reason)
	}
	fmt.Fprintf(b, "%s%s\n", indent, style.paint(faint, about))
	if x.Detail != "" {
		fmt.Fprintf(b, "%s%s\n", indent, x.Detail)
	}
}

func evidence(b *bytes.Buffer, style Style, x Result) {
	if x.Control != "" {
		fmt.Fprintf(b, "%s%s %s\n", indent, style.paint(faint, "positive control:"), x.Control)
	}
	for i, rd := range x.Rounds {
		fmt.Fprintf(b, "%sround %d: %s %s\n", indent, i+1, rd.Verdict, rd.Reason)
		for _, a := range rd.Attempts {
			attempt(b, style, "attack", a)
		}
		for _, a := range rd.Controls {
			attempt(b, style, "control", a)
		}
		for _, s := range rd.Witnesses {
			fmt.Fprintf(b, "%s  witness %s: %s %s\n", indent, s.Witness, stance(s), s.Detail)
		}
	}
}

func attempt(b *bytes.Buffer, style Style, what string, a verdict.Attempt) {
	how := "complete"
	switch {
	case a.Ended != "":
		how = "ended by " + a.Ended
	case !a.Complete:
		how = "incomplete: " + a.Error
	}
	fmt.Fprintf(b, "%s  %s %s at %s, %s\n", indent, what, style.paint(faint, a.Nonce), a.Start.Format(time.TimeOnly), how)
	for _, s := range a.Steps {
		outcome := string(s.Class)
		if s.OK {
			outcome = "went through"
		}
		fmt.Fprintf(b, "%s    %s: %s (%d ms) %s\n", indent, s.Name, outcome, s.Millis, s.Detail)
	}
}

func stance(s verdict.Statement) string {
	switch {
	case s.Breach:
		return "saw the attack succeed."
	case !s.Live:
		return "did not see the control."
	case s.Agrees:
		return "agrees."
	}
	return "disagrees."
}

// matrix writes the kill matrix, one line a cell: with one or two scenarios
// for each mutant a grid would be all gaps.
func (r *Report) matrix(b *bytes.Buffer, style Style) {
	if len(r.Mutants) == 0 {
		return
	}
	width, ids := 0, 0
	for _, m := range r.Mutants {
		width, ids = max(width, len(m.ID)), max(ids, len(m.Scenario))
	}
	fmt.Fprintf(b, "\n%s\n", style.paint(bold, "Mutants"))
	for _, m := range r.Mutants {
		color := red
		switch m.Fate {
		case runner.Killed:
			color = green
		case runner.Void:
			color = yellow
		case runner.Survived:
		}
		fmt.Fprintf(b, "  %s %-*s %-*s %6.1f s  %s\n", style.paint(color, fmt.Sprintf("%-13s", m.Fate)), width, m.ID, ids, m.Scenario, m.Seconds, m.Verdict)
		if m.Fate != runner.Killed && m.Detail != "" {
			fmt.Fprintf(b, "%s%s\n", indent, m.Detail)
		}
	}
}

// nothingShown is said where a green summary would not explain the exit code.
const nothingShown = "nothing was shown: what was asked for does not apply here, or is waived"

func (r *Report) tail(b *bytes.Buffer, style Style) {
	b.WriteString("\n")
	for _, d := range r.DiffersFromGKE {
		fmt.Fprintf(b, "  %s %s\n", style.paint(faint, "not as on GKE:"), d)
	}
	for _, w := range r.Waivers {
		fmt.Fprintf(b, "  waived until %s by %s: %s (%s)\n", w.Expires, w.Owner, w.Scenario, w.Reason)
	}
	if n := len(r.Unselected); n > 0 {
		fmt.Fprintf(b, "  %s %d of the profile's scenarios, of which nothing is said here\n", style.paint(faint, "not selected:"), n)
	}
	for _, s := range r.Residue {
		fmt.Fprintf(b, "  %s %s (`stockade cleanup` removes what a run made itself)\n", style.paint(red, "left behind:"), s)
	}
	if r.Incomplete != "" {
		fmt.Fprintf(b, "  %s %s\n", style.paint(yellow, "ended early:"), r.Incomplete)
	}
	if r.showsNothing(r.waived()) {
		fmt.Fprintf(b, "  %s\n", style.paint(yellow, nothingShown))
	}
	if len(r.Mutants) > 0 {
		ids := map[string]bool{}
		for _, m := range r.Mutants {
			ids[m.ID] = true
		}
		fmt.Fprintf(b, "%d of %d cells of the kill matrix killed (mutants: %d), %d survived, %d void\n", r.Summary.Killed, len(r.Mutants), len(ids), r.Summary.Survived, r.Summary.Void)
	}
	fmt.Fprintf(b, "%s  %s\n", style.paint(bold, r.Summary.Text), strings.TrimRight(style.verdict(r.Summary.Verdict), " "))
}
