// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stockade-dev/stockade/conformance/report"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/infra/doctor"
	"github.com/stockade-dev/stockade/overlays"
)

func (a *App) doctorCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Say what this machine has, lacks, and how to mend it", Args: cobra.NoArgs,
		Long: `Look at the machine and change nothing: kernel features, privileges, programs,
memory and disk space. What is marked "fail" has to be mended before
` + "`stockade up`" + ` can work; "warn" is a limit that is adapted to.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks, err := a.look(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				err = writeJSON(a.Stdout, checks)
			} else {
				err = a.writeChecks(checks)
			}
			if err != nil {
				return err
			}
			if missing(checks) != nil {
				return withCode(verdict.ExitInconclusive, nil)
			}
			return nil
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *App) writeChecks(checks []doctor.Finding) error {
	t := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	for _, c := range checks {
		// A failed write is kept by the tabwriter and returned by Flush.
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\n", c.Level, c.Name, report.Clean(c.Detail))
		if c.Remedy != "" {
			_, _ = fmt.Fprintf(t, "\t\t→ %s\n", c.Remedy)
		}
	}
	return t.Flush()
}

func missing(checks []doctor.Finding) (out []string) {
	for _, c := range checks {
		if c.Level == doctor.Fail {
			out = append(out, fmt.Sprintf("%s: %s\n%s", c.Name, c.Detail, c.Remedy))
		}
	}
	return out
}

// look says so first: to tell what is built, the sources of all programs are listed.
func (a *App) look(ctx context.Context) ([]doctor.Finding, error) {
	done := a.progress().Step("looking at the machine and at what is built")
	checks, err := a.Host.Doctor(ctx)
	done("", err)
	if err != nil {
		return nil, fmt.Errorf("looking at the machine: %w", err)
	}
	return checks, nil
}

// essentials refuses a machine on which nothing can work.
func (a *App) essentials(ctx context.Context) error {
	checks, err := a.look(ctx)
	if err != nil {
		return err
	}
	if m := missing(checks); m != nil {
		return incomplete("this machine lacks what is needed; `stockade doctor` shows all of it:\n%s", strings.Join(m, "\n"))
	}
	return nil
}

func (a *App) imagesCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "images", Short: "Build the programs and images that the cluster is made of",
		Args: subcommand, RunE: help,
	}
	var pulumi bool
	build := &cobra.Command{
		Use: "build", Short: "Build what is missing; do nothing where all is there", Args: cobra.NoArgs,
		Long: `Build Kubernetes, containerd, gVisor, Cilium and the rest from their Go modules,
and the images of the nodes and Pods from them. What was built is kept by the
digest of all that went into it, so that a second call takes seconds, and one
that was interrupted goes on where it stopped.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if pulumi {
				// No root, no kernel feature, and nothing of the place.
				return a.buildPulumi(cmd.Context())
			}
			return a.locked(func() error {
				if err := a.essentials(cmd.Context()); err != nil {
					return err
				}
				return a.raise(cmd.Context(), []Layer{a.Images}, UpOptions{})
			})
		},
	}
	build.Flags().BoolVar(&pulumi, "pulumi", false, "build Pulumi's engine and its Kubernetes provider, and nothing else")
	cmd.AddCommand(build, a.pruneCmd())
	return cmd
}

func (a *App) pruneCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "prune", Short: "Remove what earlier sources have built", Args: cobra.NoArgs,
		Long: `Remove programs and images that were built from other sources than those of this
checkout, and say how much that freed. Nothing does so by itself: another checkout with
the same STOCKADE_HOME may still use them, and would have to build them again.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.locked(func() error {
				rep := a.progress()
				done := rep.Step("removing what earlier sources have built")
				freed, err := a.Prune(cmd.Context(), rep)
				done("", err)
				if err != nil {
					return fmt.Errorf("removing old images: %w", err)
				}
				if asJSON {
					return writeJSON(a.Stdout, map[string]int64{"freedBytes": freed})
				}
				_, err = fmt.Fprintf(a.Stdout, "%d MiB freed\n", freed>>20)
				return err
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *App) upCmd() *cobra.Command {
	var bare bool
	var o UpOptions
	cmd := &cobra.Command{
		Use: "up", Short: "Build the sealed cluster, the range and the sandboxes", Args: cobra.NoArgs,
		Long: `Bring up, in this order: the images, the seal (proved before anything else runs
in it), the container engine, the gate, the range, the cluster, the sandboxes. What
stands already is left as it is; what an earlier call left half done is taken over.

