// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheProgramSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-nonsense"}, 2, "nonsense"},
		{[]string{"nonsense"}, 2, "is no flag"},
		{[]string{"-source", "thin-air"}, 2, "neither iam nor random"},
		{nil, 1, "needs a source of tokens, a service account and scopes"},
	} {
		var stderr bytes.Buffer
		assert.Equal(t, c.code, run(t.Context(), c.args, &stderr), "%v", c.args)
		assert.Contains(t, stderr.String(), c.says)
	}
}

func TestTheProgramServesUntilItIsToldToStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stderr bytes.Buffer
	args := []string{"-listen", "127.0.0.1:0", "-control", "127.0.0.1:0", "-source", "random", "-account", "a@b.c"}
	assert.Equal(t, 0, run(ctx, args, &stderr), stderr.String())
}
