// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stockade-dev/stockade/conformance/report"
	"github.com/stockade-dev/stockade/conformance/suite"
)

func (a *App) compareCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "compare [PROFILE|FILE|RUN…]", Short: "Put the reports of several profiles side by side",
		Long: `Put reports side by side, by topic: what each system claims, and what became of it.
A profile stands for its newest kept report, a whole one where there is any; without
arguments every profile that has one is taken. A scenario of the profile that is not in
its report counts as not run, and a later report of a part is pointed at. It is for
reading: the exit code says nothing of the verdicts. With --verbose the claims'
sentences follow.`,
		Example: "  stockade compare\n  stockade compare agent-sandbox playground",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return append(suite.ProfileIDs(), a.keptNames()...), cobra.ShellCompDirectiveDefault
		},
		RunE: func(_ *cobra.Command, args []string) error {
			reports, err := a.sides(args)
			if err != nil {
				return err
			}
			c := report.Compare(a.Registry.All(), reports...)
			if asJSON {
				return writeJSON(a.Stdout, c)
			}
			return c.Write(a.Stdout, a.style())
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// sides loads the reports to compare.
func (a *App) sides(args []string) ([]*report.Report, error) {
	profiles := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return !slices.Contains(suite.ProfileIDs(), arg) })
	if len(args) == 0 {
		profiles = suite.ProfileIDs()
	}
	newest, err := a.newest(profiles)
	if err != nil {
		return nil, err
	}
	var out []*report.Report
	if len(args) == 0 {
		for _, id := range profiles {
			if r, ok := newest[id]; ok {
				out = append(out, r)
			}
		}
		if out == nil {
			return nil, usage("there is no report yet: `stockade run --profile …` makes one")
		}
		return out, nil
	}
	for _, arg := range args {
		if slices.Contains(profiles, arg) {
			r, ok := newest[arg]
			if !ok {
				return nil, usage("there is no report of the profile %s: `stockade run --profile %s` makes one", arg, arg)
			}
			out = append(out, r)
			continue
		}
		r, err := a.load(arg)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// newest loads the newest kept report of each of these profiles: the newest that is
// whole, or else the newest there is. Those of older versions that cannot be
// read any more are passed over, as are proofs, and runs against another target
// than the profile's own.
func (a *App) newest(profiles []string) (map[string]*report.Report, error) {
	if len(profiles) == 0 {
		return nil, nil // files alone are compared
	}
	kept, err := a.kept()
	if err != nil {
		return nil, err
	}
	out, parts := map[string]*report.Report{}, map[string]*report.Report{}
	for _, path := range slices.Backward(kept) {
		// All evidence is judged again when a report is loaded, and a home keeps all
		// reports.
		if id, ok := ofProfile(path); ok && (!slices.Contains(profiles, id) || out[id] != nil) {
			continue
		}
		r, err := a.load(path)
		if err != nil {
			a.progress().Note("passing over %s: %v", path, err)
			continue
		}
		p, _ := suite.ProfileByID(r.Profile)
		switch {
		case whole(r, p.Of(a.Registry.All())):
			out[p.ID] = r
		case parts[p.ID] == nil:
			parts[p.ID] = r
		}
	}
	for _, id := range slices.Sorted(maps.Keys(parts)) {
		if out[id] == nil {
			out[id] = parts[id]
			continue
		}
		// A later run of only a part of the profile may have come to another verdict.
		a.progress().Note("%s is as the run %s found it; the later run %s, of a part of it, says %s: `stockade report %s`",
			id, out[id].ID, parts[id].ID, parts[id].Summary.Text, parts[id].ID)
	}
	return out, nil
}

// ofProfile returns the profile that a kept report is an attack of, on its own
// target: nothing for a proof or another target, and false where the file cannot be
// read.
func ofProfile(path string) (id string, ok bool) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", false
	}
	var head struct {
		Profile string            `json:"profile"`
		Target  string            `json:"target"`
		Mutants []json.RawMessage `json:"mutants"`
	}
	if json.Unmarshal(raw, &head) != nil {
		return "", false
	}
	if p, known := suite.ProfileByID(head.Profile); known && head.Target == p.Target && len(head.Mutants) == 0 {
		return p.ID, true
	}
	return "", true
}

// whole tells whether a report has every scenario.
func whole(r *report.Report, scenarios []*suite.Scenario) bool {
	have := map[string]bool{}
	for _, x := range r.Results {
		have[x.ID] = true
	}
	for _, s := range scenarios {
		if !have[s.ID] {
			return false
		}
	}
	return true
}
