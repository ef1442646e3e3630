// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestUsageErrorsExitWithTwo(t *testing.T) {
	for _, args := range [][]string{{"--nosuch"}, {"stray"}, {"--extra", "name"}} {
		var out, errs bytes.Buffer
		assert.Equal(t, 2, run(t.Context(), args, &out, &errs), args)
		assert.Empty(t, out.String(), "stdout is for the ready line")
		assert.NotEmpty(t, errs.String())
	}
}

func TestMissingSettingsSayWhatToAdd(t *testing.T) {
	var out, errs bytes.Buffer
	assert.Equal(t, 1, run(t.Context(), nil, &out, &errs))
	assert.Contains(t, errs.String(), "add --bridge")
}
