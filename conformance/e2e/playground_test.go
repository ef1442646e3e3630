// SPDX-License-Identifier: Apache-2.0

//go:build cluster && linux

package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/overlays"
	"github.com/stockade-dev/stockade/workloads/execution"
)

// The deployed service, with its own token, asked through the API server as the
// suite's scenarios ask it.
func TestTheDeployedExecutionServiceRunsPrograms(t *testing.T) {
	namespace, name, _ := strings.Cut(overlays.ExecutionAccount, "/")
	for what, c := range map[string]struct {
		program execution.Program
		status  execution.Status
		stdout  string
	}{
		"an honest one":    {execution.Program{Source: "import sys\nprint(sum(map(int, sys.stdin)))", Stdin: "1\n2\n39\n"}, execution.OK, "42\n"},
		"a greedy one":     {execution.Program{Source: "x = bytes(384 << 20)"}, execution.MemoryLimit, ""},
		"a broken one":     {execution.Program{Source: "raise ValueError"}, execution.Failed, ""},
		"one that goes on": {execution.Program{Source: "while True: pass"}, execution.TimeLimit, ""},
		"one with no way out": {execution.Program{Source: "import socket\ntry:\n  socket.create_connection(('203.0.113.7', 80), 2)\nexcept OSError as e:\n  print('no')"},
			execution.OK, "no\n"},
	} {
		t.Run(what, func(t *testing.T) {
			c.program.Language = execution.Python
			body, err := json.Marshal(c.program)
			require.NoError(t, err)
			r := kubectl(t, strings.NewReader(string(body)), "create", "--raw",
				"/api/v1/namespaces/"+namespace+"/services/http:"+name+":8080/proxy/v1/runs", "-f", "-")
			require.Zero(t, r.code, r.stderr)
			got := decode[execution.Result](t, r.stdout)
			assert.Equal(t, c.status, got.Status, got.Stderr)
			assert.Equal(t, c.stdout, got.Stdout)
			assert.GreaterOrEqual(t, got.UID, int64(20000))
		})
	}
	// A Pod is deleted before the service answers, and gone a little later.
	require.Eventually(t, func() bool {
		r := kubectl(t, nil, "get", "pods", "-n", overlays.PlaygroundNamespace, "-o", "name")
		return assert.Zero(t, r.code, r.stderr) && !strings.Contains(r.stdout, "pod/run-")
	}, 20*time.Second, time.Second, "every run's Pod is removed")
}

// The others are run whole by CI itself, and by `stockade prove --cover` before the
// first mutant.
func TestTheDefaultPolicysProfileHolds(t *testing.T) {
	r := call(t, nil, "run", "--profile", "agent-sandbox-default", "--json")
	assert.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, `"verdict": "Held"`)
}
