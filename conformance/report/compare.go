// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// Comparison puts reports side by side: what each system says of a topic, and
// what became of it.
type Comparison struct {
	Columns []Column `json:"columns"`
	Rows    []Row    `json:"rows"`
}

// Column is one report.
type Column struct {
	// Name is the report's profile, or its target where it has none.
	Name   string `json:"name"`
	Run    string `json:"run"`
	Target string `json:"target"`
	// Other is true when the target is not the one that the profile is about: a
	// mutant, or somebody's own template.
	Other   bool      `json:"otherTarget,omitempty"`
	Started time.Time `json:"started"`
	// Verdict and Text count every scenario of the profile, those that are not in
	// the report as not run.
	Verdict verdict.Verdict `json:"verdict"`
	Text    string          `json:"text"`
	// DiffersFromGKE is what the report says of its substrate.
	DiffersFromGKE []string `json:"differsFromGKE,omitempty"`
}

// Row is one topic, with a cell for each column.
type Row struct {
	Topic suite.Topic `json:"topic"`
	Cells [][]Mark    `json:"cells"`
}

// Mark is what became of one claim.
type Mark struct {
	Claim string `json:"claim"`
	Text  string `json:"text"`
	// Verdict is the worst of the claim's scenarios; one that the profile has and
	// the report has not is NotRun.
	Verdict verdict.Verdict `json:"verdict"`
	// Held and Of count its scenarios, without those that do not apply.
	Held int `json:"held"`
	Of   int `json:"of"`
	// ProbeOnly is true when nothing but the code in the sandbox had to speak for
	// any of those that were tried.
	ProbeOnly bool `json:"probeOnly,omitempty"`
	// Disclosed says that an exposure which the text admits was shown, and no
	// more than it.
	Disclosed bool `json:"disclosed,omitempty"`
}

// Word is the mark for a person, after the claim's id.
func (m Mark) Word() string {
	var text string
	switch {
	case m.Of == 0 && m.Verdict == verdict.NotApplicable:
		return m.Claim + " not applicable"
	case m.Of == 0:
		return m.Claim + " not tested"
	case m.Disclosed:
		text = m.Claim + " as disclosed"
	case m.Held == m.Of:
		text = fmt.Sprintf("%s %s", m.Claim, m.Verdict)
	default:
		text = fmt.Sprintf("%s %s, %d held of %d", m.Claim, m.Verdict, m.Held, m.Of)
	}
	if m.ProbeOnly {
		text += " (probe's word only)"
	}
	return text
}

// Compare puts reports side by side, in the order given. all are the scenarios
// that there are: a scenario of a report's profile that is not in the report was
// not run, and a claim that no scenario speaks for stands there as not tested.
func Compare(all []*suite.Scenario, reports ...*Report) Comparison {
	var c Comparison
	var whole []*Report
	for _, r := range reports {
		name := r.Profile
		if name == "" {
			name = r.Target
		}
		profile, known := suite.ProfileByID(r.Profile)
		r = r.completed(profile.Of(all))
		whole = append(whole, r)
		c.Columns = append(c.Columns, Column{
			Name: name, Run: r.ID, Target: r.Target, Other: known && r.Target != profile.Target, Started: r.Started,
			Verdict: r.Summary.Verdict, Text: r.Summary.Text, DiffersFromGKE: r.DiffersFromGKE,
		})
	}
	for _, topic := range suite.Topics {
		row := Row{Topic: topic}
		some := false
		for _, r := range whole {
			marks := r.marks(topic)
			some = some || len(marks) > 0
			row.Cells = append(row.Cells, marks)
		}
		if some {
			c.Rows = append(c.Rows, row)
		}
	}
	return c
}

// LeftOut notes which of its profile's scenarios the run did not select.
func (r *Report) LeftOut(profile []*suite.Scenario) {
	r.Unselected = nil
	for _, s := range profile {
		if !slices.ContainsFunc(r.Results, func(x Result) bool { return x.ID == s.ID }) {
			r.Unselected = append(r.Unselected, s.ID)
		}
	}
	slices.Sort(r.Unselected)
}

// completed returns a copy of the report with every scenario of its profile: what
// is missing was not run.
func (r *Report) completed(scenarios []*suite.Scenario) *Report {
	out := *r
	out.Results = slices.Clone(r.Results)
	for _, s := range scenarios {
		if slices.ContainsFunc(r.Results, func(x Result) bool { return x.ID == s.ID }) {
			continue
		}
		out.Results = append(out.Results, Result{ID: s.ID, Title: s.Title, Claims: s.Claims, ClaimKind: s.Kind, Severity: s.Severity})
	}
	out.Summary = out.count()
	return &out
}

