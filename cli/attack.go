// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stockade-dev/stockade/conformance/descriptor"
	"github.com/stockade-dev/stockade/conformance/guest"
	"github.com/stockade-dev/stockade/conformance/report"
	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// output is where a run's report goes, besides the store.
type output struct {
	json               bool
	junit, out, waived string
}

func (o *output) flags(cmd *cobra.Command) {
	jsonFlag(cmd, &o.json)
	cmd.Flags().StringVar(&o.junit, "junit", "", "write JUnit XML to this `file`")
	cmd.Flags().StringVar(&o.out, "out", "", "write the report as JSON to this `file`")
	cmd.Flags().StringVar(&o.waived, "waivers", "", "read waivers from this YAML `file`; they change the exit code, never a verdict")
}

func (a *App) runCmd() *cobra.Command {
	var o output
	var target, file, stack string
	var dry bool
	cmd := &cobra.Command{
		Use: "run [WORD…]", Short: "Attack the sandboxes, and report",
		Long: `Attack a target from inside and report what held. A word selects scenarios: an id,
a family, a claim or a mutant; no word selects all that belong to the target. A word
that selects nothing is an error.

With --template the target is a SandboxTemplate of your own: the file holds exactly
one, of extensions.agents.x-k8s.io/v1beta1. It is deployed beside the others in a
namespace made for this run, with a warm pool of one, and removed again. Its images
have to be on the nodes, since no registry can be reached from the seal.

The report goes to stdout, and is kept under STOCKADE_HOME/run/reports.`,
		Example: "  stockade run\n  stockade run egress AS-07 --junit report.xml\n  stockade run --target seed AS-16\n  stockade run --template my-sandbox.yaml\n  stockade run --stack dev",
		ValidArgsFunction: func(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.words(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, words []string) error {
			if file != "" && cmd.Flags().Changed("target") {
				return usage("--template brings a target of its own: leave out --target")
			}
			target, template, err := aim(target, file)
			if err != nil {
				return err
			}
			picked, waivers, err := a.understand(target, words, o)
			if err != nil {
				return err
			}
			if dry {
				return a.writeScenarios(picked, o.json)
			}
			ctx := cmd.Context()
			return a.sealed(ctx, func() error {
				return a.locked(func() error {
					var place *descriptor.Descriptor
					if stack != "" {
						var err error
						if place, err = a.stackTarget(ctx, stack); err != nil {
							return err
						}
					}
					run, err := a.Runner.Run(ctx, RunOptions{Place: place, Target: target, Template: template, Scenarios: picked, Progress: a.progress()})
					if errors.Is(err, guest.ErrUnfit) {
						return usage("%w", err)
					}
					return a.conclude(ctx, run, nil, err, waivers, o)
				})
			})
		},
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&target, "target", "reference", "what to attack: "+strings.Join(Targets, " or "))
	cmd.Flags().StringVar(&file, "template", "", "attack the SandboxTemplate in this YAML `file`")
	cmd.Flags().StringVar(&stack, "stack", "", "attack the place that this Pulumi `stack` exports")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only list what would be run")
	fixed(cmd, "target", Targets)
	return cmd
}

// aim returns the target's name, and the user's own template where it is one.
func aim(target, file string) (string, *guest.Template, error) {
	if file == "" {
		if !slices.Contains(Targets, target) {
			return "", nil, usage("there is no target %q: it is %s, or bring one with --template", target, strings.Join(Targets, " or "))
		}
		return target, nil, nil
	}
	t, err := guest.Read(file)
	if err != nil {
		return "", nil, usage("%w", err)
	}
	return t.Target(), t, nil
}

func (a *App) proveCmd() *cobra.Command {
	var o output
	var cover bool
	cmd := &cobra.Command{
		Use: "prove [MUTANT…]", Short: "Show that every check can fail",
		Long: `Run the hardened reference, on which nothing may be breached; then weaken one
control after the other, and demand of each scenario that it sees its own mutant.
A mutant that did not take effect, or that broke more than its control, counts as
void, not as killed. Without arguments all mutants are tried; with --cover so many
that every scenario meets at least one of its own, in about half the time.`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return a.Registry.Mutants(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, mutants []string) error {
			known := a.Registry.Mutants()
			for _, m := range mutants {
				if !slices.Contains(known, m) {
					return usage("there is no mutant %q; `stockade list mutants` shows them", m)
				}
			}
			if cover {
				if len(mutants) > 0 {
					return usage("name mutants, or say --cover, not both")
				}
				mutants = a.Registry.Cover()
			}
			_, waivers, err := a.understand("reference", nil, o)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			return a.sealed(ctx, func() error {
				return a.locked(func() error {
					kills, run, err := a.Runner.Prove(ctx, ProveOptions{Mutants: mutants, Progress: a.progress()})
					return a.conclude(ctx, run, kills, err, waivers, o)
				})
			})
		},
	}
	o.flags(cmd)
	cmd.Flags().BoolVar(&cover, "cover", false, "try only as many mutants as it takes to reach every scenario")
	return cmd
}

// understand checks all that the user said before anything is attacked.
func (a *App) understand(target string, words []string, o output) ([]*suite.Scenario, []report.Waiver, error) {
	picked, err := a.Registry.Select(words...)
	if err != nil {
		return nil, nil, usage("%w", err)
	}
	if len(words) == 0 {
		picked = runner.ForTarget(picked, target)
	} else {
		// Who asks for a scenario by name gets it on any target but one that
		// it is not made for: whether the seed holds AS-16 is a fair question.
		picked = slices.DeleteFunc(slices.Clone(picked), func(s *suite.Scenario) bool {
			return s.Target != "" && s.Target != target
		})
	}
	if len(picked) == 0 {
		return nil, nil, usage("nothing to run: none of the scenarios is for the target %s", target)
	}
	waivers, err := a.waivers(o, func(id string) bool { _, ok := a.Registry.Get(id); return ok })
	if err != nil {
		return nil, nil, err
	}
	return picked, waivers, nil
}

// waivers reads the user's waivers, if there are any; known tells whether an id
// is of something that can be waived.
func (a *App) waivers(o output, known func(id string) bool) ([]report.Waiver, error) {
	if o.waived == "" {
		return nil, nil
	}
	doc, err := os.ReadFile(o.waived)
	if err != nil {
		return nil, usage("reading the waivers: %w", err)
	}
	waivers, err := report.Waivers(doc, known, a.Now())
	if err != nil {
		return nil, usage("%w", err)
	}
	return waivers, nil
}

// conclude makes the report of a run, however the run ended, and returns the
// exit code. What was found before an error or an interrupt is kept.
func (a *App) conclude(ctx context.Context, run *runner.Run, kills []runner.Kill, failed error, waivers []report.Waiver, o output) error {
	if run == nil {
		if failed == nil {
			failed = errors.New("the runner returned nothing")
		}
		return failed
	}
	if failed != nil && run.Incomplete == "" {
		run.Incomplete = failed.Error()
	}
	r, err := report.From(run, kills)
	if err != nil {
		return errors.Join(failed, err)
	}
	if err := a.deliver(r, waivers, o); err != nil {
		return errors.Join(failed, err)
	}
	if ctx.Err() != nil {
		return &exit{verdict.ExitInterrupted, errors.New("interrupted; the report holds what was found before")}
	}
	if failed != nil {
		a.complain(failed)
	}
	return withCode(r.Gate(), nil)
}

// deliver waives, keeps, writes and prints a report.
func (a *App) deliver(r *report.Report, waivers []report.Waiver, o output) error {
	for _, id := range r.Waive(waivers) {
		a.progress().Note("the waiver for %s was not needed: remove it", id)
	}
	path, err := a.save(r)
	if err != nil {
		return err
	}
	if o.out != "" {
		if err := writeFile(o.out, r.JSON); err != nil {
			return err
		}
	}
	if o.junit != "" {
		if err := writeFile(o.junit, r.JUnit); err != nil {
			return err
		}
	}
	a.progress().Note("report kept in %s", path)
	if o.json {
		return r.JSON(a.Stdout)
	}
	return r.Text(a.Stdout, a.style())
}

func (a *App) cleanupCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "cleanup", Short: "Remove what a killed run left in the cluster", Args: cobra.NoArgs,
		Long: "Remove every object that a run has written into its ledger and did not remove itself,\nbecause it was killed. The environment stays; `stockade down` removes that.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.sealed(ctx, func() error {
				return a.locked(func() error {
					removed, left, err := a.Runner.Cleanup(ctx, a.progress())
					if err != nil {
						return fmt.Errorf("cleaning up: %w", err)
					}
					return a.writeCleaned(removed, left, asJSON)
				})
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *App) writeCleaned(removed, left []string, asJSON bool) error {
	if asJSON {
		doc := struct {
			Removed []string `json:"removed"`
			Left    []string `json:"left"`
		}{append([]string{}, removed...), append([]string{}, left...)}
		if err := writeJSON(a.Stdout, doc); err != nil {
			return err
		}
	} else {
		for _, x := range removed {
			_, _ = fmt.Fprintln(a.Stdout, "removed", report.Clean(x))
		}
		for _, x := range left {
			_, _ = fmt.Fprintln(a.Stdout, "left", report.Clean(x))
		}
	}
	if len(left) > 0 {
		return withCode(verdict.ExitResidue, fmt.Errorf("%d objects could not be removed; `stockade down` removes the whole cluster", len(left)))
	}
	return nil
}

func fixed(cmd *cobra.Command, flag string, values []string) {
	// It fails only for a flag that does not exist, which the tests would see.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}
