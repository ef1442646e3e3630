// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stockade-dev/stockade/conformance/report"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// scenarioInfo is a declaration as `list` and `show` write it.
type scenarioInfo struct {
	ID         string          `json:"id"`
	Title      string          `json:"title"`
	About      string          `json:"about,omitempty"`
	Claims     []string        `json:"claims"`
	ClaimKind  suite.Kind      `json:"claimKind"`
	Severity   suite.Severity  `json:"severity"`
	Techniques []string        `json:"techniques,omitempty"`
	References []string        `json:"references,omitempty"`
	Needs      []suite.Feature `json:"needs,omitempty"`
	From       suite.Role      `json:"from"`
	Profiles   []string        `json:"profiles,omitempty"`
	Attempts   int             `json:"attempts"`
	Accepts    []verdict.Class `json:"accepts,omitempty"`
	Witnesses  []string        `json:"witnesses,omitempty"`
	Control    string          `json:"control,omitempty"`
	Mutants    []string        `json:"mutants"`
}

func infoOf(s *suite.Scenario) scenarioInfo {
	out := scenarioInfo{
		ID: s.ID, Title: s.Title, About: s.About, Claims: s.Claims, ClaimKind: s.Kind, Severity: s.Severity,
		Techniques: s.Techniques, References: s.Refs, Needs: s.Needs, From: s.From, Profiles: suite.ProfilesOf(s),
		Attempts: max(s.Attempts, 1), Accepts: s.Accept, Control: s.Control.Why, Mutants: s.Mutants,
	}
	for _, w := range s.Witnesses {
		out.Witnesses = append(out.Witnesses, w.Name)
	}
	return out
}

// group is a claim or a mutant with the scenarios that speak for it.
type group struct {
	ID        string   `json:"id"`
	Title     string   `json:"title,omitempty"`
	Scenarios []string `json:"scenarios"`
}

func (a *App) claims() []group {
	return a.groups(func(s *suite.Scenario) []string { return s.Claims }, suite.ClaimText)
}

func (a *App) mutants() ([]group, error) {
	described, err := a.Mutants()
	if err != nil {
		return nil, fmt.Errorf("reading the mutants: %w", err)
	}
	titles := map[string]string{}
	for _, m := range described {
		titles[m.ID] = m.Title
	}
	return a.groups(func(s *suite.Scenario) []string { return s.Mutants }, func(id string) string { return titles[id] }), nil
}

func (a *App) profiles() []group {
	out := make([]group, 0, len(suite.Profiles))
	for _, p := range suite.Profiles {
		g := group{ID: p.ID, Title: p.Title, Scenarios: []string{}}
		for _, s := range p.Of(a.Registry.All()) {
			g.Scenarios = append(g.Scenarios, s.ID)
		}
		out = append(out, g)
	}
	return out
}

func (a *App) groups(of func(*suite.Scenario) []string, title func(string) string) []group {
	by := map[string][]string{}
	for _, s := range a.Registry.All() {
		for _, id := range of(s) {
			by[id] = append(by[id], s.ID)
		}
	}
	var out []group
	for _, id := range slices.Sorted(maps.Keys(by)) {
		out = append(out, group{id, title(id), by[id]})
	}
	return out
}

// words are all that selects scenarios, for completion.
func (a *App) words() []string {
	var out []string
	families := map[string]bool{}
	for _, s := range a.Registry.All() {
		family, _, _ := strings.Cut(s.ID, ".")
		families[family] = true
		out = append(out, s.ID+"\t"+s.Title)
	}
	for _, f := range slices.Sorted(maps.Keys(families)) {
		out = append(out, f+"\tthe whole family")
	}
	for _, c := range a.claims() {
		out = append(out, c.ID+"\t"+c.Title)
	}
	return append(out, a.Registry.Mutants()...)
}

