// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// The elements of JUnit's XML that CI systems agree on.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Time     string       `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Time       string          `xml:"time,attr"`
		Timestamp  string          `xml:"timestamp,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
		seconds    float64
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string     `xml:"classname,attr"`
		Name    string     `xml:"name,attr"`
		Time    string     `xml:"time,attr"`
		Failure *junitNote `xml:"failure"`
		Error   *junitNote `xml:"error"`
		Skipped *junitNote `xml:"skipped"`
		Out     string     `xml:"system-out,omitempty"`
		seconds float64
	}
	junitNote struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes the report for a CI system, one suite a family, one for the
// mutants, and one for what went wrong with the run itself. Breached is a
// failure; Inconclusive and NotRun are errors, for a CI system counts what is
// skipped as fine; NotApplicable is skipped. Waivers do not show: they change
// the exit code, and what is read here are verdicts.
func (r *Report) JUnit(w io.Writer) error {
	out := junitSuites{Name: "stockade", Time: secondsText(r.Seconds)}
	at := map[string]int{}
	for _, c := range r.junitCases() {
		i, known := at[c.Class]
		if !known {
			i = len(out.Suites)
			at[c.Class] = i
			out.Suites = append(out.Suites, junitSuite{
				Name: c.Class, Timestamp: r.Started.Format("2006-01-02T15:04:05"),
				Properties: []junitProperty{{"run", r.ID}, {"target", r.Target}},
			})
		}
		s := &out.Suites[i]
		c.Time = secondsText(c.seconds)
		s.Cases = append(s.Cases, c)
		s.seconds += c.seconds
		s.Time = secondsText(s.seconds)
		s.Tests++
		out.Tests++
		switch {
		case c.Failure != nil:
			s.Failures++
			out.Failures++
		case c.Error != nil:
			s.Errors++
			out.Errors++
		case c.Skipped != nil:
			s.Skipped++
			out.Skipped++
		}
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return fmt.Errorf("writing JUnit: %w", err)
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(out); err != nil {
		return fmt.Errorf("writing JUnit: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// junitCases are the scenarios, and whatever else decides on the exit code: who
// reads nothing but this file must not see less go wrong.
func (r *Report) junitCases() []junitCase {
	out := make([]junitCase, 0, len(r.Results)+len(r.Mutants))
	for _, x := range r.Results {
		out = append(out, junitCaseOf(x))
	}
	for i, m := range r.Mutants {
		c := junitCase{Class: "mutants", Name: m.ID + "/" + m.Scenario}
		if i == 0 || r.Mutants[i-1].ID != m.ID {
			c.seconds = m.Seconds // it is the mutant's, and stands in each of its cells
		}
		note := &junitNote{Message: cmp.Or(m.Detail, string(m.Fate)), Type: string(m.Fate)}
		switch m.Fate {
		case runner.Killed:
			c.Out = m.Detail
		case runner.Survived:
			c.Failure = note
		case runner.Void:
			c.Error = note
		default:
			c.Error = note
		}
		out = append(out, c)
	}
	if r.showsNothing(nil) {
		out = append(out, junitCase{Class: "run", Name: "attacks-something", Error: &junitNote{Message: nothingShown, Type: verdict.Inconclusive.String()}})
	}
	if r.Incomplete != "" {
		out = append(out, junitCase{Class: "run", Name: "ends", Error: &junitNote{Message: r.Incomplete, Type: "incomplete"}})
	}
	if len(r.Residue) > 0 {
		out = append(out, junitCase{Class: "run", Name: "leaves-nothing-behind",
			Failure: &junitNote{Message: strings.Join(r.Residue, "; "), Type: "residue"}})
	}
	return out
}

func junitCaseOf(x Result) junitCase {
	family, name, _ := strings.Cut(x.ID, ".")
	c := junitCase{Class: family, Name: name, seconds: x.Seconds}
	note := &junitNote{Message: cmp.Or(x.Detail, string(x.Reason), x.Verdict.String()), Type: x.Verdict.String(), Text: x.Title}
	if x.Reason != "" {
		note.Type += ": " + string(x.Reason)
	}
	switch x.Verdict {
	case verdict.Held:
		c.Out = x.Title + ": " + x.Detail
	case verdict.Breached:
		c.Failure = note
	case verdict.NotApplicable:
		c.Skipped = &junitNote{Message: note.Message}
	case verdict.Inconclusive, verdict.NotRun:
		c.Error = note
	default:
		c.Error = note
	}
	return c
}

func secondsText(s float64) string { return fmt.Sprintf("%.3f", s) }
