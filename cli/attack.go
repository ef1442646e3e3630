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

	"github.com/stockade-dev/stockade/conformance/guest"
	"github.com/stockade-dev/stockade/conformance/report"
	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/overlays"
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

// check refuses files that could not be written at the end.
func (o *output) check() error {
	if o.out != "" && o.out == o.junit {
		return usage("--out and --junit name the same file, %s", o.out)
	}
	for flag, path := range map[string]string{"--out": o.out, "--junit": o.junit} {
		if path == "" {
			continue
		}
		if err := writable(path); err != nil {
			return usage("%s: %w", flag, err)
		}
	}
	return nil
}

func (a *App) runCmd() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use: "run [WORD…]", Short: "Attack the sandboxes, and report",
		Long: `Attack a target from inside and report what held. A profile is a system as it is
deployed, with all that its text claims; it brings its own target. A word selects
scenarios of it: an id, a family, a claim or a mutant; no word selects all of them. A
word that selects nothing is an error.

With --target another deployment is attacked than the profile's own, and words select
out of all scenarios: whether the seed's own template holds AS-16 is a fair question.

With --template the target is a SandboxTemplate of your own: the file holds exactly
one, of extensions.agents.x-k8s.io/v1beta1. It is deployed beside the others in a
namespace made for this run, with a warm pool of one, and removed again. Its images
have to be on the nodes, since no registry can be reached from the seal.

With --questions only those scenarios are run that ask the API server and nothing else:
they send no attack traffic and run no program; all they create is one sandbox, claimed
where one has to be looked at, and given back. They need no range, so that they can be
asked of a stack on Google Cloud as well.

The report goes to stdout, and is kept under STOCKADE_HOME/run/reports.`,
		Example: "  stockade run\n  stockade run egress AS-07 --junit report.xml\n  stockade run --profile playground\n  stockade run --target seed AS-16\n  stockade run --template my-sandbox.yaml\n  stockade run --stack dev",
		ValidArgsFunction: func(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.words(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, words []string) error { return a.run(cmd.Context(), f, words) },
	}
	f.add(cmd)
	return cmd
}

// runFlags are those of `stockade run`.
type runFlags struct {
	output
	profile, target, file, stack string
	dry, questions               bool
}

func (f *runFlags) add(cmd *cobra.Command) {
	f.flags(cmd)
	cmd.Flags().StringVar(&f.profile, "profile", "", "the `profile` to run: "+list(suite.ProfileIDs())+" (default "+suite.DefaultProfile+")")
	cmd.Flags().StringVar(&f.target, "target", "", "attack this `target` instead of the profile's own: "+list(Targets))
	cmd.Flags().StringVar(&f.file, "template", "", "attack the SandboxTemplate in this YAML `file`")
	cmd.Flags().StringVar(&f.stack, "stack", "", "attack the place that this Pulumi `stack` exports")
	cmd.Flags().BoolVar(&f.questions, "questions", false, "only ask the API server: no attack traffic, no program; at most one sandbox is claimed")
	cmd.Flags().BoolVar(&f.dry, "dry-run", false, "only list what would be run")
	fixed(cmd, "target", Targets)
	fixed(cmd, "profile", suite.ProfileIDs())
}

// questions are those of the picked scenarios that ask the API server alone. A word that
// selects none of them is an error.
func (a *App) questions(at aimed, picked []*suite.Scenario, words []string) ([]*suite.Scenario, error) {
	others := func(s *suite.Scenario) bool { return !s.Question() }
	for _, w := range words {
		of, err := a.pick(at, []string{w})
		if err != nil {
			return nil, err
		}
		if len(slices.DeleteFunc(of, others)) == 0 {
			return nil, usage("--questions: none of the scenarios of %q asks the API server alone", w)
		}
	}
	picked = slices.DeleteFunc(picked, others)
	if len(picked) == 0 {
		return nil, usage("--questions: none of these scenarios asks the API server alone")
	}
	return picked, nil
}

func (a *App) run(ctx context.Context, f runFlags, words []string) error {
	if f.file != "" && (f.target != "" || f.profile != "") {
		return usage("--template brings a target of its own: leave out --target and --profile")
	}
	at, template, err := aim(f.profile, f.target, f.file)
	if err != nil {
		return err
	}
	picked, err := a.pick(at, words)
	if err != nil {
		return err
	}
	if f.questions {
		if picked, err = a.questions(at, picked, words); err != nil {
			return err
		}
	}
	waivers, err := a.waivers(f.output, a.isScenario)
	if err != nil {
		return err
	}
	if f.dry {
		return a.writeScenarios(picked, f.json)
	}
	if err := f.check(); err != nil {
		return err
	}
	ro := RunOptions{Profile: at.profile, Target: at.target, Template: template, Scenarios: picked, Progress: a.progress()}
	if f.stack != "" {
		// Outside of the seal, from which no state elsewhere can be read.
		there, err := a.stackTarget(ctx, f.stack, f.questions)
		if err != nil {
			return err
		}
		ro.Descriptor, ro.Cloud, ro.Kubeconfig = there.Descriptor, there.Cloud, there.Kubeconfig
	}
	attack := func() error {
		return a.locked(func() error {
			run, err := a.Runner.Run(ctx, ro)
			if errors.Is(err, guest.ErrUnfit) {
				return usage("%w", err)
			}
			return a.conclude(ctx, run, nil, err, waivers, f.output)
		})
	}
	if ro.Cloud != nil {
		return attack()
	}
	return a.sealed(ctx, attack)
}

