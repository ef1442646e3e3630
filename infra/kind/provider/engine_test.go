// SPDX-License-Identifier: Apache-2.0

//go:build pulumi

package provider_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pulumi/pulumi/sdk/v3/go/auto"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optpreview"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optrefresh"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/stockade-dev/stockade/infra/kind/cluster"
	"github.com/stockade-dev/stockade/infra/kind/provider"
	"github.com/stockade-dev/stockade/infra/kind/provider/fake"
)

// stack is an empty one, of the real engine, whose only resource is a cluster.
func stack(t *testing.T, s *fake.Stockade) auto.Stack {
	t.Helper()
	engine := os.Getenv("STOCKADE_PULUMI")
	require.True(t, filepath.IsAbs(engine), "STOCKADE_PULUMI must be the full path of pulumi: run `make pulumi` and set it")
	dir := t.TempDir()
	folder := func(name string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(path, 0o700))
		return path
	}
	port, err := fake.Serve(t.Context(), s)
	require.NoError(t, err)

	// The Automation API takes the engine from a folder's bin alone.
	require.NoError(t, os.Symlink(engine, filepath.Join(folder("engine/bin"), "pulumi")))
	command, err := auto.NewPulumiCommand(&auto.PulumiCommandOptions{Root: filepath.Join(dir, "engine")})
	require.NoError(t, err)
	program := func(ctx *pulumi.Context) error {
		c, err := cluster.New(ctx, "dev", &cluster.Args{Home: pulumi.String("/h")})
		if err != nil {
			return err
		}
		ctx.Export("uid", c.UID)
		ctx.Export("kubeconfig", c.Kubeconfig)
		return nil
	}
	made, err := auto.NewStackInlineSource(t.Context(), "dev", "stockade", program,
		auto.WorkDir(folder("work")), auto.Pulumi(command), auto.PulumiHome(folder("home")),
		auto.EnvVars(map[string]string{
			"PULUMI_BACKEND_URL":                          "file://" + folder("state"),
			"PULUMI_CONFIG_PASSPHRASE":                    "of the test",
			"PULUMI_SKIP_UPDATE_CHECK":                    "true",
			"PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
			"PULUMI_DEBUG_PROVIDERS":                      "stockade:" + strconv.Itoa(port),
		}))
	require.NoError(t, err)
	return made
}

func up(t *testing.T, s auto.Stack) map[string]int {
	t.Helper()
	r, err := s.Up(t.Context())
	require.NoError(t, err)
	return *r.Summary.ResourceChanges
}

// state is the deployment, with secrets in the clear.
func state(t *testing.T, s auto.Stack) string {
	t.Helper()
	d, err := s.Export(t.Context())
	require.NoError(t, err)
	return string(d.Deployment)
}

