// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/conformance/plan/planreport"
	"github.com/stockade-dev/stockade/conformance/report"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/all"
)

// evidenceDir holds reports of real runs, one for each profile, and of plan
// checks, as `stockade run --profile X --out` and `stockade plan-check --out`
// write them. Reading one judges it again: a Held that its own evidence does not
// carry is an error here.
const evidenceDir = "docs/evidence"

// recorded is a report of that folder, with its marks by claim.
type recorded struct {
	*report.Report
	name  string
	marks map[string]report.Mark
}

// readEvidence reads the folder: profiles in their order, plans after them. A
// folder that is not there is empty.
func readEvidence() ([]recorded, error) {
	files, err := os.ReadDir(evidenceDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for evidence: %w", err)
	}
	var out []recorded
	for _, file := range files {
		name, ok := strings.CutSuffix(file.Name(), ".json")
		if !ok {
			continue
		}
		r, err := readReport(filepath.Join(evidenceDir, file.Name()))
		if err == nil {
			err = belongs(name, r)
		}
		if err != nil {
			return nil, err
		}
		ownWord(r)
		marks := map[string]report.Mark{}
		for _, row := range report.Compare(all.Registry.All(), r).Rows {
			for _, m := range row.Cells[0] {
				marks[m.Claim] = m
			}
		}
		out = append(out, recorded{r, name, marks})
	}
	order := func(r recorded) int {
		if i := slices.Index(suite.ProfileIDs(), r.name); i >= 0 {
			return i
		}
		return len(suite.ProfileIDs())
	}
	slices.SortStableFunc(out, func(a, b recorded) int { return order(a) - order(b) })
	return out, nil
}

func readReport(path string) (*report.Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading evidence: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	r, err := report.Read(f)
	if err != nil {
		return nil, fmt.Errorf("reading the evidence in %s: %w", path, err)
	}
	return r, nil
}

// ownWord marks what rests on the word of the code in the sandbox as it is known by now:
// a report may be older than its scenarios' declarations, whose property that is.
func ownWord(r *report.Report) {
	for i, x := range r.Results {
		if s, ok := all.Registry.Get(x.ID); ok {
			r.Results[i].ProbeOnly = x.ProbeOnly || s.ProbeOnly()
		}
	}
}

// belongs returns an error for a report that does not say what its place in the
// folder makes of it: one of another profile or target, one that ended early, or one
// whose Held was decided with less than the scenario asks for by now.
func belongs(name string, r *report.Report) error {
	if r.Profile == "" && r.Target == planreport.Target {
		return nil
	}
	p, known := suite.ProfileByID(r.Profile)
	if !known || name != p.ID || r.Target != p.Target || r.Incomplete != "" {
		return fmt.Errorf("reading the evidence %s: it is of the profile %q and the target %q, %q: only a whole run against a profile's own target speaks for it",
			name, r.Profile, r.Target, r.Incomplete)
	}
	for _, x := range r.Results {
		s, ok := all.Registry.Get(x.ID)
		if !ok || x.Verdict != verdict.Held {
			continue
		}
		last := x.Rounds[len(x.Rounds)-1] // a Held has one
		for _, w := range s.Witnesses {
			if !slices.Contains(last.Requires, w.Name) {
				return fmt.Errorf("reading the evidence %s: %s is held without %s, which has to speak for it by now: run it again", name, x.ID, w.Name)
			}
		}
		for _, c := range last.Accepts {
			if !slices.Contains(s.Accept, c) {
				return fmt.Errorf("reading the evidence %s: %s is held by denials of the class %s, which it does not accept by now: run it again", name, x.ID, c)
			}
		}
		if last.AttemptsNeeded < max(s.Attempts, 1) {
			return fmt.Errorf("reading the evidence %s: %s is held after %d attempts, and needs %d by now: run it again", name, x.ID, last.AttemptsNeeded, s.Attempts)
		}
	}
	return nil
}

// verdictOf is the cell of one claim: what every report that is asked about it
// says.
func verdictOf(claim string, reports []recorded) string {
	var out []string
	for _, r := range reports {
		if m, ok := r.marks[claim]; ok && (m.Of > 0 || m.Verdict == verdict.NotApplicable) {
			out = append(out, fmt.Sprintf("%#q %s", r.name, strings.TrimPrefix(m.Word(), claim+" ")))
		}
	}
	if out == nil {
		return "none yet"
	}
	return strings.Join(out, "; ") + fmt.Sprintf(" ([evidence](#evidence-for-%s))", strings.ToLower(claim))
}

// maxDetail is as much of a sentence as a line has room for, in runes.
const maxDetail = 240

func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > maxDetail {
		s = string(r[:maxDetail]) + "…"
	}
	// It comes from reports, and so from sandboxes: nothing of it is Markdown.
	return strings.NewReplacer("\\", "\\\\", "`", "'", "*", `\*`, "_", `\_`, "<", "&lt;", "[", `\[`, "|", `\|`).Replace(s)
}

// evidenceOf writes what the reports have on one claim: a line for each scenario
// or rule.
func evidenceOf(b *strings.Builder, c suite.Claim, reports []recorded) {
	var lines []string
	for _, r := range reports {
		for _, x := range r.Results {
			if slices.Contains(x.Claims, c.ID) && (r.marks[c.ID].Claim != "") {
				lines = append(lines, fmt.Sprintf("| %#q | %s | %s | %s |", r.name, linkOf(x.ID), word(x), said(x)))
			}
		}
	}
	if lines == nil {
		return
	}
	fmt.Fprintf(b, "\n### Evidence for %s\n\n%s.\n\n| report | by | verdict | what was found, and who else saw it |\n|---|---|---|---|\n", c.ID, cell(c.Text))
	b.WriteString(strings.Join(lines, "\n") + "\n")
}

// word is a result's verdict; a limit that holds is an exposure that was shown.
func word(x report.Result) string {
	switch {
	case x.Verdict == verdict.Held && x.ClaimKind == suite.Limit:
		return "as disclosed"
	case x.Reason != "" && x.Verdict != verdict.Held:
		return fmt.Sprintf("%s (%s)", x.Verdict, x.Reason)
	}
	return x.Verdict.String()
}

// linkOf leads to the page of a scenario; a rule has none.
func linkOf(id string) string {
	if _, ok := all.Registry.Get(id); ok {
		return link(id)
	}
	return "`" + id + "`"
}

// said is a result's detail, and what the witnesses of the last round said.
func said(x report.Result) string {
	var out []string
	if x.Detail != "" {
		out = append(out, short(x.Detail))
	}
	if len(x.Rounds) == 0 {
		return strings.Join(out, "; ")
	}
	last := x.Rounds[len(x.Rounds)-1]
	for _, s := range last.Witnesses {
		text := s.Witness
		if s.Detail != "" {
			text += ": " + s.Detail
		}
		out = append(out, short(text))
	}
	if x.ProbeOnly {
		out = append(out, "the word of the code in the sandbox only")
	}
	return strings.Join(out, "; ")
}