// list is "a, b or c".
func list(all []string) string {
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " or " + all[len(all)-1]
}

// aimed is what a run is about, and where it goes.
type aimed struct {
	profile suite.Profile
	target  string
	// elsewhere says that the user named the target.
	elsewhere bool
}

// aim returns the profile and the target, and the user's own template where it
// is one.
func aim(profile, target, file string) (aimed, *guest.Template, error) {
	p, err := profileNamed(profile)
	if err != nil {
		return aimed{}, nil, err
	}
	switch {
	case file != "":
		t, err := guest.Read(file)
		if err != nil {
			return aimed{}, nil, usage("%w", err)
		}
		return aimed{profile: p, target: t.Target()}, t, nil
	case target == "":
		return aimed{profile: p, target: p.Target}, nil, nil
	}
	own, ok := profileOf(target)
	if !ok {
		return aimed{}, nil, usage("there is no target %q: it is %s, or bring one with --template", target, list(Targets))
	}
	if profile == "" {
		p = own
	}
	return aimed{p, target, true}, nil, nil
}

func profileNamed(id string) (suite.Profile, error) {
	if id == "" {
		id = suite.DefaultProfile
	}
	p, ok := suite.ProfileByID(id)
	if !ok {
		return p, usage("there is no profile %q: it is %s", id, list(suite.ProfileIDs()))
	}
	return p, nil
}

// pick returns the scenarios that the words select.
func (a *App) pick(at aimed, words []string) ([]*suite.Scenario, error) {
	var picked []*suite.Scenario
	var err error
	if at.elsewhere && len(words) > 0 {
		picked, err = a.Registry.Select(words...)
	} else {
		picked, err = a.Registry.Pick(at.profile, words...)
	}
	if err != nil {
		return nil, usage("%w", err)
	}
	if len(picked) == 0 {
		return nil, usage("nothing to run: there is no scenario of the profile %s", at.profile.ID)
	}
	return picked, nil
}

func (a *App) isScenario(id string) bool { _, ok := a.Registry.Get(id); return ok }

func (a *App) proveCmd() *cobra.Command {
	var f proveFlags
	cmd := &cobra.Command{
		Use: "prove [MUTANT…]", Short: "Show that every check can fail",
		Long: `Run the hardened deployment of a profile, on which nothing may be breached; then weaken
one control after the other, and demand of each scenario that it sees its own mutant.
A mutant that did not take effect, or that broke more than its control, counts as
void, not as killed. Without arguments all mutants of the profile are tried; with
--cover so many that every scenario meets at least one of its own, about half of them,
and with --beside as well those only that no mutant of another profile makes fail: for
a job that proves that profile, too. A mutant that is named brings its own profile.

A mutant stands on a scaffold: the deployment without what would hide its weakening, as
Pod Security hides a missing rule. With --scaffolds these are attacked first, by all
that their mutants are to be caught by; what is breached there already is void on them.`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return a.Registry.Mutants(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, mutants []string) error { return a.prove(cmd.Context(), f, mutants) },
	}
	f.add(cmd)
	return cmd
}

// proveFlags are those of `stockade prove`.
type proveFlags struct {
	output
	profile          string
	cover, scaffolds bool
	beside           []string
}

func (f *proveFlags) add(cmd *cobra.Command) {
	f.flags(cmd)
	cmd.Flags().StringVar(&f.profile, "profile", "", "the `profile` whose deployment is weakened (default "+suite.DefaultProfile+")")
	cmd.Flags().BoolVar(&f.cover, "cover", false, "try only as many mutants as it takes to reach every scenario")
	cmd.Flags().StringSliceVar(&f.beside, "beside", nil, "with --cover, leave out what the mutants of these `profiles` reach")
	fixed(cmd, "profile", suite.ProfileIDs())
	cmd.Flags().BoolVar(&f.scaffolds, "scaffolds", false, "first attack what the mutants stand on, as it is")
	fixed(cmd, "beside", suite.ProfileIDs())
}

