// SPDX-License-Identifier: Apache-2.0

//go:build cluster && linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/report"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

const loose = "conformance/e2e/testdata/guest/loose.yaml" // as seen from the root

// guests returns the names of the namespaces that runs made.
func guests(t *testing.T) []string {
	t.Helper()
	r := kubectl(t, nil, "get", "namespaces", "-l", "stockade.dev/run", "-o", "name")
	require.Zero(t, r.code, r.stderr)
	return strings.Fields(r.stdout)
}

func TestAUsersOwnTemplateIsAttackedAndLeavesNothing(t *testing.T) {
	r := call(t, nil, "run", "--template", loose, "--json", "filesystem.write-outside-tmp", "kernel.runtime-handler")
	require.Equal(t, verdict.ExitBreached, r.code, r.stderr)
	rep, err := report.Read(strings.NewReader(r.stdout))
	require.NoError(t, err)
	assert.Equal(t, "template/loose", rep.Target)
	assert.Empty(t, rep.Residue)
	got := map[string]verdict.Verdict{}
	for _, x := range rep.Results {
		got[x.ID] = x.Verdict
	}
	assert.Equal(t, map[string]verdict.Verdict{"filesystem.write-outside-tmp": verdict.Breached, "kernel.runtime-handler": verdict.Held}, got)
	assert.Empty(t, guests(t))
}

func TestATemplateThatCannotWorkIsRefusedBeforeAnythingIsMade(t *testing.T) {
	text, err := os.ReadFile(filepath.FromSlash("testdata/guest/loose.yaml"))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		old, by string
		code    int
		want    string
	}{
		"an image that is not there":       {"python-sandbox:3.11", "python-sandbox:9.9", verdict.ExitUsage, "stockade.local/python-sandbox:3.11"},
		"a field that only the CRD denies": {"spec:\n  podTemplate:", "spec:\n  egress: none\n  podTemplate:", verdict.ExitUsage, `unknown field "spec.egress"`},
		"a runtime that is not admitted":   {"runtimeClassName: gvisor", "hostname: none", verdict.ExitInconclusive, "All Sandboxes must use 'runtimeClassName: gvisor'"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "t.yaml")
			require.Contains(t, string(text), c.old)
			require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), c.old, c.by, 1)), 0o600))
			r := call(t, nil, "run", "--template", path, "kernel.runtime-handler")
			assert.Equal(t, c.code, r.code, r.stderr)
			assert.Contains(t, r.stderr, c.want)
			assert.NotContains(t, r.stdout, "Held")
			assert.Empty(t, guests(t))
		})
	}
}

func TestTheNamespaceOfAKilledRunIsRemovedByCleanup(t *testing.T) {
	cmd := command(t.Context(), "run", "--template", loose, "kernel.runtime-handler")
	var errs lines
	cmd.Stderr = &errs
	require.NoError(t, cmd.Start())
	eventually(t, "the run never made a namespace", func() bool { return len(guests(t)) > 0 })
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.NotEmpty(t, guests(t), "the kill came too late to leave anything")

	r := call(t, nil, "cleanup", "--json")
	assert.Zero(t, r.code, r.stderr)
	doc := decode[struct{ Removed, Left []string }](t, r.stdout)
	assert.Contains(t, strings.Join(doc.Removed, "\n"), "Namespace /guest-")
	assert.Empty(t, doc.Left)
	assert.Empty(t, guests(t))
}
