// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/conformance/plan"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/scenarios/all"
)

// systems are the systems of the texts, by the letters of their claims.
var systems = []struct{ letters, name string }{
	{"AS", "Agent Sandbox"}, {"KG", "kode-gopher"}, {"PG", "playground"},
}

// claimsPage lists every claim of the three systems with what speaks for it. A
// claim that nothing speaks for says so.
func claimsPage(reports []recorded) string {
	var b strings.Builder
	b.WriteString(note + "# Claims\n\n")
	b.WriteString("Every claim that the texts of the three systems make, the profiles that have to answer for it, and\n" +
		"what speaks for it: scenarios, which attack a real deployment, and rules of the plan check, which\n" +
		"judge an environment on Google Cloud before it exists. A *guarantee* is held when its attacks fail,\n" +
		"a *limit* when the exposure that the text admits is shown and is not larger, a *function* when honest\n" +
		"code works. A rule of the plan check speaks for an environment on Google Cloud, and never for a profile\n" +
		"on a cluster of this machine.\n\n" +
		"The verdicts are those of the reports in [evidence](evidence): real runs against the sealed cluster of\n" +
		"one machine, and checks of this repository's own plans. They were judged again, from their own\n" +
		"evidence, when this page was written, and say what was so then; `stockade run --profile …` says what is\n" +
		"so now, and `stockade compare` puts the profiles side by side. The plans were previewed with a stand-in\n" +
		"for Google's provider. That of `gke-shared` has its perimeter as a dry run, as the example does, which is\n" +
		"a breach until `stockade:perimeterEnforced` is true.\n\n")
	b.WriteString("| report | of | when | what came of it |\n|---|---|---|---|\n")
	for _, r := range reports {
		of := "the plan of the stack `" + r.Substrate["plan"] + "`"
		if r.Profile != "" {
			of = "a run against `" + r.Target + "`"
		}
		fmt.Fprintf(&b, "| [%s](evidence/%s.json) | %s | %s | %s |\n", r.name, r.name, of, r.Started.UTC().Format("2006-01-02 15:04 UTC"), r.Summary.Text)
	}
	b.WriteString("\n## Profiles\n\n")
	b.WriteString("| profile | what is deployed | claims | scenarios |\n|---|---|---|---|\n")
	for _, p := range suite.Profiles {
		fmt.Fprintf(&b, "| `%s` | %s | %d | %d |\n", p.ID, cell(p.Title), len(p.Claims), len(p.Of(all.Registry.All())))
	}
	for _, system := range systems {
		fmt.Fprintf(&b, "\n## %s\n\n| claim | | kind | verdicts | profiles | scenarios | plan check, on Google Cloud |\n|---|---|---|---|---|---|---|\n", system.name)
		for _, c := range suite.Claims {
			if !strings.HasPrefix(c.ID, system.letters+"-") {
				continue
			}
			b.WriteString(claimRow(c, reports))
		}
	}
	b.WriteString("\n## Evidence\n\nOf each scenario and rule, the last round. The reports have every attempt, every control and every\nstatement, with its time and its nonce.\n")
	for _, c := range suite.Claims {
		evidenceOf(&b, c, reports)
	}
	return b.String()
}

// claimRow is a claim's line in the table of its system.
func claimRow(c suite.Claim, reports []recorded) string {
	var scenarios, checks, profiles, kinds []string
	for _, s := range all.Registry.All() {
		if slices.Contains(s.Claims, c.ID) {
			scenarios = append(scenarios, s.ID)
		}
	}
	for _, r := range plan.Rules() {
		if slices.Contains(r.Claims, c.ID) {
			checks = append(checks, "`"+r.ID+"`")
		}
	}
	for _, p := range suite.Profiles {
		if slices.Contains(p.Claims, c.ID) {
			profiles = append(profiles, "`"+p.ID+"`")
		}
	}
	for _, k := range c.Kinds {
		kinds = append(kinds, string(k))
	}
	by := links(scenarios)
	if len(scenarios)+len(checks) == 0 {
		by = "none yet"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s |\n", c.ID, cell(c.Text), strings.Join(kinds, ", "), verdictOf(c.ID, reports),
		strings.Join(profiles, ", "), by, strings.Join(checks, ", "))
}
