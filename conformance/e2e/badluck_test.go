// SPDX-License-Identifier: Apache-2.0

//go:build cluster && linux

package e2e

import (
	"bytes"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

// lines is a buffer that a running command writes and a test reads.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// halfway starts a run and returns when it has claims in the cluster.
func halfway(t *testing.T) (*exec.Cmd, *lines) {
	t.Helper()
	cmd := command(t.Context(), "run", "egress", "resources")
	var errs lines
	cmd.Stderr = &errs
	require.NoError(t, cmd.Start())
	eventually(t, "the run never claimed a sandbox", func() bool { return len(claims(t)) > 0 })
	return cmd, &errs
}

func TestAnInterruptedRunCleansUpAfterItself(t *testing.T) {
	cmd, errs := halfway(t)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait() // the code is what counts
	assert.Equal(t, verdict.ExitInterrupted, cmd.ProcessState.ExitCode(), errs)
	eventually(t, "claims are left", func() bool { return len(claims(t)) == 0 })
}

func TestWhatAKilledRunLeavesIsRemovedByCleanup(t *testing.T) {
	cmd, _ := halfway(t)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.NotEmpty(t, claims(t), "the kill came too late to leave anything")

	r := call(t, nil, "cleanup", "--json")
	assert.Zero(t, r.code, r.stderr)
	doc := decode[struct{ Removed, Left []string }](t, r.stdout)
	assert.NotEmpty(t, doc.Removed)
	assert.Empty(t, doc.Left)
	eventually(t, "claims are left", func() bool { return len(claims(t)) == 0 })

	r = call(t, nil, "cleanup", "--json")
	assert.Zero(t, r.code, r.stderr)
	assert.Empty(t, decode[struct{ Removed []string }](t, r.stdout).Removed, "the second time there is nothing to do")
}

func TestAWrongWordRunsNothing(t *testing.T) {
	r := call(t, nil, "run", "egres")
	assert.Equal(t, verdict.ExitUsage, r.code)
	assert.Empty(t, r.stdout)
	assert.Contains(t, r.stderr, "stockade list")
}

func TestASecondRunAtOnceIsRefused(t *testing.T) {
	cmd, _ := halfway(t)
	r := call(t, nil, "run", "egress")
	assert.NotZero(t, r.code)
	assert.NotContains(t, r.stdout, "Held", "a run that did not happen has no verdict")
	assert.NotEmpty(t, strings.TrimSpace(r.stderr))
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait()
}
