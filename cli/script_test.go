// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/assert"

	"github.com/stockade-dev/stockade/cli"
	"github.com/stockade-dev/stockade/cli/fake"
	"github.com/stockade-dev/stockade/conformance/runner"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The scripts run this test binary under the name of stockade, with the parts
// of package fake behind it.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"stockade": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
			defer stop()
			os.Exit(fake.App(os.Getenv, os.Stdin, os.Stdout, os.Stderr).Run(ctx, os.Args[1:]))
		},
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("STOCKADE_HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("FAKE_PROVE", "killed")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": code},
	})
}

// code runs stockade in the script and demands an exit code: `code 3 run`.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: code N [ARG…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec("stockade", args[1:]...); err != nil {
		exit, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("running stockade: %v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func TestColourNeedsATerminalAndNoVeto(t *testing.T) {
	for _, c := range []struct {
		color   bool
		noColor string
		want    bool
	}{{true, "", true}, {true, "1", false}, {false, "", false}} {
		var out, err bytes.Buffer
		env := map[string]string{"STOCKADE_HOME": t.TempDir(), "FAKE_INSIDE": "1", "NO_COLOR": c.noColor}
		app := fake.App(func(k string) string { return env[k] }, nil, &out, &err)
		app.Color = c.color
		assert.Zero(t, app.Run(t.Context(), []string{"run"}), err.String())
		assert.Equal(t, c.want, bytes.Contains(out.Bytes(), []byte("\x1b[")))
	}
}

func TestWhatAnInterruptLeftUndoneIsToldAsAnInterrupt(t *testing.T) {
	env := map[string]string{"STOCKADE_HOME": t.TempDir(), "FAKE_DOWN": "cluster"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, want := range []int{4, 130} {
		var out, err bytes.Buffer
		app := fake.App(func(k string) string { return env[k] }, nil, &out, &err)
		assert.Equal(t, want, app.Run(ctx, []string{"down"}))
		assert.Contains(t, err.String(), "`stockade down` tries again")
		cancel()
	}
}

func TestTheTimeToldIsThatOfTheWholeCommand(t *testing.T) {
	env := map[string]string{"STOCKADE_HOME": t.TempDir(), "FAKE_INSIDE": "1"}
	var out, err bytes.Buffer
	app := fake.App(func(k string) string { return env[k] }, nil, &out, &err)
	app.Runner = nested{app.Runner, func() { <-time.After(200 * time.Millisecond) }}
	assert.Zero(t, app.Run(t.Context(), []string{"run"}))
	assert.Contains(t, err.String(), "s · report kept")
	assert.NotRegexp(t, ` 0\.[01]s · report kept`, err.String())
}

func TestTwoAtOnceAreRefused(t *testing.T) {
	home := t.TempDir()
	env := map[string]string{"STOCKADE_HOME": home, "FAKE_INSIDE": "1"}
	var out, first, second bytes.Buffer
	getenv := func(k string) string { return env[k] }
	app := fake.App(getenv, nil, &out, &first)
	app.Runner = nested{app.Runner, func() {
		other := fake.App(getenv, nil, &out, &second)
		assert.Equal(t, 3, other.Run(t.Context(), []string{"run"}))
	}}
	assert.Zero(t, app.Run(t.Context(), []string{"run"}), first.String())
	assert.Contains(t, second.String(), "another stockade (pid "+strconv.Itoa(os.Getpid())+")")
	assert.Zero(t, fake.App(getenv, nil, &out, &second).Run(t.Context(), []string{"run"}), "the lock is given back")
}

// nested calls f in the middle of a run.
type nested struct {
	cli.Runner
	f func()
}

func (n nested) Run(ctx context.Context, o cli.RunOptions) (*runner.Run, error) {
	n.f()
	return n.Runner.Run(ctx, o)
}
