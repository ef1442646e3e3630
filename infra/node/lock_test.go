// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/infra/progress"
)

// holdLock makes this test binary a process that takes the lock and waits.
const holdLock = "STOCKADE_TEST_HOLD_LOCK"

func TestMain(m *testing.M) {
	if path := os.Getenv(holdLock); path != "" {
		if _, err := acquire(context.Background(), path, nil); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("held")
		select {}
	}
	os.Exit(m.Run())
}

func TestSecondBuildWaitsForTheFirstAndSaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "home", "build.lock")
	first, err := acquire(t.Context(), path, nil)
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var said bytes.Buffer
	_, err = acquire(ctx, path, progress.New(&said, func(s string) string { return s }))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	pid := strconv.Itoa(os.Getpid())
	assert.ErrorContains(t, err, "process "+pid)
	assert.Contains(t, said.String(), "waiting for another build (process "+pid+")")

	require.NoError(t, first.release())
	second, err := acquire(t.Context(), path, nil)
	require.NoError(t, err)
	require.NoError(t, second.release())
}

func TestBuildThatWasKilledDoesNotBlockTheNext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "build.lock")
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), holdLock+"="+path)
	out, err := other.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "held\n", line)

	require.NoError(t, other.Process.Kill())
	_ = other.Wait()

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	l, err := acquire(ctx, path, nil)
	require.NoError(t, err)
	require.NoError(t, l.release())
}

func TestAFullDiskKeepsNobodyFromTheLock(t *testing.T) {
	l, err := acquire(t.Context(), "/dev/full", nil) // every write there fails for lack of space
	require.NoError(t, err, "`stockade images prune` makes room, and takes the lock for it")
	require.NoError(t, l.release())
}
