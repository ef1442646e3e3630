// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheArgumentsAreChecked(t *testing.T) {
	assert.ErrorContains(t, run(nil), "usage")
	assert.ErrorContains(t, run([]string{"core=0", "true", "x"}), "usage", "without -- a program's flags would be ours")
	assert.ErrorContains(t, run([]string{"nothing=0", "--", "true"}), "nothing=0")
	assert.ErrorContains(t, run([]string{"core=0", "--", "/nowhere/true"}), "starting a run")
}
