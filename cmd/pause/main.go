// SPDX-License-Identifier: Apache-2.0

// Program pause is the first process of every Pod: it holds the Pod's
// namespaces open, and reaps what other containers leave behind when they
// share its process namespace.
package main

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGCHLD)
	hold(signals)
}

// hold returns when a signal asks for the end.
func hold(signals <-chan os.Signal) {
	// Children that died before the handler was there send no signal again.
	reap()
	for s := range signals {
		if s != unix.SIGCHLD {
			return
		}
		reap()
	}
}

// reap collects every dead child. One signal may stand for several deaths.
func reap() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}
