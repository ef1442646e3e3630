// SPDX-License-Identifier: Apache-2.0

//go:build cluster && linux

package e2e

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The seed's example, as its app would do it: claim a sandbox, find its Pod
// through the claim, hand the script over as an argument and the data on
// stdin, and get nothing but stdout back.
func TestTheCoffeeQuestionIsAnswered(t *testing.T) {
	script, err := os.ReadFile("testdata/coffee/analyze.py")
	require.NoError(t, err)
	csv, err := os.Open("testdata/coffee/transactions.csv")
	require.NoError(t, err)
	defer func() { assert.NoError(t, csv.Close()) }()
	want, err := os.ReadFile("testdata/coffee/want.txt")
	require.NoError(t, err)

	pod := claim(t, "coffee")
	r := kubectl(t, csv, "exec", "-i", "-n", "sandboxes", pod, "--", "python3", "-c", string(script))
	assert.Zero(t, r.code, r.stderr)
	assert.Equal(t, string(want), r.stdout)

	// The twin: with other data the answer is another one.
	r = kubectl(t, strings.NewReader("date,category,amount\n2026-10-01,coffee,1.00\n"),
		"exec", "-i", "-n", "sandboxes", pod, "--", "python3", "-c", string(script))
	assert.Equal(t, "coffee 1.00\ncoffee in October: 1.00\n", r.stdout)
}

// claim makes a SandboxClaim that ends with the test, and returns its Pod.
func claim(t *testing.T, name string) string {
	t.Helper()
	r := kubectl(t, strings.NewReader(`{"apiVersion":"extensions.agents.x-k8s.io/v1beta1","kind":"SandboxClaim",
		"metadata":{"name":"`+name+`","namespace":"sandboxes"},"spec":{"warmPoolRef":{"name":"budget-pool"}}}`), "apply", "-f", "-")
	require.Zero(t, r.code, r.stderr)
	t.Cleanup(func() {
		r := kubectl(t, nil, "delete", "sandboxclaim", "-n", "sandboxes", name, "--wait=false")
		assert.Zero(t, r.code, r.stderr)
	})
	r = kubectl(t, nil, "wait", "-n", "sandboxes", "sandboxclaim/"+name, "--for=condition=Ready", "--timeout=60s")
	require.Zero(t, r.code, r.stderr)
	r = kubectl(t, nil, "get", "sandboxclaim", "-n", "sandboxes", name, "-o", "jsonpath={.status.sandbox.name}")
	require.Zero(t, r.code, r.stderr)
	sandbox := strings.TrimSpace(r.stdout)
	require.NotEmpty(t, sandbox, "the claim names no sandbox")
	r = kubectl(t, nil, "get", "sandbox", "-n", "sandboxes", sandbox, "-o", `jsonpath={.metadata.annotations.agents\.x-k8s\.io/pod-name}`)
	require.Zero(t, r.code, r.stderr)
	if pod := strings.TrimSpace(r.stdout); pod != "" {
		return pod
	}
	return sandbox
}

// eventually polls until ok returns true, or fails the test.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, quick, time.Second, what)
}
