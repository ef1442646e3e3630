// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/infra/procstat"
)

// stubborn makes this test binary a range that has the pid file of this path, and
// does not end by itself.
const stubborn = "STOCKADE_TEST_STUBBORN_RANGE"

func TestHelperStubbornRange(t *testing.T) {
	path := os.Getenv(stubborn)
	if path == "" {
		return // there is nothing to test: it is the other tests' process
	}
	signal.Ignore(syscall.SIGTERM)
	lock, err := lockPID(path)
	require.NoError(t, err)
	fmt.Println("\nheld")
	<-time.After(time.Minute)
	require.NoError(t, lock.Close())
}

// startStubborn starts one and returns its pid file, and a channel that is closed
// when it has ended.
func startStubborn(t *testing.T) (pidFile string, ended chan struct{}) {
	t.Helper()
	pidFile = filepath.Join(t.TempDir(), "range.pid")
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperStubbornRange$")
	cmd.Env = append(os.Environ(), stubborn+"="+pidFile)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "held"; {
	}
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be dead
		<-ended
	})
	return pidFile, ended
}

func TestARangeThatDoesNotEndIsKilled(t *testing.T) {
	pidFile, ended := startStubborn(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, terminate(ctx, pidFile, 100*time.Millisecond))
	select {
	case <-ended:
	case <-ctx.Done():
		t.Error("it still runs")
	}
	require.NoError(t, Terminate(ctx, pidFile), "a stale pid file stops nobody")
}

func TestAnInterruptEndsNoRange(t *testing.T) {
	pidFile, ended := startStubborn(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("ctrl-c"))
	require.ErrorContains(t, terminate(ctx, pidFile, 0), "ctrl-c")
	select {
	case <-ended:
		t.Error("a range that is well was ended")
	case <-time.After(200 * time.Millisecond):
	}
}

func TestTheNumberOfARangeThatIsGoneBelongsToSomebodyElse(t *testing.T) {
	stat, err := procstat.Read(os.Getpid())
	require.NoError(t, err)
	// It would end this test.
	assert.NoError(t, signalTo(pidNote{PID: os.Getpid(), Start: stat.Start + 1}, syscall.SIGKILL))
}

func TestANamespaceWhoseNameIsGoneIsNoSeal(t *testing.T) {
	require.NoError(t, in("/proc/thread-self/ns/net"))
	require.ErrorIs(t, in("/proc/thread-self/ns/uts"), ErrUnsealed)
	err := in(filepath.Join(t.TempDir(), "stockade"))
	require.ErrorIs(t, err, ErrUnsealed, "a range that `down` did not find ends with the seal")
	assert.ErrorContains(t, err, "is gone")
}
