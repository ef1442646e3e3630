// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheProgramSaysWhatIsWrong(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-nonsense"}, 2, "nonsense"},
		{[]string{"nonsense"}, 2, "is no flag"},
		{nil, 1, "finding the cluster"},
		{[]string{"-kubeconfig", filepath.Join(t.TempDir(), "none")}, 1, "finding the cluster"},
	} {
		var stderr bytes.Buffer
		assert.Equal(t, c.code, run(t.Context(), c.args, &stderr), "%v", c.args)
		assert.Contains(t, stderr.String(), c.says)
	}
}
