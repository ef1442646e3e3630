// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNothingReachesTheTerminalUncleaned(t *testing.T) {
	var out bytes.Buffer
	clean := func(s string) string { return strings.NewReplacer("\x1b", "ESC", "\n", "LF").Replace(s) }
	r := New(&out, clean)
	r.Note("said %s", "\x1b[2Jone")
	r.Step("\x1b[2Jtwo")("three\n  9.9s ✓ forged", nil)
	r.Step("four")("", errors.New("\x1b]0;five"))
	assert.NotContains(t, out.String(), "\x1b")
	assert.Equal(t, 5, strings.Count(out.String(), "\n"), "a line for each call: %s", out.String())
	for _, word := range []string{"one", "two", "three", "four", "five"} {
		assert.Contains(t, out.String(), word)
	}
}

func TestNobodyNeedsAReporter(t *testing.T) {
	var r *Reporter
	r.Note("nothing")
	r.Step("nothing")("", nil)
}
