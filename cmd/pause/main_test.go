// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestPauseEndsWhenAsked(t *testing.T) {
	for _, end := range []os.Signal{unix.SIGTERM, unix.SIGINT} {
		signals := make(chan os.Signal, 3)
		signals <- unix.SIGCHLD
		signals <- end
		hold(signals)
		assert.Empty(t, signals)
	}
}

func TestPauseReapsAllItsDeadAtOneSignal(t *testing.T) {
	for range 3 {
		_, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		reap()
		_, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		return err == unix.ECHILD
	}, 10*time.Second, 5*time.Millisecond, "children are left")
}
