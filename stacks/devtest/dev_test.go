// SPDX-License-Identifier: Apache-2.0

//go:build pulumi && cluster

package devtest

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/descriptor"
)

// A preview without changes is to take five seconds on two cores; it takes three and a
// half. How long it takes on a host that gives a part of them is the host's doing, even
// in the processors' time that is counted for it (10 s have been seen), and so it is
// measured by what goes the same way: its work is that of 12 times reading the state,
// with the same engine. Whoever builds something in it exceeds previewWork, and whoever
// waits for something previewBound, each time that it is tried.
const (
	previewWork  = 30
	previewTries = 3
	previewBound = time.Minute
)

// command runs stockade at the root of the checkout. It returns stdout and the
// exit code.
func command(t *testing.T, args ...string) (string, int) {
	t.Helper()
	out, code, _ := measured(t, args...)
	return out, code
}

// measured also returns the work that it was: the processors' time of the command and
// of all that it has waited for.
func measured(t *testing.T, args ...string) (stdout string, code int, work time.Duration) {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "stockade"), args...)
	cmd.Dir = root
	var out, diag bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &diag
	begun := time.Now()
	err = cmd.Run()
	if s := cmd.ProcessState; s != nil {
		work = s.UserTime() + s.SystemTime()
	}
	t.Logf("%s: %s, %s of work\n%s%s", strings.Join(args, " "), time.Since(begun).Round(100*time.Millisecond), work.Round(100*time.Millisecond), diag.String(), out.String())
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Run returns nothing else of its own
		return out.String(), exit.ExitCode(), work
	}
	require.NoError(t, err, "`make pulumi` builds it")
	return out.String(), 0, work
}

// callersInBase64 is how a Secret's data begins that holds the callers' digests.
const callersInBase64 = "dXNlcjEgc2hhMjU2"

func pulumiDev(t *testing.T, args ...string) string {
	t.Helper()
	out, code := command(t, append([]string{"pulumi", "--"}, append(args, "-s", "dev")...)...)
	require.Zero(t, code, "pulumi %s", strings.Join(args, " "))
	return out
}

// exported is the stack's state.
func exported(t *testing.T) (kinds map[string]int, uid string) {
	t.Helper()
	var doc struct {
		Deployment struct {
			Resources []struct {
				Type    string         `json:"type"`
				Outputs map[string]any `json:"outputs"`
			} `json:"resources"`
		} `json:"deployment"`
	}
	require.NoError(t, json.Unmarshal([]byte(pulumiDev(t, "stack", "export")), &doc))
	kinds = map[string]int{}
	for _, r := range doc.Deployment.Resources {
		kinds[r.Type]++
		if r.Type == "stockade:kind:Cluster" {
			uid, _ = r.Outputs["uid"].(string)
		}
	}
	return kinds, uid
}

// changes reads how many resources an operation changed, from the summary of its
// JSON events or preview.
func changes(t *testing.T, preview string) map[string]int {
	t.Helper()
	var doc struct {
		Summary map[string]int `json:"changeSummary"`
	}
	require.NoError(t, json.Unmarshal([]byte(preview), &doc))
	return doc.Summary
}

