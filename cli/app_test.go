// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWhatASandboxSaysIsCleanedInTheProgressToo(t *testing.T) {
	var out bytes.Buffer
	a := &App{Stderr: &out}
	a.progress().Step("mutant a")("net.attack survived (\x1b]0;owned\a\n  0.0s ✓ all is well)", nil)
	assert.NotContains(t, out.String(), "\x1b]")
	assert.NotContains(t, out.String(), "\a")
	assert.Contains(t, out.String(), "survived")
	assert.NotContains(t, out.String(), "✓ all is well", "and it cannot add a line of its own")
}

func TestAFullDiskIsSaidWithWhatToDo(t *testing.T) {
	said := func(err error) string {
		var out bytes.Buffer
		(&App{Stderr: &out}).complain(err)
		return out.String()
	}
	for _, err := range []error{
		fmt.Errorf("writing the ledger: %w", &os.PathError{Op: "write", Path: "/l", Err: syscall.ENOSPC}),
		errors.New("importing images: ctr images on node n: exit status 1: ctr: write /var/lib/x: no space left on device"),
		fmt.Errorf("keeping the report: %w", syscall.EDQUOT),
	} {
		assert.Contains(t, said(err), err.Error())
		assert.Contains(t, said(err), "stockade images prune", err)
	}
	assert.NotContains(t, said(errors.New("connection refused")), "prune")
}
