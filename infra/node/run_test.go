// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFailureCarriesTheEndOfWhatTheCommandSaid(t *testing.T) {
	_, err := command{Args: []string{"sh", "-c", "echo ignored; echo first >&2; echo last >&2; exit 3"}}.run(t.Context())
	assert.EqualError(t, err, "sh: exit status 3:\nfirst\nlast")

	_, err = command{Args: []string{"sh", "-c", "echo only here; exit 1"}}.run(t.Context())
	assert.ErrorContains(t, err, "only here")
}

func TestCancellingEndsTheChildrenOfACommandToo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := command{Args: []string{"sh", "-c", "sleep 60 & wait"}}.run(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, time.Since(began), killGrace, "the sleeping grandchild held the pipe open")
}

func TestKnownFailuresComeWithARemedy(t *testing.T) {
	for output, remedy := range map[string]string{
		"dial tcp: lookup proxy.example: no such host":        "the first build needs the network (Go modules from P)",
		"Temporary failure resolving 'deb.example'":           "the first build needs the network",
		"write /x: no space left on device":                   "the disk is full; make room",
		"compile: signal: killed":                             "lack of memory",
		"E: Unable to locate package nonesuch, undefined: x.": "",
	} {
		cause := &commandError{program: "go", output: output, err: errors.New("exit status 1")}
		err := explain(cause, "Go modules from P")
		require.ErrorIs(t, err, cause)
		assert.ErrorContains(t, err, output, "the original text stays")
		if remedy == "" {
			assert.Equal(t, error(cause), err)
			continue
		}
		assert.ErrorContains(t, err, remedy)
	}
	assert.NoError(t, explain(nil, ""))
}

func TestMissingHostProgramSaysWhatToInstall(t *testing.T) {
	require.NoError(t, need("sh", "dash"))
	assert.EqualError(t, need("no-such-program", "some-package"),
		"looking for no-such-program: not installed; install it with: apt-get install some-package")
}

func TestTailKeepsTheLastLinesThatSaySomething(t *testing.T) {
	assert.Equal(t, "b\nc", tail("a\n\nb\r\nc\n\n", 2))
	assert.Empty(t, tail("\n \n", 5))
}
