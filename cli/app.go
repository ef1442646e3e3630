// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stockade-dev/stockade/conformance/descriptor"
	"github.com/stockade-dev/stockade/conformance/guest"
	"github.com/stockade-dev/stockade/conformance/report"
	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/infra/doctor"
	"github.com/stockade-dev/stockade/infra/progress"
	"github.com/stockade-dev/stockade/overlays"
	rangehost "github.com/stockade-dev/stockade/workloads/range"
)

// App is the command with all that it needs from outside.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Getenv reads the environment; Now is the clock.
	Getenv func(string) string
	Now    func() time.Time
	// Color says whether stdout is a terminal that takes colours. NO_COLOR
	// overrules it.
	Color bool
	// Home is the one folder that all of stockade's files on this machine lie
	// in, usually from [home.Dir].
	Home string

	Registry *suite.Registry
	// Mutants reads those of the profiles, usually [overlays.LoadMutants].
	Mutants func() ([]overlays.Mutant, error)
	// Images is the place's first layer, which `down` keeps.
	Images Layer
	// Layers are the others, from the machine upwards.
	Layers []Layer
	Seal   Seal
	Host   Host
	Runner Runner
	// Exec runs a command of the user's on this process's streams, with
	// KUBECONFIG set and the programs that were built on its PATH, and returns
	// its exit code. It may replace this process instead.
	Exec func(ctx context.Context, argv []string) (int, error)
	// Place describes the cluster for programs; the error wraps fs.ErrNotExist
	// when there is none.
	Place func(context.Context, *progress.Reporter) (*Place, error)
	// Prune removes the images and programs of earlier sources, and returns how
	// many bytes that freed.
	Prune func(context.Context, *progress.Reporter) (freed int64, err error)
	// ServeGate lets programs outside of the seal reach the API server, until
	// ctx ends.
	ServeGate func(context.Context) error
	// Pulumi runs the program of this repository.
	Pulumi Pulumi
	// ServeRange runs the outside world in the foreground, until ctx ends.
	ServeRange func(ctx context.Context, conf rangehost.Config, ready func(rangehost.Ready)) error

	quiet, verbose bool
	started        bool
	rep            *progress.Reporter
}

// Layer is one part of the place. Up and Down may be repeated, and cope
// with whatever an earlier one that was killed left behind.
type Layer interface {
	// Name is what a person calls it: "node image", "cluster".
	Name() string
	// Sealed tells that Up and Status must run inside the seal.
	Sealed() bool
	Up(context.Context, UpOptions, *progress.Reporter) error
	Status(context.Context) (State, error)
	Down(context.Context, *progress.Reporter) error
}

// UpOptions say what to bring up.
type UpOptions struct {
	// Profiles are those whose systems are deployed, see [overlays.Parts].
	Profiles []string
}

// sandboxesName is the name of the layer that `up --bare` leaves out.
const sandboxesName = "sandboxes"

// Place is where a cluster is, for programs outside of the seal.
type Place struct {
	Name string `json:"name"`
	// UID is that of the namespace kube-system.
	UID string `json:"uid"`
	// Healthy says that nodes and system Pods are ready; Reason says what is not.
	Healthy bool   `json:"healthy"`
	Reason  string `json:"reason,omitempty"`
	// Nodes are the names of those that are ready.
	Nodes             []string `json:"nodes"`
	KubernetesVersion string   `json:"kubernetesVersion,omitempty"`
	// Kubeconfig is a secret: the administrator's, through the gate.
	Kubeconfig string `json:"kubeconfig"`
	Seal       string `json:"seal"`
	// Images are the references by digest of the images on the nodes that are
	// built out of a checkout, by their names with a tag.
	Images map[string]string `json:"images"`
	// Descriptor is what `stockade run` reads; nil before `up` wrote it.
	Descriptor *descriptor.Descriptor `json:"descriptor,omitempty"`
	// Tokens are those of the callers of the shared kode-gopher, as digests, in
	// the form that its server reads.
	Tokens string `json:"tokens,omitempty"`
	// SignerKeys are the public keys of who signs ID tokens for it, a JSON Web Key
	// Set.
	SignerKeys string `json:"signerKeys,omitempty"`
	// RangeCA is the certificate authority of the range, in PEM.
	RangeCA string `json:"rangeCA,omitempty"`
}

