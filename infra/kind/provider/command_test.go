// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// script writes a program that plays the stockade command.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stockade")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755))
	return path
}

// heard collects lines, from another goroutine.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) line(s string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, s)
}

func (h *heard) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.lines...)
}

func TestTheCommandRunsInItsHomeAndItsProgressIsPassedOn(t *testing.T) {
	c := Command{Configured: script(t, `echo "… one" >&2; printf 'two' >&2; echo "$STOCKADE_HOME $*"`)}
	var h heard
	out, err := c.Run(t.Context(), "/h", h.line, "up", "--bare")
	require.NoError(t, err)
	assert.Equal(t, "/h up --bare\n", string(out))
	assert.Equal(t, []string{"… one", "two"}, h.all())

	t.Setenv("STOCKADE_HOME", "/of/the/environment")
	out, err = c.Run(t.Context(), "", nil)
	require.NoError(t, err)
	assert.Equal(t, " \n", string(out), "a cluster without a home is in the default one, whatever this shell says")
}

func TestAFailureCarriesItsCodeAndLastWords(t *testing.T) {
	c := Command{Configured: script(t, `i=0; while [ $i -lt 40 ]; do i=$((i+1)); echo "line $i" >&2; done; exit 3`)}
	_, err := c.Run(t.Context(), "", nil, "place")
	var failed *ExitError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, 3, failed.Code)
	assert.Len(t, strings.Split(failed.Said, "\n"), lastLines)
	assert.True(t, strings.HasSuffix(failed.Error(), "line 40"))
	assert.Equal(t, "exit code 7", (&ExitError{Code: 7}).Error())
}

func TestAnInterruptedCommandCleansUpFirst(t *testing.T) {
	// The child of the shell is a process of its own in the same group.
	c := Command{Configured: script(t, `trap 'echo cleaning >&2; sleep 0.2; echo clean >&2; exit 130' INT
echo ready >&2; while :; do sleep 0.05; done`)}
	var h heard
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for len(h.all()) == 0 {
			time.Sleep(10 * time.Millisecond) //nolint:forbidigo // the line comes from another process
		}
		cancel()
	}()
	_, err := c.Run(ctx, "", h.line, "up")
	var failed *ExitError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, 130, failed.Code)
	assert.Equal(t, []string{"ready", "cleaning", "clean"}, h.all())
}

func TestACommandThatDoesNotEndIsKilledWithItsChildren(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	c := Command{Grace: 200 * time.Millisecond, Configured: script(t, fmt.Sprintf(
		`trap '' INT; sleep 600 & echo $! > %s; wait; sleep 600`, pid))}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	_, err := c.Run(ctx, "", nil, "up")
	var failed *ExitError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, -1, failed.Code)
	assert.Less(t, time.Since(began), 30*time.Second)
	text, err := os.ReadFile(pid)
	require.NoError(t, err)
	child := strings.TrimSpace(string(text))
	assert.Eventually(t, func() bool {
		stat, err := os.ReadFile(filepath.Join("/proc", child, "stat"))
		return err != nil || strings.Contains(string(stat), ") Z ") // dead, whoever reaps it
	}, 5*time.Second, 20*time.Millisecond)
}

func TestADaemonThatKeepsThePipeIsNotWaitedFor(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	c := Command{Configured: script(t, fmt.Sprintf(`sleep 60 & echo $! > %s; echo '{}'`, pid))}
	t.Cleanup(func() {
		if text, err := os.ReadFile(pid); err == nil {
			var n int
			if _, err := fmt.Sscan(string(text), &n); err == nil {
				if p, err := os.FindProcess(n); err == nil {
					_ = p.Kill()
				}
			}
		}
	})
	began := time.Now()
	out, err := c.Run(t.Context(), "", nil, "up")
	require.NoError(t, err)
	assert.Equal(t, "{}\n", string(out))
	assert.Less(t, time.Since(began), 30*time.Second)
}

func TestEndlessOutputIsBoundedAndNoReasonToBreakThePipe(t *testing.T) {
	c := Command{Configured: script(t, `head -c 3000000 /dev/zero | tr '\0' x; echo done >&2`)}
	var h heard
	_, err := c.Run(t.Context(), "", h.line, "place")
	assert.ErrorContains(t, err, "more than 1048576 bytes")
	assert.Equal(t, []string{"done"}, h.all(), "it ended by itself")

	c = Command{Configured: script(t, `head -c 3000000 /dev/zero | tr '\0' x >&2`)}
	h = heard{}
	_, err = c.Run(t.Context(), "", h.line, "up")
	require.NoError(t, err)
	require.Len(t, h.all(), 1)
	assert.Len(t, h.all()[0], maxLine)
}

func TestWhatIsNotFitForATerminalIsLeftOut(t *testing.T) {
	var got []string
	l := &lines{emit: func(s string) { got = append(got, s) }}
	_, err := l.Write([]byte("a\x1b[31mred\x00\n\xff\xfe\n  \n\tb\rc"))
	require.NoError(t, err)
	l.flush()
	assert.Equal(t, []string{"a[31mred", "\tb", "c"}, got)
}

func TestAMissingCommandIsToldHowToMakeOrNameIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(PathEnv, "")
	_, err := Command{}.Run(t.Context(), "", nil, "place")
	require.ErrorContains(t, err, "make build")
	assert.ErrorContains(t, err, "stockade:cli")
	assert.ErrorContains(t, err, PathEnv)
	var failed *ExitError
	assert.NotErrorAs(t, err, &failed, "it did not run")

	_, err = Command{Configured: "/nonexistent/stockade"}.Run(t.Context(), "", nil, "place")
	assert.ErrorContains(t, err, "/nonexistent/stockade")
}

func TestTheCommandIsSoughtInOrder(t *testing.T) {
	configured, named, onPath := script(t, "echo configured"), script(t, "echo named"), script(t, "echo path")
	t.Setenv("PATH", filepath.Dir(onPath))
	t.Setenv(PathEnv, named)
	ask := func(c Command) string {
		path, err := c.path()
		require.NoError(t, err)
		return path
	}
	assert.Equal(t, configured, ask(Command{Configured: configured}))
	assert.Equal(t, named, ask(Command{}))
	t.Setenv(PathEnv, "")
	assert.Equal(t, onPath, ask(Command{}), "beside the test binary there is none")
}

func TestWhatIsCancelledAlreadyDoesNotRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Command{Configured: script(t, "exit 1")}.Run(ctx, "", nil, "up")
	assert.ErrorIs(t, err, context.Canceled)
	var failed *ExitError
	assert.NotErrorAs(t, err, &failed)
}
