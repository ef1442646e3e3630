// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
)

// What the program does to its own process, its limits above all, is not done
// here: it would be the test's. Package runner has the rest.
func TestTheProgramSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"-nonsense"}, "nonsense"},
		{[]string{"nonsense"}, "is no flag"},
	} {
		var stderr bytes.Buffer
		assert.Equal(t, 2, run(t.Context(), c.args, &stderr), "%v", c.args)
		assert.Contains(t, stderr.String(), c.says)
	}
}