func (a *App) listCmd() *cobra.Command {
	var asJSON bool
	things := []string{"scenarios", "claims", "mutants", "profiles", "reports"}
	cmd := &cobra.Command{
		Use: "list [scenarios|claims|mutants|profiles|reports]", Short: "List the scenarios, claims, mutants, profiles or kept reports",
		Args: cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs), ValidArgs: things,
		RunE: func(_ *cobra.Command, args []string) error {
			switch strings.Join(args, "") {
			case "claims":
				return a.writeGroups(a.claims(), asJSON)
			case "mutants":
				all, err := a.mutants()
				if err != nil {
					return err
				}
				return a.writeGroups(all, asJSON)
			case "profiles":
				return a.writeGroups(a.profiles(), asJSON)
			case "reports":
				return a.writeKept(asJSON)
			}
			return a.writeScenarios(a.Registry.All(), asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *App) writeScenarios(all []*suite.Scenario, asJSON bool) error {
	if asJSON {
		infos := make([]scenarioInfo, 0, len(all))
		for _, s := range all {
			infos = append(infos, infoOf(s))
		}
		return writeJSON(a.Stdout, infos)
	}
	t := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	for _, s := range all {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", s.ID, strings.Join(s.Claims, " "), s.Severity, s.Title)
	}
	return t.Flush()
}

func (a *App) writeGroups(all []group, asJSON bool) error {
	if asJSON {
		return writeJSON(a.Stdout, all)
	}
	t := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	for _, g := range all {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\n", g.ID, g.Title, strings.Join(g.Scenarios, " "))
	}
	return t.Flush()
}

func (a *App) writeKept(asJSON bool) error {
	kept, err := a.kept()
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(a.Stdout, append([]string{}, kept...))
	}
	for _, path := range kept {
		if _, err := fmt.Fprintln(a.Stdout, strings.TrimSuffix(filepath.Base(path), ".json")); err != nil {
			return err
		}
	}
	return nil
}

func (a *App) showCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "Explain a scenario, a claim or a mutant", Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return a.words(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			id := args[0]
			if s, ok := a.Registry.Get(id); ok {
				if asJSON {
					return writeJSON(a.Stdout, infoOf(s))
				}
				return a.writeScenario(infoOf(s))
			}
			mutants, err := a.mutants()
			if err != nil {
				return err
			}
			for _, g := range append(a.claims(), mutants...) {
				if g.ID != id {
					continue
				}
				if asJSON {
					return writeJSON(a.Stdout, g)
				}
				_, err := fmt.Fprintf(a.Stdout, "%s: %s\n%s\n", g.ID, g.Title, bullets(g.Scenarios))
				return err
			}
			return usage("%q is no scenario, claim or mutant; `stockade list` shows them", id)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *App) writeScenario(s scenarioInfo) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\n%s\n\n", s.ID, s.Title, strings.TrimSpace(s.About))
	row := func(name string, values ...string) {
		if v := strings.TrimSpace(strings.Join(values, ", ")); v != "" {
			fmt.Fprintf(&b, "%-17s %s\n", name+":", v)
		}
	}
	classes := make([]string, 0, len(s.Accepts))
	for _, c := range s.Accepts {
		classes = append(classes, string(c))
	}
	row("claims", s.Claims...)
	row("profiles", s.Profiles...)
	row("kind, severity", string(s.ClaimKind), string(s.Severity))
	row("techniques", s.Techniques...)
	row("attacked from", string(s.From))
	row("accepted denials", classes...)
	row("positive control", s.Control)
	row("witnesses", s.Witnesses...)
	row("mutants", s.Mutants...)
	row("references", s.References...)
	_, err := fmt.Fprint(a.Stdout, b.String())
	return err
}

func bullets(all []string) string { return "  " + strings.Join(all, "\n  ") }

func (a *App) reportCmd() *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "report [FILE|RUN]", Short: "Show a report again, or compare two", Args: cobra.MaximumNArgs(1),
		Long: `Show a kept report (the newest without an argument), a file, or "-" for stdin. The
report is checked first: every Held in it is judged again from its own evidence.
The exit code is that of the run; of one that was interrupted it is 3, or 1 where
something was breached before.`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return a.keptNames(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := a.load(strings.Join(args, ""))
			if err != nil {
				return err
			}
			if o.junit != "" {
				if err := writeFile(o.junit, r.JUnit); err != nil {
					return err
				}
			}
			if o.json {
				err = r.JSON(a.Stdout)
			} else {
				err = r.Text(a.Stdout, a.style())
			}
			if err != nil {
				return err
			}
			return withCode(r.ExitCode(), nil)
		},
	}
	jsonFlag(cmd, &o.json)
	cmd.Flags().StringVar(&o.junit, "junit", "", "write JUnit XML to this `file`")
	cmd.AddCommand(a.diffCmd())
	return cmd
}

func (a *App) keptNames() []string {
	kept, _ := a.kept()
	out := make([]string, 0, len(kept))
	for _, path := range kept {
		out = append(out, strings.TrimSuffix(filepath.Base(path), ".json"))
	}
	return out
}

func (a *App) diffCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "diff BEFORE AFTER", Short: "Tell which verdicts changed between two reports", Args: cobra.ExactArgs(2),
		Long: `Tell which verdicts changed, and of two proofs also which scenarios see their mutants.
A scenario that is missing in the second report is worse. The exit code is 1 when
anything is worse, else 0.`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return a.keptNames(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(_ *cobra.Command, args []string) error {
			before, err := a.load(args[0])
			if err != nil {
				return err
			}
			after, err := a.load(args[1])
			if err != nil {
				return err
			}
			if before.Profile != after.Profile || before.Target != after.Target {
				a.progress().Note("these are of two deployments: %s (profile %s), then %s (profile %s)", before.Target, before.Profile, after.Target, after.Profile)
			}
			changes := report.Diff(before, after)
			if asJSON {
				err = writeJSON(a.Stdout, append([]report.Change{}, changes...))
			} else {
				err = report.WriteChanges(a.Stdout, changes)
			}
			if err != nil {
				return err
			}
			if slices.ContainsFunc(changes, func(c report.Change) bool { return c.Worse }) {
				return withCode(verdict.ExitBreached, nil)
			}
			return nil
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}
