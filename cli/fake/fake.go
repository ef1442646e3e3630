// SPDX-License-Identifier: Apache-2.0

// Package fake is a stockade whose machine, seal and attacks are made up, for
// the tests of the command line. Nothing here touches a machine or a cluster,
// and nothing that it reports means anything. No shipped program links it.
//
// The environment tells it what to pretend: FAKE_DOCTOR=missing, FAKE_INSIDE=1,
// FAKE_SEAL=none, FAKE_PLACE=none, FAKE_UP=LAYER|pulumi and FAKE_DOWN=LAYER (that
// layer fails), FAKE_STACK=FILE (what a stack exports), FAKE_QUESTION=1 (there is a
// question for the API server alone),
// FAKE_RUN=held|breached|inconclusive|partial|error|unfit|residue|interrupt, and
// FAKE_PROVE=killed|survived|void|none|some (none tries no mutant, some only the
// first).
package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/cli"
	"github.com/stockade-dev/stockade/conformance/guest"
	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/infra/doctor"
	"github.com/stockade-dev/stockade/infra/home"
	"github.com/stockade-dev/stockade/infra/progress"
	"github.com/stockade-dev/stockade/overlays"
	rangehost "github.com/stockade-dev/stockade/workloads/range"
)

// T0 is when everything here happens.
var T0 = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// App returns the made-up stockade with streams and environment.
func App(getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) *cli.App {
	m := &machine{getenv: getenv, stderr: stderr}
	folder, err := home.Dir(getenv)
	if err != nil {
		folder = "/nonexistent"
	}
	registry := Registry()
	if getenv("FAKE_QUESTION") != "" {
		registry.MustAdd(question())
	}
	return &cli.App{
		Stdin: stdin, Stdout: stdout, Stderr: stderr, Getenv: getenv, Now: func() time.Time { return T0 },
		Home: folder, Registry: registry,
		Mutants: func() ([]overlays.Mutant, error) {
			return []overlays.Mutant{{ID: "open-dns", Title: "an egress rule for resolvers", Base: suite.DefaultProfile},
				{ID: "open-egress", Title: "an egress rule for everywhere", Base: suite.DefaultProfile},
				{ID: "writable-root", Title: "a writable root file system", Base: suite.DefaultProfile}}, nil
		},
		Images: &layer{m: m, name: "images"},
		Layers: []cli.Layer{
			&layer{m: m, name: "seal"}, &layer{m: m, name: "engine"},
			&layer{m: m, name: "cluster", sealed: true}, &layer{m: m, name: "range", sealed: true},
			&layer{m: m, name: "sandboxes", sealed: true},
		},
		Seal: m, Host: m, Runner: m,
		Exec: func(ctx context.Context, argv []string) (int, error) {
			return start(ctx, argv, "KUBECONFIG=/made/up")
		},
		Place: func(context.Context, *progress.Reporter) (*cli.Place, error) {
			if getenv("FAKE_PLACE") == "none" {
				return nil, fmt.Errorf("looking for the made-up cluster: %w", os.ErrNotExist)
			}
			return &cli.Place{Name: "made-up", UID: "u-1", Healthy: true, Nodes: []string{"n1", "n2"}, Kubeconfig: "made: up", Seal: "made-up"}, nil
		},
		Prune: func(context.Context, *progress.Reporter) (int64, error) {
			if getenv("FAKE_UP") == "images" {
				return 0, errors.New("no space left")
			}
			return 12 << 20, nil
		},
		ServeGate: func(context.Context) error { return nil },
		Pulumi:    engine{getenv},
		ServeRange: func(_ context.Context, conf rangehost.Config, ready func(rangehost.Ready)) error {
			ready(rangehost.Ready{Ready: true, Socket: conf.Socket, Bridges: conf.Bridges})
			return nil
		},
	}
}

