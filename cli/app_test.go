// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
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
