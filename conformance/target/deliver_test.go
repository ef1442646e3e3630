// SPDX-License-Identifier: Apache-2.0

package target_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/conformance/target/faketarget"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

const nonce = "0123456789abcdef0123456789abcdef"

func batch(pod string) target.Batch {
	return target.Batch{Pod: target.Pod{Name: pod}, Plan: probe.Plan{Orders: []probe.Order{{Scenario: "a.b", Part: probe.Attack, Nonce: nonce, Timeout: time.Second}}}}
}

func find(string, probe.Part) (probe.Action, bool) {
	return func(context.Context, *probe.Env) []verdict.Step {
		return []verdict.Step{{Name: "try", Class: verdict.Dropped, Detail: "\xff\xfe raw bytes"}}
	}, true
}

func TestABatchBringsBackWhatTheProbeSaw(t *testing.T) {
	c := &faketarget.Carrier{}
	c.Set("box", faketarget.Honest(find))
	d := &target.Delivery{Carrier: c, Probe: []byte("\x7fELF")}
	attempts, end := d.Run(t.Context(), batch("box"))
	require.NoError(t, end.Err)
	require.Len(t, attempts, 1)
	assert.True(t, attempts[0].Complete, attempts[0].Error)
	assert.Equal(t, verdict.Dropped, attempts[0].Steps[0].Class)
}

func TestALieNeverCompletesAnAttemptWithEvidence(t *testing.T) {
	for name, lie := range faketarget.Lies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &faketarget.Carrier{}
			c.Set("box", lie)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			attempts, end := (&target.Delivery{Carrier: c, Probe: []byte("x")}).Run(ctx, batch("box"))
			require.Len(t, attempts, 1)
			a := attempts[0]
			if a.Complete && len(a.Steps) > 0 {
				assert.False(t, a.Steps[0].Class.IsEvidence())
				return
			}
			if !a.Complete {
				assert.NotEmpty(t, a.Error)
			}
			_ = end
		})
	}
}

func TestWithoutAPodTheErrorIsTheTransports(t *testing.T) {
	attempts, end := (&target.Delivery{Carrier: &faketarget.Carrier{}, Probe: []byte("x")}).Run(t.Context(), batch("nobody"))
	var lost *target.TransportError
	require.ErrorAs(t, end.Err, &lost)
	assert.Contains(t, attempts[0].Error, "no such Pod")
}

func TestWithoutAProbeNothingIsSent(t *testing.T) {
	c := &faketarget.Carrier{}
	attempts, end := (&target.Delivery{Carrier: c}).Run(t.Context(), batch("box"))
	require.ErrorContains(t, end.Err, "go build ./cmd/probe")
	assert.Len(t, attempts, 1)
	assert.Empty(t, c.Calls)
}

func TestAPodWithoutAPlaceForTheProbeSaysSo(t *testing.T) {
	c := &faketarget.Carrier{}
	c.Set("box", func(context.Context, target.Pod, string, []string, io.Reader, io.Writer) (int, error) { return 96, nil })
	_, end := (&target.Delivery{Carrier: c, Probe: []byte("x")}).Run(t.Context(), batch("box"))
	assert.ErrorIs(t, end.Err, target.ErrDelivery)
}

func TestAListenerIsReadyWhenItSaysSoAndEndsWhenAsked(t *testing.T) {
	c := &faketarget.Carrier{}
	c.Set("box", faketarget.Honest(find))
	d := &target.Delivery{Carrier: c, Probe: []byte("x")}
	l, err := d.Listen(t.Context(), t.Context(), target.Pod{Name: "box"}, false, 80, nonce)
	require.NoError(t, err)
	assert.False(t, l.Ended())
	assert.NoError(t, l.End(time.Second).Err)
	assert.True(t, l.Ended())

	c.Set("box", faketarget.Lies()["uses a nonce of its own"])
	wait, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = d.Listen(t.Context(), wait, target.Pod{Name: "box"}, false, 80, nonce)
	assert.Error(t, err)
}

// local carries execs into this machine's own shell, so that the delivery
// script itself is tested. The "probe" is a shell script.
type local struct {
	dir string
	env []string
}

func (l local) Exec(ctx context.Context, pod target.Pod, argv []string, s target.Streams) (int, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = l.dir, l.env
	cmd.Stdout, cmd.Stderr = s.Stdout, s.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	go func() {
		_, _ = io.Copy(in, s.Stdin)
		_ = in.Close()
	}()
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 0, &target.TransportError{Pod: pod, Err: err}
	}
	return 0, nil
}

// program is a probe for the delivery tests: it unlinks itself, reads the plan
// and sends back the frames that stand in a file.
func program(frames string) []byte {
	return []byte("#!/bin/sh\nif [ \"$2\" = --unlink ]; then rm -f \"$3\"; fi\nhead -c 1 >/dev/null\ncat " + frames + "\nexit 0\n")
}

func TestTheScriptDeliversStartsAndLeavesNothing(t *testing.T) {
	frames := filepath.Join(t.TempDir(), "frames")
	var b bytes.Buffer
	faketarget.Denied(&b, probe.Order{Scenario: "a.b", Nonce: nonce}, verdict.Dropped)
	require.NoError(t, os.WriteFile(frames, b.Bytes(), 0o600))
	place := t.TempDir()
	// The first candidate is there and cannot be written; the next one can.
	d := &target.Delivery{Probe: program(frames), Carrier: local{dir: "/", env: []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + place}}}
	attempts, end := d.Run(t.Context(), batch("box"))
	require.NoError(t, end.Err)
	assert.True(t, attempts[0].Complete, attempts[0].Error)
	left, err := os.ReadDir(place)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestTheScriptIsNotLongerThanAnExecMayBe(t *testing.T) {
	// The command travels in the request's URL.
	var seen []string
	c := recorder(func(argv []string) { seen = argv })
	(&target.Delivery{Carrier: c, Probe: []byte("x")}).Run(t.Context(), batch("box"))
	assert.Less(t, len(strings.Join(seen, " ")), 4096)
}

type recorder func([]string)

func (r recorder) Exec(_ context.Context, _ target.Pod, argv []string, _ target.Streams) (int, error) {
	r(argv)
	return 0, nil
}