// marks are the report's claims of a topic: those of its profile, and no others
// where it has one.
func (r *Report) marks(topic suite.Topic) []Mark {
	out := []Mark{}
	_, known := suite.ProfileByID(r.Profile)
	for _, c := range suite.Claims {
		if c.Topic != topic || !r.makes(c.ID) {
			continue
		}
		results := slices.DeleteFunc(slices.Clone(r.Results), func(x Result) bool { return !slices.Contains(x.Claims, c.ID) })
		if len(results) > 0 || known {
			out = append(out, mark(c, results))
		}
	}
	return out
}

// mark judges a claim by the results of its scenarios.
func mark(c suite.Claim, results []Result) Mark {
	m := Mark{Claim: c.ID, Text: c.Text}
	var all []verdict.Verdict
	tried, alone := 0, 0
	for _, x := range results {
		all = append(all, x.Verdict)
		if x.Verdict == verdict.NotApplicable {
			continue
		}
		m.Of++
		if x.Verdict != verdict.NotRun {
			tried++
			if x.ProbeOnly {
				alone++
			}
		}
		if x.Verdict == verdict.Held {
			m.Held++
			m.Disclosed = m.Disclosed || x.ClaimKind == suite.Limit
		}
	}
	switch {
	case m.Of > 0:
		m.Verdict = verdict.Aggregate(all...)
	case len(results) > 0:
		m.Verdict = verdict.NotApplicable // every one of them
	}
	m.Disclosed = m.Disclosed && m.Verdict == verdict.Held
	m.ProbeOnly = tried > 0 && alone == tried
	return m
}

// Write writes the comparison as a table for a person.
func (c Comparison) Write(w io.Writer, style Style) error {
	var b strings.Builder
	writeTable(&b, c.table(), style)
	c.notes(&b, style)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the comparison: %w", err)
	}
	return nil
}

// entry is one cell of a table, with the code that it is painted in, if any.
type entry struct{ text, code string }

// table is the comparison line by line: the reports' names and what is known of
// them, and then for each topic as many lines as the longest of its cells has.
func (c Comparison) table() [][]entry {
	line := func(title string, of func(Column) entry) []entry {
		out := []entry{{title, bold}}
		for _, col := range c.Columns {
			out = append(out, of(col))
		}
		return out
	}
	lines := [][]entry{
		line("", func(col Column) entry { return entry{col.Name, bold} }),
		line("run", func(col Column) entry { return entry{text: col.Run} }),
		line("started", func(col Column) entry { return entry{text: col.Started.Format("2006-01-02 15:04 UTC")} }),
		line("verdict", func(col Column) entry { return entry{col.Text, color(col.Verdict)} }),
	}
	// What is not the profile's own deployment must not stand there as if it were.
	if slices.ContainsFunc(c.Columns, func(col Column) bool { return col.Other }) {
		lines = append(lines, line("attacked", func(col Column) entry { return entry{text: col.Target} }))
	}
	for _, row := range c.Rows {
		height := 0
		for _, cell := range row.Cells {
			height = max(height, len(cell))
		}
		title := string(row.Topic)
		for n := range height {
			out := []entry{{title, bold}}
			for _, cell := range row.Cells {
				e := entry{}
				if n < len(cell) {
					e = entry{cell[n].Word(), color(cell[n].Verdict)}
				}
				out = append(out, e)
			}
			lines, title = append(lines, out), ""
		}
	}
	return lines
}

// writeTable writes lines of as many cells each, in columns.
func writeTable(b *strings.Builder, lines [][]entry, style Style) {
	width := map[int]int{}
	for _, line := range lines {
		for i, e := range line {
			width[i] = max(width[i], utf8.RuneCountInString(e.text))
		}
	}
	for _, line := range lines {
		text := ""
		for i, e := range line {
			padded := e.text + strings.Repeat(" ", width[i]-utf8.RuneCountInString(e.text))
			if e.code != "" {
				padded = style.paint(e.code, padded)
			}
			text += padded + "  "
		}
		if !style.Color {
			text = strings.TrimRight(text, " ")
		}
		b.WriteString(text + "\n")
	}
}

// notes are the claims' sentences, if they are asked for, and what the reports
// say of their substrate.
func (c Comparison) notes(b *strings.Builder, style Style) {
	if style.Verbose {
		b.WriteString("\n")
		seen := map[string]bool{}
		for _, row := range c.Rows {
			for _, cell := range row.Cells {
				for _, m := range cell {
					if !seen[m.Claim] {
						seen[m.Claim] = true
						fmt.Fprintf(b, "  %s %s\n", style.paint(faint, m.Claim), m.Text)
					}
				}
			}
		}
	}
	var differs []string
	for _, col := range c.Columns {
		for _, d := range col.DiffersFromGKE {
			if !slices.Contains(differs, d) {
				differs = append(differs, d)
			}
		}
	}
	if len(differs) > 0 {
		b.WriteString("\n")
	}
	for _, d := range differs {
		fmt.Fprintf(b, "  %s %s\n", style.paint(faint, "not as on GKE:"), d)
	}
}
