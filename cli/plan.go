// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stockade-dev/stockade/conformance/plan"
	"github.com/stockade-dev/stockade/conformance/plan/planreport"
)

func (a *App) planCheckCmd() *cobra.Command {
	var o output
	var profile, stack string
	var throwAway bool
	known := slices.Sorted(maps.Keys(plan.Profiles))
	cmd := &cobra.Command{
		Use: "plan-check [FILE]", Short: "Judge an environment on Google Cloud before it exists",
		Long: `Read the resource graph of a Pulumi program, as "pulumi preview --json" or "pulumi
stack export" writes it (- for standard input), and say which claims it keeps. A rule
that needs a value not known yet is never Held, and over a preview that leaves out what
does not change, no rule is. Each rule is tried on a mutant of the very graph that it
judges. What a plan says is what was asked of the cloud, not what the cloud did.`,
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 1) == (stack != "") || len(args) > 1 {
				return usage("name one file, or - for standard input, or --stack: pulumi preview -s gke --json | stockade plan-check --profile gke -")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if stack != "" && !cmd.Flags().Changed("profile") {
				profile = stack
			}
			p, ok := plan.Profiles[profile]
			if !ok {
				return usage("there is no profile %q: --profile is %s", profile, strings.Join(known, ", "))
			}
			p.ThrowAway = throwAway
			waivers, err := a.waivers(o, isRule)
			if err != nil {
				return err
			}
			if err := o.check(); err != nil {
				return err
			}
			var g plan.Graph
			if stack != "" {
				g, err = a.preview(cmd.Context(), stack)
			} else {
				g, err = a.graph(args[0])
			}
			if err != nil {
				return err
			}
			at := a.Now()
			r, err := planreport.From(plan.Check(g, p, at), g, p, at)
			if err != nil {
				return err
			}
			if err := a.deliver(r, waivers, o); err != nil {
				return err
			}
			return withCode(r.ExitCode(), nil)
		},
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&profile, "profile", "gke", "what the environment `claims` to be: "+strings.Join(known, ", "))
	cmd.Flags().StringVar(&stack, "stack", "", "judge a preview of this Pulumi `stack`; the profile is the one of its name, where none is given")
	cmd.Flags().BoolVar(&throwAway, "throw-away", false, "the cluster is meant to be deleted without asking")
	fixed(cmd, "profile", known)
	return cmd
}

func isRule(id string) bool {
	return slices.ContainsFunc(plan.Rules(), func(r *plan.Rule) bool { return r.ID == id })
}

// preview is the graph of what the next `pulumi up` would make, with all that it
// would leave as it is.
func (a *App) preview(ctx context.Context, stack string) (plan.Graph, error) {
	done := a.progress().Step("previewing the stack " + stack)
	out, err := a.Pulumi.Output(ctx, []string{"preview", "--json", "--show-sames", "--stack", stack})
	done("", err)
	if err != nil {
		return plan.Graph{}, err
	}
	return plan.Decode(bytes.NewReader(out))
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
		return g, usage("%w", err)
	}
	return g, nil
}
