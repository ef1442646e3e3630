// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/stockade-dev/stockade/conformance/descriptor"
	"github.com/stockade-dev/stockade/infra/progress"
)

// Pulumi is the engine that runs the program of this repository.
type Pulumi interface {
	// Build builds the engine and the Kubernetes provider, unless they are there.
	Build(context.Context, *progress.Reporter) error
	// Exec runs the engine's command line on this process's streams, and returns
	// its exit code. It may replace this process instead.
	Exec(ctx context.Context, args []string) (int, error)
	// Which returns the full path of the engine's program.
	Which(context.Context) (string, error)
	// Output runs it and returns what it wrote to stdout. The error carries what
	// it wrote to stderr.
	Output(ctx context.Context, args []string) ([]byte, error)
}

func (a *App) pulumiCmd() *cobra.Command {
	return &cobra.Command{
		Use: "pulumi -- ARG…", Short: "Run Pulumi, with its engine, plugins and state of this home",
		Example: "  stockade pulumi -- preview -s dev\n  stockade pulumi -- up -s dev --yes",
		Long: `Run Pulumi's own command line. "make pulumi" builds its engine and plugins. What is
not set already is set: the state is kept in files below STOCKADE_HOME, its secrets
are encrypted with a passphrase that is made once beside it, and nothing is looked up
or downloaded. The exit code is Pulumi's own. --which prints the engine's path.

"up" and "preview" are judged by the rules of "stockade plan-check": what breaks one
stops before it begins. PULUMI_OPTION_POLICY_PACK= (set, and empty) leaves that out.

With an official installation of Pulumi, call that instead; it brings its own language
host, and still needs "make pulumi" for the program and the plugin of the local cluster.`,
		// Every word after the command's name is Pulumi's.
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && args[0] == "--" {
				args = args[1:]
			} else if len(args) == 0 || args[0] == "-h" || args[0] == "--help" {
				return cmd.Help()
			}
			if len(args) == 1 && args[0] == "--which" {
				path, err := a.Pulumi.Which(cmd.Context())
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(a.Stdout, path)
				return err
			}
			code, err := a.Pulumi.Exec(cmd.Context(), args)
			if err != nil {
				return err
			}
			return withCode(code, nil)
		},
	}
}

func (a *App) buildPulumi(ctx context.Context) error {
	rep := a.progress()
	done := rep.Step("Pulumi")
	err := a.Pulumi.Build(ctx, rep)
	done("", err)
	if err != nil {
		return fmt.Errorf("building Pulumi: %w", err)
	}
	return nil
}

// stackTargetEnv hands the descriptor of a stack to this command where it runs again
// inside the seal.
const stackTargetEnv = "STOCKADE_STACK_TARGET"

// stackDescriptor reads what a stack says of its targets: outside of the seal from the
// stack's state, which may be anywhere, and inside from what was read outside.
func (a *App) stackDescriptor(ctx context.Context, stack string) ([]byte, error) {
	inside, err := a.Seal.Inside()
	if err != nil {
		return nil, fmt.Errorf("looking for the seal: %w", err)
	}
	if doc := a.Getenv(stackTargetEnv); inside && doc != "" {
		return []byte(doc), nil
	}
	doc, err := a.stackOutput(ctx, stack, "target", "--json")
	if err != nil {
		return nil, err
	}
	if err := os.Setenv(stackTargetEnv, string(doc)); err != nil {
		return nil, fmt.Errorf("handing on the target of the stack %s: %w", stack, err)
	}
	return doc, nil
}

func (a *App) stackOutput(ctx context.Context, stack, name string, flags ...string) ([]byte, error) {
	out, err := a.Pulumi.Output(ctx, append([]string{"stack", "output", name, "--stack", stack}, flags...))
	if err != nil {
		return nil, fmt.Errorf("reading the %s of the stack %s (`stockade pulumi -- up -s %[2]s` makes it): %w", name, stack, err)
	}
	return out, nil
}

// stackTarget says where a run of a stack goes: to the place that it describes, or where
// that is on Google Cloud and questions are all that is asked, there.
func (a *App) stackTarget(ctx context.Context, stack string, questions bool) (o RunOptions, err error) {
	doc, err := a.stackDescriptor(ctx, stack)
	if err != nil {
		return o, err
	}
	if questions && descriptor.IsCloud(doc) {
		if o.Cloud, err = descriptor.DecodeCloud(doc); err == nil {
			o.Kubeconfig, err = a.stackOutput(ctx, stack, "kubeconfig")
		}
	} else {
		o.Descriptor, err = descriptor.Decode(doc)
	}
	if errors.Is(err, descriptor.ErrCloud) {
		return o, incomplete("attacking the stack %s: %w", stack, err)
	}
	if err != nil {
		return o, fmt.Errorf("reading the target of the stack %s: %w", stack, err)
	}
	return o, nil
}
