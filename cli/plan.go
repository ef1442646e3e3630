// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stockade-dev/stockade/conformance/plan"
	"github.com/stockade-dev/stockade/conformance/plan/planreport"
	"github.com/stockade-dev/stockade/conformance/report"
)

func (a *App) planCheckCmd() *cobra.Command {
	var o output
	var profile string
	var throwAway bool
	known := slices.Sorted(maps.Keys(plan.Profiles))
	cmd := &cobra.Command{
		Use: "plan-check FILE", Short: "Judge an environment on Google Cloud before it exists",
		Long: `Read the resource graph of a Pulumi program, as "pulumi preview --json" or "pulumi
stack export" writes it (- for standard input), and say which claims it keeps. A
value that is not known yet, and a preview that leaves out what does not change,
hold nothing. Each rule is tried on a mutant of the very graph that it judges. What
a plan says is what was asked of the cloud, not what the cloud did.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("name one file, or - for standard input: pulumi preview -s gke --json | stockade plan-check --profile gke -")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			p, ok := plan.Profiles[profile]
			if !ok {
				return usage("there is no profile %q: --profile is %s", profile, strings.Join(known, ", "))
			}
			p.ThrowAway = throwAway
			waivers, err := a.planWaivers(o)
			if err != nil {
				return err
			}
			g, err := a.graph(args[0])
			if err != nil {
				return err
			}
			at := a.Now()
			r, err := planreport.From(plan.Check(g, p, at), g, p, at)
			if err != nil {
				return err
			}
			for _, id := range r.Waive(waivers) {
				a.progress().Note("the waiver for %s was not needed: remove it", id)
			}
			if err := a.deliver(r, o); err != nil {
				return err
			}
			return withCode(r.Gate(), nil)
		},
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&profile, "profile", "gke", "what the environment `claims` to be: "+strings.Join(known, ", "))
	cmd.Flags().BoolVar(&throwAway, "throw-away", false, "the cluster is meant to be deleted without asking")
	fixed(cmd, "profile", known)
	return cmd
}

func (a *App) planWaivers(o output) ([]report.Waiver, error) {
	if o.waived == "" {
		return nil, nil
	}
	doc, err := os.ReadFile(o.waived)
	if err != nil {
		return nil, usage("reading the waivers: %w", err)
	}
	rule := func(id string) bool {
		return slices.ContainsFunc(plan.Rules(), func(r *plan.Rule) bool { return r.ID == id })
	}
	waivers, err := report.Waivers(doc, rule, a.Now())
	if err != nil {
		return nil, usage("%w", err)
	}
	return waivers, nil
}

// graph reads a document that may come from anywhere; [plan.Decode] bounds it.
func (a *App) graph(name string) (g plan.Graph, err error) {
	in := a.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return g, usage("reading the plan: %w", err)
		}
		defer f.Close() //nolint:errcheck // only read
		in = f
	}
	if g, err = plan.Decode(in); err != nil {
		return g, usage("reading the plan: %w; give what `pulumi preview --json` or `pulumi stack export` wrote", err)
	}
	return g, nil
}