// Registry returns three made-up scenarios.
func Registry() *suite.Registry {
	nothing := func(context.Context, *probe.Env) []verdict.Step { return nil }
	scenario := func(id, title, claim string, mutants ...string) suite.Scenario {
		return suite.Scenario{
			ID: id, Title: title, About: "A made-up scenario of the command line's tests.", Claims: []string{claim},
			Kind: suite.Guarantee, Severity: suite.High, Attack: nothing, Accept: []verdict.Class{verdict.Dropped},
			Control: suite.ControlSpec{Why: "the control Pod can"}, Mutants: mutants,
		}
	}
	var r suite.Registry
	other := scenario("disk.fill-scratch", "Fill the scratch space", "AS-05", "writable-root")
	other.Target = "seed" // of another profile
	r.MustAdd(
		scenario("egress.connect-out", "Connect to a public address", "AS-06", "open-egress", "open-dns"),
		scenario("filesystem.write-root", "Write outside of the scratch space", "AS-07", "writable-root"),
		other,
	)
	return &r
}

// question asks the API server alone.
func question() suite.Scenario {
	ask := func(context.Context, *suite.APIEnv) []verdict.Step { return nil }
	return suite.Scenario{
		ID: "rules.ask", Title: "Ask for something forbidden", About: "A made-up question.", Claims: []string{"AS-10"},
		Kind: suite.Guarantee, Severity: suite.High, Ask: ask, AskControl: ask, Accept: []verdict.Class{verdict.AdmissionDenied}, Mutants: []string{"open-egress"},
	}
}

// engine is a Pulumi whose command line is any command.
type engine struct{ getenv func(string) string }

func (e engine) Build(context.Context, *progress.Reporter) error {
	if e.getenv("FAKE_UP") == "pulumi" {
		return errors.New("no space left on the made-up device; free 10 GB under STOCKADE_HOME")
	}
	return nil
}

func (e engine) Exec(ctx context.Context, args []string) (int, error) {
	return start(ctx, args, "PULUMI=made up")
}

func (e engine) Which(context.Context) (string, error) { return "/made/up/pulumi", nil }

// Output returns what the file FAKE_STACK holds, or a kubeconfig. The state is
// somewhere that cannot be reached from inside of the seal.
func (e engine) Output(_ context.Context, args []string) ([]byte, error) {
	if e.getenv("FAKE_INSIDE") != "" {
		return nil, fmt.Errorf("running pulumi %s: exit status 255: error: network is unreachable", strings.Join(args, " "))
	}
	if e.getenv("FAKE_STACK") == "" {
		return nil, fmt.Errorf("running pulumi %s: exit status 255: error: no made-up stack", strings.Join(args, " "))
	}
	if slices.Contains(args, "kubeconfig") {
		return []byte("a made-up kubeconfig"), nil
	}
	return os.ReadFile(e.getenv("FAKE_STACK"))
}

type machine struct {
	getenv func(string) string
	stderr io.Writer
}

func (m *machine) Doctor(context.Context) ([]doctor.Finding, error) {
	root := doctor.Finding{Name: "root", Level: doctor.OK, Detail: "uid 0"}
	if m.getenv("FAKE_DOCTOR") == "missing" {
		root = doctor.Finding{Name: "root", Level: doctor.Fail, Detail: "uid 1000", Remedy: "run it as root: sudo stockade up"}
	}
	return []doctor.Finding{
		root,
		{Name: "CAP_SYS_RESOURCE", Level: doctor.Warn, Detail: "not in the bounding set", Remedy: "nothing to do: containers are started without it"},
	}, nil
}

func (m *machine) Inside() (bool, error) { return m.getenv("FAKE_INSIDE") != "", nil }

func (m *machine) Standing(context.Context) (bool, error) {
	return m.getenv("FAKE_SEAL") != "none", nil
}

// Enter runs this program for real, with a variable that says that it is in.
func (m *machine) Enter(ctx context.Context) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	return start(ctx, append([]string{self}, os.Args[1:]...), "FAKE_INSIDE=1")
}

func start(ctx context.Context, argv []string, env string) (int, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return failed.ExitCode(), nil
	}
	return 0, err
}

type layer struct {
	m      *machine
	name   string
	sealed bool
}

func (l *layer) Name() string { return l.name }
func (l *layer) Sealed() bool { return l.sealed }

func (l *layer) Up(_ context.Context, o cli.UpOptions, rep *progress.Reporter) error {
	if l.name == "sandboxes" {
		rep.Note("deploying %s", strings.Join(o.Profiles, ", "))
	}
	if l.m.getenv("FAKE_UP") == l.name {
		return errors.New("no space left on the made-up device; free 10 GB under STOCKADE_HOME")
	}
	return nil
}

