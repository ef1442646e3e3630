// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// Idle is the main process of a control Pod: it reaps what execs leave behind
// and waits for the end.
func Idle(ctx context.Context) {
	children := make(chan os.Signal, 8)
	signal.Notify(children, unix.SIGCHLD)
	defer signal.Stop(children)
	for {
		select {
		case <-ctx.Done():
			return
		case <-children:
			reap()
		}
	}
}

// reap collects every child that has ended; signals are merged, so that one
// may stand for many.
func reap() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if pid <= 0 || (err != nil && !errors.Is(err, unix.EINTR)) {
			return
		}
	}
}