Which systems are deployed is said by profile, as for "stockade run"; those that an
earlier call has deployed stay.`,
		Example: "  stockade up\n  stockade up --profile playground,kode-gopher-shared\n  stockade up --profile all",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := overlays.Parts(o.Profiles...); err != nil {
				return usage("%w", err)
			}
			return a.up(cmd.Context(), o, bare)
		},
	}
	cmd.Flags().StringSliceVar(&o.Profiles, "profile", []string{overlays.DefaultProfile},
		"deploy what these `profiles` are tried on: "+list(append(overlays.Profiles(), overlays.AllProfiles)))
	fixed(cmd, "profile", append(overlays.Profiles(), overlays.AllProfiles))
	cmd.Flags().BoolVar(&bare, "bare", false, "leave the sandboxes to somebody else, as the Pulumi program does")
	return cmd
}

func (a *App) up(ctx context.Context, o UpOptions, bare bool) error {
	inside, err := a.Seal.Inside()
	if err != nil {
		return fmt.Errorf("looking for the seal: %w", err)
	}
	layers := slices.DeleteFunc(a.allLayers(), func(l Layer) bool {
		return l.Sealed() != inside || bare && l.Name() == sandboxesName
	})
	err = a.locked(func() error {
		if !inside {
			if err := a.essentials(ctx); err != nil {
				return err
			}
		}
		return a.raise(ctx, layers, o)
	})
	if err != nil || inside {
		return err
	}
	return a.enter(ctx)
}

func (a *App) allLayers() []Layer { return append([]Layer{a.Images}, a.Layers...) }

func (a *App) raise(ctx context.Context, layers []Layer, o UpOptions) error {
	rep := a.progress()
	for _, l := range layers {
		done := rep.Step(l.Name())
		err := l.Up(ctx, o, rep)
		done("", err)
		if err != nil {
			return fmt.Errorf("bringing up the %s: %w", l.Name(), err)
		}
	}
	return nil
}

// enter runs this command again inside the seal.
func (a *App) enter(ctx context.Context) error {
	code, err := a.Seal.Enter(ctx)
	if err != nil {
		return fmt.Errorf("entering the seal: %w", err)
	}
	return withCode(code, nil)
}

// sealed calls f inside the seal: at once where this process is in it, else
// by running this command again there.
func (a *App) sealed(ctx context.Context, f func() error) error {
	inside, err := a.Seal.Inside()
	if err != nil {
		return fmt.Errorf("looking for the seal: %w", err)
	}
	if inside {
		return f()
	}
	standing, err := a.Seal.Standing(ctx)
	if err != nil {
		return fmt.Errorf("looking for the seal: %w", err)
	}
	if !standing {
		return incomplete("there is no sealed cluster here: `stockade up` makes one")
	}
	return a.enter(ctx)
}

func (a *App) placeCmd() *cobra.Command {
	return &cobra.Command{
		Use: "place", Short: "Print where the cluster is, as JSON for programs", Args: cobra.NoArgs,
		Long: `Print what a program needs in order to use the cluster from outside of the seal: its
identity, its nodes, the descriptor of its targets, what kode-gopher is given there (the
digests of its callers' tokens, the public keys of who signs ID tokens, and the range's
certificate authority), and a kubeconfig that leads through the gate on this machine's
loopback address. The kubeconfig is a secret. Exit code 3 means that there is no cluster.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.sealed(ctx, func() error {
				place, err := a.Place(ctx, a.progress())
				if errors.Is(err, fs.ErrNotExist) {
					return incomplete("there is no cluster here: `stockade up` makes one (%w)", err)
				}
				if err != nil {
					return err
				}
				return writeJSON(a.Stdout, place)
			})
		},
	}
}

func (a *App) statusCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "status", Short: "Say what of the place stands", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			inside, err := a.Seal.Inside()
			if err != nil {
				return fmt.Errorf("looking for the seal: %w", err)
			}
			if !inside {
				standing, err := a.Seal.Standing(ctx)
				if err != nil {
					return fmt.Errorf("looking for the seal: %w", err)
				}
				if standing {
					return a.enter(ctx)
				}
			}
			return a.status(ctx, inside, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *App) status(ctx context.Context, inside, asJSON bool) error {
	type row struct {
		Name string `json:"name"`
		State
	}
	var rows []row
	all := true
	// Who does not answer is waited for, half a minute each.
	done := a.progress().Step("looking at what stands")
	for _, l := range a.allLayers() {
		s := State{Detail: "down, for there is no seal"}
		if inside || !l.Sealed() {
			var err error
			if s, err = l.Status(ctx); err != nil {
				s = State{Left: true, Detail: "cannot tell: " + err.Error()}
			}
		}
		all = all && s.Up
		s.Detail = report.Clean(s.Detail)
		rows = append(rows, row{l.Name(), s})
	}
	done("", nil)
	if asJSON {
		if err := writeJSON(a.Stdout, rows); err != nil {
			return err
		}
	} else {
		t := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
		for _, r := range rows {
			_, _ = fmt.Fprintf(t, "%s\t%s\t%s\n", map[bool]string{true: "up", false: "down"}[r.Up], r.Name, r.Detail)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if !all {
		return withCode(verdict.ExitInconclusive, nil)
	}
	return nil
}

func (a *App) execCmd() *cobra.Command {
	return &cobra.Command{
		Use: "exec -- COMMAND [ARG…]", Short: "Run a command inside the seal, with KUBECONFIG set", Args: cobra.MinimumNArgs(1),
		Example: "  stockade exec -- kubectl get pods -A",
		Long:    "Run a command inside the seal: kubectl and the other programs that were built are on\nits PATH. The exit code is the command's own.",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return a.sealed(ctx, func() error {
				code, err := a.Exec(ctx, args)
				if err != nil {
					return fmt.Errorf("running %s inside the seal: %w", args[0], err)
				}
				return withCode(code, nil)
			})
		},
	}
}

func (a *App) downCmd() *cobra.Command {
	return &cobra.Command{
		Use: "down", Short: "Remove the cluster, the range, the engine and the seal", Args: cobra.NoArgs,
		Long: "Remove everything that `stockade up` made, in the opposite order, whatever state it\nis in. Images and reports are kept under STOCKADE_HOME, and can be deleted by hand;\n`stockade images prune` removes images that nothing here needs any more.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.locked(func() error {
				rep := a.progress()
				var failed []string
				for _, l := range slices.Backward(a.Layers) {
					done := rep.Step("removing the " + l.Name())
					err := l.Down(cmd.Context(), rep)
					done("", err)
					if err != nil {
						// The rest must go all the same.
						failed = append(failed, fmt.Sprintf("%s: %v", l.Name(), err))
					}
				}
				if failed != nil {
					return &exit{verdict.ExitResidue, fmt.Errorf("something was left behind; `stockade down` tries again:\n%s", strings.Join(failed, "\n"))}
				}
				return nil
			})
		},
	}
}
