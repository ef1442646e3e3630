// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// privateTemp gives this process a temporary folder of its own, and returns what
// removes it. The provider writes its kubeconfig to a temporary file each time that
// it is configured, for Helm, which no stack of ours uses, and leaves it there: on
// dev that is an administrator's key.
//
// The engine ends its plugins with SIGINT, of which this process would die at once.
// It still does, after it has cleaned up.
func privateTemp() (clean func(), err error) {
	dir, err := os.MkdirTemp("", "pulumi-kubernetes-") // mode 0700
	if err != nil {
		return nil, fmt.Errorf("making a temporary folder: %w", err)
	}
	clean = func() { _ = os.RemoveAll(dir) }
	if err := os.Setenv("TMPDIR", dir); err != nil {
		clean()
		return nil, fmt.Errorf("setting TMPDIR: %w", err)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ended
		clean()
		os.Exit(1)
	}()
	return clean, nil
}
