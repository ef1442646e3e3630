// SPDX-License-Identifier: Apache-2.0

package target

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOutputIsCutAtItsBoundAndTheRestSwallowed(t *testing.T) {
	var out bytes.Buffer
	over := 0
	b := &bounded{w: &out, left: 5, over: func() { over++ }}
	for range 3 {
		n, err := b.Write([]byte("abc"))
		assert.NoError(t, err)
		assert.Equal(t, 3, n)
	}
	assert.Equal(t, "abcab", out.String())
	assert.Equal(t, 1, over)
}

func TestTheTailKeepsTheEnd(t *testing.T) {
	x := &tail{max: 4}
	for _, s := range []string{"ab", "cd", "ef"} {
		_, _ = x.Write([]byte(s))
	}
	assert.Equal(t, "cdef", x.String())
}