// State is how a layer is.
type State struct {
	Up bool `json:"up"`
	// Left says that it is not up and that something of it is there all the same, or
	// that this could not be told. `stockade down` removes it.
	Left   bool   `json:"left,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// Seal is the network namespace with no way out.
type Seal interface {
	// Inside tells whether this process is in it.
	Inside() (bool, error)
	// Standing tells whether there is one to enter.
	Standing(context.Context) (bool, error)
	// Enter runs this program again in it, with the same arguments and
	// streams, and returns its exit code. It may replace this process instead,
	// so nothing that has to be undone may be open.
	Enter(context.Context) (int, error)
}

// Host looks at the machine, and changes nothing.
type Host interface {
	Doctor(context.Context) ([]doctor.Finding, error)
}

// Runner attacks.
type Runner interface {
	// Run attacks one target. The run may be partial beside an error.
	Run(context.Context, RunOptions) (*runner.Run, error)
	// Prove runs the reference, then every mutant.
	Prove(context.Context, ProveOptions) ([]runner.Kill, *runner.Run, error)
	// Cleanup removes what earlier runs left, and returns what it removed and
	// what it could not.
	Cleanup(context.Context, *progress.Reporter) (removed, left []string, err error)
}

// RunOptions say what to attack, with what.
type RunOptions struct {
	// Profile is what the scenarios are of.
	Profile suite.Profile
	// Descriptor says where the targets are; nil means the place that `up` made here.
	Descriptor *descriptor.Descriptor
	// Cloud is an environment on Google Cloud of which questions are asked instead, and
	// Kubeconfig what leads to it.
	Cloud      *descriptor.Cloud
	Kubeconfig []byte
	// Target is one of [Targets], or the name of Template.
	Target string
	// Template is a user's own, deployed for this run alone; nil for the
	// targets that `up` deploys.
	Template  *guest.Template
	Scenarios []*suite.Scenario
	Progress  *progress.Reporter
}

// ProveOptions say which mutants to try; none means all of the profile.
type ProveOptions struct {
	Profile suite.Profile
	Mutants []string
	// Whole says that all of the profile must hold without them, and not only what
	// the mutants are about.
	Whole bool
	// Scaffolds says that what the mutants stand on is attacked before them.
	Scaffolds bool
	Progress  *progress.Reporter
}

// Targets are what a run can attack: that of each profile, and the seed's own
// template, which leaves its network to the default policy.
var Targets = targetNames()

const seedTarget = "seed"

func targetNames() []string {
	var out []string
	for _, p := range suite.Profiles {
		out = append(out, p.Target)
	}
	return append(out, seedTarget)
}

// profileOf is the profile that a target is asked about when nobody says which.
func profileOf(target string) (suite.Profile, bool) {
	if target == seedTarget {
		return suite.ProfileByID("agent-sandbox-default")
	}
	for _, p := range suite.Profiles {
		if p.Target == target {
			return p, true
		}
	}
	return suite.Profile{}, false
}

// exit is an error with an exit code. A nil cause prints nothing: all was said.
type exit struct {
	code  int
	cause error
}

func (e *exit) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.cause.Error()
}

func (e *exit) Unwrap() error { return e.cause }

func withCode(code int, cause error) error {
	if code == verdict.ExitConformant && cause == nil {
		return nil
	}
	return &exit{code, cause}
}

func usage(format string, args ...any) error {
	return &exit{verdict.ExitUsage, fmt.Errorf(format, args...)}
}

func incomplete(format string, args ...any) error {
	return &exit{verdict.ExitInconclusive, fmt.Errorf(format, args...)}
}

// Run executes the command line and returns the exit code.
func (a *App) Run(ctx context.Context, args []string) int {
	a.started, a.rep = false, nil
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return verdict.ExitConformant
	}
	code := verdict.ExitInternal
	var e *exit
	switch {
	case errors.As(err, &e):
		code = e.code
		err = e.cause
		if err != nil && ctx.Err() != nil && code != verdict.ExitUsage {
			// What was in the middle says what it missed, not why.
			code = verdict.ExitInterrupted
		}
	case ctx.Err() != nil:
		code = verdict.ExitInterrupted
	case !a.started:
		// Nothing of ours ran yet: cobra did not understand the words.
		code = verdict.ExitUsage
	}
	if err != nil {
		a.complain(err)
	}
	if code == verdict.ExitUsage {
		_, _ = fmt.Fprintf(a.Stderr, "`%s --help` says more.\n", cmd.CommandPath())
	}
	return code
}

// complain prints an error. It may quote what a sandbox sent.
func (a *App) complain(err error) {
	for i, line := range strings.Split(err.Error(), "\n") {
		prefix := "stockade: "
		if i > 0 {
			prefix = "  "
		}
		_, _ = fmt.Fprintln(a.Stderr, prefix+report.Clean(line))
	}
	if outOfSpace(err) {
		_, _ = fmt.Fprintln(a.Stderr, "The disk is full: make room (`stockade images prune` removes old images), or set STOCKADE_HOME to a larger disk, and run this again.")
	}
}

// outOfSpace tells whether an error is for lack of space on the disk. Any write may fail
// of it, also in a program that was called, of which only the text is known.
func outOfSpace(err error) bool {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return true
	}
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "no space left on device") || strings.Contains(text, "disk quota exceeded")
}

// progress returns the reporter for stderr; a silent one for --quiet. It is one for the
// whole command, whose time it tells.
func (a *App) progress() *progress.Reporter {
	if a.quiet {
		return nil
	}
	if a.rep == nil {
		a.rep = progress.New(a.Stderr, report.Clean)
	}
	return a.rep
}

func (a *App) style() report.Style {
	return report.Style{Color: a.Color && a.Getenv("NO_COLOR") == "", Verbose: a.verbose}
}

func (a *App) runDir() string { return filepath.Join(a.Home, "run") }
