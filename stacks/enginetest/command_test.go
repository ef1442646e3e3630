// SPDX-License-Identifier: Apache-2.0

//go:build pulumi

package enginetest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pulumi/pulumi-gcp/sdk/v8/go/gcp/container"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/stockade-dev/stockade/infra/gke/standin"
)

// weakProgram makes this test binary run as the program of a stack whose nodes have
// public addresses.
const weakProgram = "STOCKADE_TEST_WEAK_PROGRAM"

// publicNodes weakens the cluster.
func publicNodes(args any) {
	if a, ok := args.(*container.ClusterArgs); ok {
		a.PrivateClusterConfig = container.ClusterPrivateClusterConfigArgs{EnablePrivateNodes: pulumi.Bool(false)}
	}
}

// user is somebody who types `stockade pulumi -- …`, in a project of their own with
// the stack gke.
type user struct {
	t     *testing.T
	dir   string
	cloud *standin.Cloud
	env   []string
}

func newUser(t *testing.T) *user {
	t.Helper()
	sdk, err := schema()
	require.NoError(t, err)
	u := &user{t: t, dir: t.TempDir()}
	folder := func(name string) string {
		path := filepath.Join(u.dir, name)
		require.NoError(t, os.MkdirAll(path, 0o700))
		return path
	}
	u.cloud, err = standin.Open(sdk, standin.Options{Dir: folder("cloud")})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	port, err := standin.Serve(ctx, u.cloud)
	require.NoError(t, err)
	doc, err := os.ReadFile("../Pulumi.gke.yaml")
	require.NoError(t, err)
	doc = append(doc, "  stockade:throwAway: true\n"...)
	require.NoError(t, os.WriteFile(filepath.Join(folder("stacks"), "Pulumi.gke.yaml"), doc, 0o600))
	u.env = append(os.Environ(),
		"PULUMI_BACKEND_URL=file://"+folder("state"), "PULUMI_CONFIG_PASSPHRASE=of the test", "PULUMI_HOME="+folder("home"),
		fmt.Sprintf("PULUMI_DEBUG_PROVIDERS=gcp:%d", port))
	return u
}

// program sets the program of the project.
func (u *user) program(path string) {
	u.t.Helper()
	doc, err := yaml.Marshal(map[string]any{
		"name": "stockade", "stackConfigDir": "stacks",
		"runtime": map[string]any{"name": "go", "options": map[string]any{"binary": path}},
	})
	require.NoError(u.t, err)
	require.NoError(u.t, os.WriteFile(filepath.Join(u.dir, "Pulumi.yaml"), doc, 0o600))
}

// pulumi runs `stockade pulumi -- …`, with more variables, and returns what it said
// and whether it was content.
func (u *user) pulumi(args []string, env ...string) (said string, ok bool) {
	u.t.Helper()
	command, err := filepath.Abs("../../bin/stockade")
	require.NoError(u.t, err)
	cmd := exec.CommandContext(u.t.Context(), command, append([]string{"pulumi", "--"}, args...)...) //nolint:gosec // ours
	cmd.Dir, cmd.Env = u.dir, append(u.env, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		require.ErrorAs(u.t, err, new(*exec.ExitError), "`make pulumi` builds it")
	}
	u.t.Logf("%v\n%s", args, out)
	return string(out), err == nil
}

// Nobody has to name the pack: it judges whatever goes through the command.
func TestTheCommandLetsNoUpdateBreakARule(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	self, err := os.Executable()
	require.NoError(t, err)
	weak := filepath.Join(u.dir, "weak")
	require.NoError(t, os.WriteFile(weak, fmt.Appendf(nil, "#!/bin/sh\n%s=1 exec '%s'\n", weakProgram, self), 0o700)) //nolint:gosec // a program
	u.program(weak)
	said, ok := u.pulumi([]string{"stack", "init", "gke"})
	require.True(t, ok, said)

	for _, args := range [][]string{{"preview", "-s", "gke"}, {"up", "-s", "gke", "--yes"}, {"up", "-s", "gke", "--yes", "--skip-preview"}} {
		said, ok = u.pulumi(args)
		assert.False(t, ok, "%v went through", args)
		assert.Contains(t, said, "plan.private-nodes: Breached", "%v", args)
		assert.NotContains(t, types(u.cloud.Resources()), "gcp:container/cluster:Cluster", "%v", args)
	}

	// The way out, for whoever knows what they are doing.
	said, ok = u.pulumi([]string{"up", "-s", "gke", "--yes", "--skip-preview"}, "PULUMI_OPTION_POLICY_PACK=")
	require.True(t, ok, said)
	assert.NotContains(t, said, "plan.private-nodes")
	assert.Contains(t, types(u.cloud.Resources()), "gcp:container/cluster:Cluster")
	said, ok = u.pulumi([]string{"destroy", "-s", "gke", "--yes", "--skip-preview"})
	require.True(t, ok, said)
	assert.Empty(t, u.cloud.Resources())

	program, err := filepath.Abs("../../bin/stockade-program")
	require.NoError(t, err)
	u.program(program)
	said, ok = u.pulumi([]string{"up", "-s", "gke", "--yes", "--skip-preview"})
	require.True(t, ok, said)
	assert.Contains(t, said, "stockade@v0.1.0", "the pack was there and is content")
	said, ok = u.pulumi([]string{"destroy", "-s", "gke", "--yes", "--skip-preview"})
	require.True(t, ok, said)
	assert.Empty(t, u.cloud.Resources())
}