// The stack of `make attack` lives its whole life, on the real cluster, by the
// real engine and the real Kubernetes provider. It begins with the stack up, as
// `make deploy` leaves it, and ends with nothing.
func TestTheDevStackLivesItsWholeLife(t *testing.T) {
	kinds, first := exported(t)
	require.NotEmpty(t, first, "`make deploy` brings the stack up")
	assert.Positive(t, kinds["kubernetes:extensions.agents.x-k8s.io/v1beta1:SandboxWarmPool"])

	t.Run("nothing changes without a reason", func(t *testing.T) {
		var reading, work, took time.Duration
		for try := range previewTries {
			_, code, unit := measured(t, "pulumi", "--", "stack", "export", "-s", "dev")
			require.Zero(t, code)
			reading = max(reading, unit)
			begun := time.Now()
			_, code, tried := measured(t, "pulumi", "--", "preview", "--expect-no-changes", "-s", "dev")
			require.Zero(t, code)
			if lasted := time.Since(begun); try == 0 || tried < work {
				work, took = tried, lasted
			}
		}
		require.Positive(t, reading)
		t.Logf("a preview without changes: %s, the work of reading the state %.1f times", took.Round(100*time.Millisecond), work.Seconds()/reading.Seconds())
		assert.Less(t, work, previewWork*reading)
		assert.Less(t, took, previewBound)
		pulumiDev(t, "refresh", "--yes", "--expect-no-changes")
		pulumiDev(t, "up", "--yes", "--skip-preview", "--expect-no-changes")
	})

	t.Run("the exported target is the one that can be attacked", func(t *testing.T) {
		d, err := descriptor.Decode([]byte(pulumiDev(t, "stack", "output", "target", "--json")))
		require.NoError(t, err)
		assert.Equal(t, first, d.ClusterUID)
	})

	t.Run("no secret is in the clear", func(t *testing.T) {
		state := pulumiDev(t, "stack", "export")
		for _, word := range []string{"client-key-data", "PRIVATE KEY", "user1 sha256:", callersInBase64} {
			assert.NotContains(t, state, word)
		}
	})

	t.Run("a profile comes and goes without touching the others", func(t *testing.T) {
		for _, there := range []bool{true, false} {
			profiles := map[bool]string{true: `["agent-sandbox","playground"]`, false: `["agent-sandbox"]`}
			pulumiDev(t, "config", "set", "stockade:profiles", profiles[there])
			summary := changes(t, pulumiDev(t, "preview", "--json"))
			assert.Equal(t, 1, summary["update"], "the cluster gets its images: %v", summary)
			assert.Zero(t, summary["replace"], "%v", summary)
			pulumiDev(t, "up", "--yes", "--skip-preview")
			_, code := command(t, "exec", "--", "kubectl", "get", "namespace", "playground")
			assert.Equal(t, there, code == 0)
			_, code = command(t, "run", "--stack", "dev", "--quiet", "--profile", "playground", "kernel.identity-signals")
			assert.Equal(t, map[bool]int{true: 0, false: 3}[there], code)
		}
		pulumiDev(t, "config", "rm", "stockade:profiles")
		pulumiDev(t, "preview", "--expect-no-changes")
	})

	t.Run("a setting changes in place", func(t *testing.T) {
		pulumiDev(t, "config", "set", "stockade:warmPool", "1") // there may be no room for more
		summary := changes(t, pulumiDev(t, "preview", "--json"))
		assert.Equal(t, 2, summary["update"], "the pools of the reference and of the seed")
		assert.Zero(t, summary["replace"]+summary["create"]+summary["delete"], "%v", summary)
		pulumiDev(t, "up", "--yes", "--skip-preview")
		pool, code := command(t, "exec", "--", "kubectl", "get", "sandboxwarmpool", "-n", "sandboxes", "-o", "jsonpath={.items[*].spec.replicas}")
		require.Zero(t, code)
		assert.Equal(t, "1", pool)
		pulumiDev(t, "config", "rm", "stockade:warmPool")
		pulumiDev(t, "up", "--yes", "--skip-preview")
	})

	t.Run("what is deleted behind its back comes again", func(t *testing.T) {
		policy := []string{"exec", "--", "kubectl", "delete", "validatingadmissionpolicybinding", "--all"}
		_, code := command(t, policy...)
		require.Zero(t, code)
		pulumiDev(t, "refresh", "--yes")
		assert.Positive(t, changes(t, pulumiDev(t, "preview", "--json"))["create"])
		pulumiDev(t, "up", "--yes", "--skip-preview")
		pulumiDev(t, "preview", "--expect-no-changes")
	})

	t.Run("a node deleted by hand is drift, and is mended", func(t *testing.T) {
		nodes, code := command(t, "exec", "--", "docker", "ps", "--format", "{{.Names}}")
		require.Zero(t, code)
		var worker string
		for _, n := range strings.Fields(nodes) {
			if strings.Contains(n, "worker") {
				worker = n
			}
		}
		require.NotEmpty(t, worker)
		_, code = command(t, "exec", "--", "docker", "rm", "--force", "--volumes", worker)
		require.Zero(t, code)
		pulumiDev(t, "refresh", "--yes")
		summary := changes(t, pulumiDev(t, "preview", "--json"))
		assert.Positive(t, summary["replace"]+summary["create-replacement"]+summary["delete-replaced"], "%v", summary)
		pulumiDev(t, "up", "--yes", "--skip-preview")
		_, second := exported(t)
		assert.NotEqual(t, first, second, "another cluster")
		pulumiDev(t, "preview", "--expect-no-changes")
		_, code = command(t, "run", "--stack", "dev", "--quiet", "AS-01")
		assert.Zero(t, code, "and it can be attacked")
	})

	t.Run("destroy leaves nothing", func(t *testing.T) {
		pulumiDev(t, "destroy", "--yes", "--skip-preview")
		kinds, _ := exported(t)
		delete(kinds, "pulumi:pulumi:Stack")
		assert.Empty(t, kinds)
		status, code := command(t, "status")
		assert.Equal(t, 3, code)
		assert.NotRegexp(t, `(?m)^up +(cluster|range|sealed engine|gate|sandboxes|target)`, status)
		_, err := os.Stat("/run/netns/stockade")
		assert.ErrorIs(t, err, os.ErrNotExist)
	})
}