func TestTheEngineSeesAClusterThroughItsWholeLife(t *testing.T) {
	cli := &fake.Stockade{}
	s := stack(t, cli)
	_, err := s.Preview(t.Context())
	require.NoError(t, err)
	assert.Empty(t, cli.Calls(), "a preview runs nothing")

	assert.Equal(t, 2, up(t, s)["create"])
	kept := 0
	require.NoError(t, filepath.WalkDir(filepath.Join(s.Workspace().WorkDir(), "..", "state"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		kept++
		data, err := os.ReadFile(path)
		assert.NotContains(t, string(data), "made: up", "the kubeconfig is in no state in the clear: %s", path)
		return err
	}))
	assert.Positive(t, kept)
	out, err := s.Outputs(t.Context())
	require.NoError(t, err)
	assert.True(t, out["kubeconfig"].Secret)
	assert.Equal(t, "made: up", out["kubeconfig"].Value)
	_, err = s.Preview(t.Context(), optpreview.ExpectNoChanges())
	require.NoError(t, err)
	assert.Equal(t, map[string]int{"same": 2}, up(t, s))
	_, err = s.Refresh(t.Context(), optrefresh.ExpectNoChanges())
	require.NoError(t, err)

	cli.Cluster["nodes"], cli.Cluster["healthy"], cli.Cluster["reason"] = []string{"n1"}, false, "node n2 is not ready"
	r, err := s.Refresh(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, (*r.Summary.ResourceChanges)["update"], "the missing node is seen")
	before := len(cli.Calls())
	assert.Equal(t, 1, up(t, s)["replace"])
	assert.Equal(t, []string{"/h: down", "/h: up --bare", "/h: place"}, cli.Calls()[before:], "the broken one goes first")
	assert.Equal(t, "uid-2", cli.Cluster["uid"])
	_, err = s.Preview(t.Context(), optpreview.ExpectNoChanges())
	require.NoError(t, err)

	cli.Cluster = nil
	r, err = s.Refresh(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, (*r.Summary.ResourceChanges)["delete"], "it is gone")
	assert.Equal(t, 1, up(t, s)["create"])

	_, err = s.Destroy(t.Context())
	require.NoError(t, err)
	assert.Nil(t, cli.Cluster)
	assert.NotContains(t, state(t, s), provider.Type)
}

func TestAnUpThatFailsHalfwayIsFinishedByTheNextOneOrDestroyed(t *testing.T) {
	for _, half := range []bool{false, true} {
		cli := &fake.Stockade{Half: half, Fail: map[string]error{"up --bare": &provider.ExitError{Code: 5, Said: "no space left"}}}
		s := stack(t, cli)
		_, err := s.Up(t.Context())
		require.ErrorContains(t, err, "no space left")
		assert.Contains(t, state(t, s), provider.Type, "what stands is known")
		assert.NotContains(t, state(t, s), "pending_operations\":[{", "and nothing is in doubt")

		cli.Fail = nil
		assert.Equal(t, 1, up(t, s)["replace"])
		assert.Equal(t, true, cli.Cluster["healthy"])
		_, err = s.Preview(t.Context(), optpreview.ExpectNoChanges())
		require.NoError(t, err)

		cli.Fail = map[string]error{"down": &provider.ExitError{Code: 4, Said: "device or resource busy"}}
		_, err = s.Destroy(t.Context())
		require.ErrorContains(t, err, "device or resource busy")
		cli.Fail = nil
		_, err = s.Destroy(t.Context())
		require.NoError(t, err)
		assert.NotContains(t, state(t, s), provider.Type)
	}
}

func TestWhatAFailedUpLeavesIsRememberedByARefreshAndDestroyed(t *testing.T) {
	cli := &fake.Stockade{Left: []string{"sealed engine"}, Fail: map[string]error{"up --bare": &provider.ExitError{Code: 5, Said: "no space left"}}}
	s := stack(t, cli)
	_, err := s.Up(t.Context())
	require.ErrorContains(t, err, "no space left")
	_, err = s.Refresh(t.Context())
	require.NoError(t, err)
	assert.Contains(t, state(t, s), provider.Type)
	_, err = s.Destroy(t.Context())
	require.NoError(t, err)
	assert.Empty(t, cli.Left)
	assert.NotContains(t, state(t, s), provider.Type)
}

func TestAnInterruptedUpIsClearedAwayByDestroy(t *testing.T) {
	cli := &fake.Stockade{Block: true, Started: make(chan struct{})}
	s := stack(t, cli)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	done := make(chan error, 1)
	go func() {
		_, err := s.Up(ctx)
		done <- err
	}()
	<-cli.Started
	interrupt() // the Automation API passes it on as Ctrl-C
	require.Error(t, <-done)
	assert.Contains(t, state(t, s), "incomplete")
	_, err := s.Destroy(t.Context())
	require.NoError(t, err)
	calls := cli.Calls()
	assert.Equal(t, "/h: down", calls[len(calls)-1])
	assert.NotContains(t, state(t, s), provider.Type)
}