func (a *App) prove(ctx context.Context, f proveFlags, mutants []string) error {
	if f.cover && len(mutants) > 0 {
		return usage("name mutants, or say --cover, not both")
	}
	if len(f.beside) > 0 && !f.cover {
		return usage("--beside says what --cover may leave out: say both")
	}
	p, bases, err := a.proved(f.profile, mutants)
	if err != nil {
		return err
	}
	named := mutants
	if f.cover {
		if mutants, err = a.coverOf(p, bases, f.beside); err != nil {
			return err
		}
	}
	waivers, err := a.waivers(f.output, a.isScenario)
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	return a.sealed(ctx, func() error {
		return a.locked(func() error {
			kills, run, err := a.Runner.Prove(ctx, ProveOptions{Profile: p, Mutants: mutants, Whole: f.cover, Scaffolds: f.scaffolds, Progress: a.progress()})
			if err == nil {
				err = unproved(named, kills)
			}
			return a.conclude(ctx, run, kills, err, waivers, f.output)
		})
	})
}

// coverOf picks as many mutants of a profile as it takes to reach every scenario that
// those of the profiles beside it do not reach; bases are the mutants' profiles.
func (a *App) coverOf(p suite.Profile, bases map[string]string, beside []string) ([]string, error) {
	for _, other := range beside {
		if _, err := profileNamed(other); err != nil {
			return nil, err
		}
		if other == p.ID {
			return nil, usage("--beside names the profile itself, %s", other)
		}
	}
	mutants := a.Registry.Cover(func(m string) bool { return bases[m] == p.ID }, func(m string) bool { return slices.Contains(beside, bases[m]) })
	if len(mutants) == 0 {
		return nil, usage("the mutants of %s reach all that those of %s would", strings.Join(beside, ", "), p.ID)
	}
	return mutants, nil
}

// unproved is an error where a mutant that was named is not in the matrix, or
// none at all is: what was left out, because the target lacks what it needs, was
// not shown, and must not look as if it had been.
func unproved(named []string, kills []runner.Kill) error {
	if len(kills) == 0 {
		return errors.New("no mutant was tried: the target lacks what they need")
	}
	left := slices.DeleteFunc(slices.Clone(named), func(m string) bool {
		return slices.ContainsFunc(kills, func(k runner.Kill) bool { return k.Mutant == m })
	})
	if len(left) > 0 {
		return fmt.Errorf("not tried, because the target lacks what they need: %s", strings.Join(left, ", "))
	}
	return nil
}

// proved returns the profile whose mutants are tried, and the profile of every
// mutant.
func (a *App) proved(profile string, mutants []string) (suite.Profile, map[string]string, error) {
	described, err := a.Mutants()
	if err != nil {
		return suite.Profile{}, nil, fmt.Errorf("reading the mutants: %w", err)
	}
	bases := map[string]string{}
	for _, m := range described {
		bases[m.ID] = m.Base
	}
	for _, m := range mutants {
		base, ok := bases[m]
		switch {
		case !ok:
			return suite.Profile{}, nil, usage("there is no mutant %q; `stockade list mutants` shows them", m)
		case profile == "":
			profile = base
		case base != profile:
			return suite.Profile{}, nil, usage("the mutant %s is of the profile %s, not of %s: prove them one profile at a time", m, base, profile)
		}
	}
	p, err := profileNamed(profile)
	if err != nil {
		return p, nil, err
	}
	if !slices.ContainsFunc(described, func(m overlays.Mutant) bool { return m.Base == p.ID }) {
		return p, nil, usage("the profile %s has no mutants of its own: its scenarios are proved with those of %s", p.ID, suite.DefaultProfile)
	}
	return p, bases, nil
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
	if p, ok := suite.ProfileByID(run.Profile); ok {
		r.LeftOut(p.Of(a.Registry.All()))
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
	return withCode(r.ExitCode(), nil)
}

// deliver waives, keeps, writes and prints a report.
func (a *App) deliver(r *report.Report, waivers []report.Waiver, o output) error {
	for _, id := range r.Waive(waivers) {
		a.progress().Note("the waiver for %s was not needed: remove it", id)
	}
	// The report is written wherever else it goes even if it cannot be kept: on a
	// full disk the user must see it all the same.
	path, err := a.save(r)
	errs := []error{err}
	if err == nil {
		a.progress().Note("report kept in %s", path)
	}
	if o.out != "" {
		errs = append(errs, writeFile(o.out, r.JSON))
	}
	if o.junit != "" {
		errs = append(errs, writeFile(o.junit, r.JUnit))
	}
	if o.json {
		errs = append(errs, r.JSON(a.Stdout))
	} else {
		errs = append(errs, r.Text(a.Stdout, a.style()))
	}
	return errors.Join(errs...)
}

func (a *App) cleanupCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "cleanup", Short: "Remove what a killed run left in the cluster", Args: cobra.NoArgs,
		Long: "Remove every object that a run has written into its ledger and did not remove itself,\nbecause it was killed. The place stays; `stockade down` removes that.",
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
