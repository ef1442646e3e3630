// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	rangehost "github.com/stockade-dev/stockade/workloads/range"
)

// The groups of the help text.
const (
	groupPlace  = "place"
	groupAttack = "attack"
	groupRead   = "read"
)

// Command returns the command tree, for the generated documentation.
func (a *App) Command() *cobra.Command { return a.root() }

func (a *App) root() *cobra.Command {
	cobra.EnableCommandSorting = false // the order in which one uses them
	root := &cobra.Command{
		Use:   "stockade",
		Short: "Build a place for untrusted code, and try to break out of it",
		Long: `Stockade builds a sealed cluster with gVisor sandboxes on this machine, attacks
them from inside, and shows evidence for every verdict: what the attacker saw,
what outside witnesses saw, and that the check itself can fail.

Exit codes: 0 every claim held, 1 breached, 2 wrong usage, 3 inconclusive or
incomplete, 4 something was left behind, 5 internal error, 130 interrupted.

All files lie under STOCKADE_HOME (default: stockade in the user's cache folder).`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          subcommand,
		RunE:          help,
		// Cobra has understood every word when this runs.
		PersistentPreRun: func(*cobra.Command, []string) { a.started = true },
	}
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "no progress on stderr")
	root.PersistentFlags().BoolVarP(&a.verbose, "verbose", "v", false, "show the evidence in reports too")
	root.AddGroup(
		&cobra.Group{ID: groupPlace, Title: "The place:"},
		&cobra.Group{ID: groupAttack, Title: "The attack:"},
		&cobra.Group{ID: groupRead, Title: "Reading:"},
	)
	add := func(group string, all ...*cobra.Command) {
		for _, c := range all {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupPlace, a.doctorCmd(), a.imagesCmd(), a.upCmd(), a.statusCmd(), a.placeCmd(), a.execCmd(), a.pulumiCmd(), a.downCmd())
	add(groupAttack, a.runCmd(), a.proveCmd(), a.planCheckCmd(), a.cleanupCmd())
	add(groupRead, a.listCmd(), a.showCmd(), a.reportCmd(), a.compareCmd())
	root.AddCommand(a.versionCmd(), a.rangeCmd(), a.gateCmd())
	return root
}

// Version is set by the build; without it the module's own version is told.
var Version string

func (a *App) versionCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version  string `json:"version"`
				Revision string `json:"revision,omitempty"`
				Go       string `json:"go"`
			}{Version, "", runtime.Version()}
			if info, ok := debug.ReadBuildInfo(); ok {
				if v.Version == "" {
					v.Version = info.Main.Version
				}
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v.Revision = s.Value
					}
				}
			}
			if v.Version == "" {
				v.Version = "(devel)"
			}
			if asJSON {
				return writeJSON(a.Stdout, v)
			}
			_, err := fmt.Fprintf(a.Stdout, "stockade %s %s %s\n", v.Version, v.Revision, v.Go)
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// rangeCmd is how `up` starts the range: the same binary, so that there is
// nothing else to find on the machine.
func (a *App) rangeCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "range", Short: "The outside world", Hidden: true, Args: subcommand, RunE: help}
	conf := rangehost.Config{}
	serve := &cobra.Command{
		Use: "serve", Short: "Play the outside world until interrupted", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.ServeRange(cmd.Context(), conf, func(r rangehost.Ready) {
				// Whoever started it reads this line; nobody else has to.
				_ = json.NewEncoder(a.Stdout).Encode(r)
			})
		},
	}
	f := serve.Flags()
	f.StringSliceVar(&conf.Bridges, "bridge", nil, "`interface` of the node network")
	f.StringVar(&conf.NetNS, "netns-guard", "", "refuse to run outside of the network namespace at this `path`")
	f.StringVar(&conf.Socket, "socket", "", "`path` of the log's unix socket")
	f.StringVar(&conf.Log, "log", "", "`path` of the log")
	f.StringVar(&conf.PIDFile, "pidfile", "", "`path` of the pid file")
	f.StringVar(&conf.GoProxyHost, "goproxy-host", "", "`name` of the Go module proxy to play")
	cmd.AddCommand(serve)
	return cmd
}

// gateCmd is how `up` starts the gate: the same binary again.
func (a *App) gateCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "gate", Short: "The way into the seal", Hidden: true, Args: subcommand, RunE: help}
	cmd.AddCommand(&cobra.Command{
		Use: "serve", Short: "Lead programs outside to the API server until interrupted", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.ServeGate(cmd.Context()) },
	})
	return cmd
}

// subcommand refuses words that are no command, which cobra would answer with
// the help text and success.
func subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2 // letters
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(near, " or "))
	}
	return err
}

func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

func jsonFlag(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "json", false, "write JSON to stdout")
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
