// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// maxSize of the probe, in bytes: it is uploaded in each exec, into a scratch
// folder that may hold no more than 64 MiB.
const maxSize = 10 << 20

func TestTheProbeIsSmallStaticAndFreeOfClusterCode(t *testing.T) {
	out := filepath.Join(t.TempDir(), "probe")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", out, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	text, err := build.CombinedOutput()
	require.NoError(t, err, string(text))
	info, err := os.Stat(out)
	require.NoError(t, err)
	assert.LessOrEqual(t, info.Size(), int64(maxSize))

	list := exec.Command("go", "list", "-deps", ".")
	list.Env = append(os.Environ(), "CGO_ENABLED=0")
	deps, err := list.Output()
	require.NoError(t, err)
	for dep := range strings.FieldsSeq(string(deps)) {
		assert.False(t, strings.Contains(dep, "pulumi") || strings.HasPrefix(dep, "k8s.io/") || strings.HasPrefix(dep, "sigs.k8s.io/"), dep)
	}
}

func TestWrongArgumentsAreToldAndNothingRuns(t *testing.T) {
	for _, args := range [][]string{nil, {"fly"}, {"listen"}, {"listen", "x", "n"}, {"listen", "70000", "n"}, {"cgroup", "/", "u", "soon"}, {"run", "extra"}} {
		var out bytes.Buffer
		assert.Error(t, run(t.Context(), args, strings.NewReader(""), &out), "%q", args)
		assert.Empty(t, out.String())
	}
}

func TestTheDeliveredFileIsRemovedFirst(t *testing.T) {
	file := filepath.Join(t.TempDir(), "delivered")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_ = run(t.Context(), []string{"run", "--unlink", file}, strings.NewReader("no plan"), &bytes.Buffer{})
	assert.NoFileExists(t, file)
	assert.Error(t, run(t.Context(), []string{"run", "--unlink", file}, strings.NewReader("{}"), &bytes.Buffer{}), "it cannot be removed twice")
}