func (l *layer) Status(context.Context) (cli.State, error) {
	if l.m.getenv("FAKE_UP") == l.name {
		return cli.State{}, errors.New("no answer")
	}
	return cli.State{Up: true, Detail: "made up"}, nil
}

func (l *layer) Down(context.Context, *progress.Reporter) error {
	if l.m.getenv("FAKE_DOWN") == l.name {
		return errors.New("device or resource busy")
	}
	return nil
}

func (m *machine) Run(ctx context.Context, o cli.RunOptions) (*runner.Run, error) {
	o.Progress.Note("attacking %s", o.Target)
	if o.Descriptor != nil {
		o.Progress.Note("at the cluster %s", o.Descriptor.ClusterUID)
	}
	if o.Cloud != nil {
		o.Progress.Note("asking %d questions of the cluster %s with %s", len(o.Scenarios), o.Cloud.Cluster.Name, o.Kubeconfig)
	}
	kind := m.getenv("FAKE_RUN")
	if kind == "error" {
		return nil, errors.New("finding the target: the cluster UID is another's")
	}
	if kind == "unfit" {
		return nil, fmt.Errorf("%w: image %q is not on the nodes", guest.ErrUnfit, "made/up:1")
	}
	if kind == "interrupt" {
		p, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = p.Signal(os.Interrupt)
		}
		if err != nil {
			return nil, err
		}
		<-ctx.Done() // a signal takes its time
	}
	id := "00000000000000aa"
	if o.Profile.ID != suite.DefaultProfile {
		id = "00000000000000bb" // kept beside the other
	}
	run := &runner.Run{
		ID: id, Started: T0, Ended: T0.Add(12 * time.Second),
		Profile: o.Profile.ID, Target: o.Target,
		Substrate: map[string]string{"cluster": "made up"},
	}
	for i, s := range o.Scenarios {
		e := evidence(kind == "breached" && i == 0)
		if kind == "inconclusive" && i == 0 {
			e.Controls = nil
		}
		r := verdict.Decide(e)
		run.Outcomes = append(run.Outcomes, runner.Outcome{
			Scenario: s, Result: r, Rounds: []runner.Round{{Evidence: e, Result: r}}, Took: 1500 * time.Millisecond,
		})
	}
	switch kind {
	case "residue":
		run.Residue = []string{"Pod made-up/control"}
	case "partial":
		return run, errors.New("asking the API server: connection refused")
	}
	return run, nil
}

func evidence(breached bool) verdict.Evidence {
	step := verdict.Step{Name: "connect", Class: verdict.Dropped, OK: breached, Millis: 1500}
	at := func(nonce string, s verdict.Step) verdict.Attempt {
		return verdict.Attempt{Nonce: strings.Repeat(nonce, 32), Complete: true, Steps: []verdict.Step{s}, Start: T0, End: T0}
	}
	return verdict.Evidence{
		Attempts: []verdict.Attempt{at("a", step)}, Accept: []verdict.Class{verdict.Dropped},
		Controls: []verdict.Attempt{at("c", verdict.Step{Name: "connect", OK: true, Millis: 2})},
	}
}

func (m *machine) Prove(ctx context.Context, o cli.ProveOptions) ([]runner.Kill, *runner.Run, error) {
	all := Registry().All()
	run, err := m.Run(ctx, cli.RunOptions{Profile: o.Profile, Target: o.Profile.Target, Scenarios: all[1:], Progress: o.Progress})
	fate := runner.Fate(m.getenv("FAKE_PROVE"))
	switch string(fate) {
	case "none":
		all = nil
	case "some":
		all, fate = all[:1], runner.Killed
	}
	var kills []runner.Kill
	for _, s := range all {
		for _, mutant := range s.Mutants {
			if len(o.Mutants) > 0 && !slices.Contains(o.Mutants, mutant) {
				continue
			}
			k := runner.Kill{Mutant: mutant, Scenario: s.ID, Fate: fate, Took: 2 * time.Second}
			if fate == runner.Killed {
				k.Result = verdict.Breach("connected")
			}
			kills = append(kills, k)
		}
	}
	return kills, run, err
}

func (m *machine) Cleanup(context.Context, *progress.Reporter) (removed, left []string, err error) {
	if m.getenv("FAKE_RUN") == "residue" {
		left = []string{"Pod made-up/\x1b[31mcontrol"}
	}
	return []string{"ConfigMap made-up/thing"}, left, nil
}
