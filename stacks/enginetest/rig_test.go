// SPDX-License-Identifier: Apache-2.0

//go:build pulumi

package enginetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/auto"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optpreview"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/stockade-dev/stockade/conformance/plan"
	"github.com/stockade-dev/stockade/infra/gke/standin"
	"github.com/stockade-dev/stockade/stacks"
)

// clouds are the stacks on Google Cloud.
var clouds = []string{"gke", "gke-autopilot", "gke-shared"}

// binary is the engine. Without it nothing is shown, so its absence is a
// failure.
var binary = sync.OnceValues(func() (string, error) {
	path := os.Getenv("STOCKADE_PULUMI")
	if path == "" {
		return "", errors.New("STOCKADE_PULUMI must be the full path of pulumi: run `make pulumi` and set it")
	}
	if _, err := os.Stat(path); err != nil || !filepath.IsAbs(path) {
		return "", fmt.Errorf("STOCKADE_PULUMI is %q, which is not the full path of a file: run `make pulumi`", path)
	}
	return path, nil
})

// schema is read once: the cloud of each test has the same one.
var schema = sync.OnceValues(func() (*standin.Schema, error) { return standin.NewSchema(context.Background()) })

// rig is a stack with a cloud of its own.
type rig struct {
	t      *testing.T
	dir    string
	cloud  *standin.Cloud
	engine *engine
	stack  auto.Stack
}

// engine runs pulumi.
type engine struct {
	auto.PulumiCommand
	t *testing.T
	// terse leaves unasked what the Automation API wants to know after each
	// update: outputs, twice, and the history. Each question starts pulumi again.
	terse bool
}

// Run implements [auto.PulumiCommand].
func (e *engine) Run(ctx context.Context, dir string, in io.Reader, out, errOut []io.Writer, env []string, args ...string) (stdout, stderr string, code int, err error) {
	if e.terse && len(args) > 1 && args[0] == "stack" {
		switch args[1] {
		case "output":
			return "{}", "", 0, nil
		case "history":
			return "[]", "", 0, nil
		}
	}
	begun := time.Now()
	stdout, stderr, code, err = e.PulumiCommand.Run(ctx, dir, in, out, errOut, env, args...)
	e.t.Logf("pulumi %s: %s", args[0], time.Since(begun).Round(10*time.Millisecond))
	return stdout, stderr, code, err
}

// start makes an empty stack of the name, with the values of its committed file
// and some others.
func start(t *testing.T, name string, config map[string]any, program pulumi.RunFunc) *rig {
	t.Helper()
	return startWith(t, name, config, program, standin.Options{}, nil)
}

// startWith is start with a cloud of one's own, and with variables for the engine and
// its plugins.
func startWith(t *testing.T, name string, config map[string]any, program pulumi.RunFunc, o standin.Options, env map[string]string) *rig {
	t.Helper()
	pulumiPath, err := binary()
	require.NoError(t, err)
	sdk, err := schema()
	require.NoError(t, err)
	r := &rig{t: t, dir: t.TempDir()}
	folder := func(name string) string {
		path := filepath.Join(r.dir, name)
		require.NoError(t, os.MkdirAll(path, 0o700))
		return path
	}
	// The number is the one in the example of gke-shared.
	o.Dir, o.Number = folder("cloud"), "123456789012"
	r.cloud, err = standin.Open(sdk, o)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	port, err := standin.Serve(ctx, r.cloud)
	require.NoError(t, err)

	// The Automation API takes the engine from a folder's bin alone.
	require.NoError(t, os.Symlink(pulumiPath, filepath.Join(folder("engine/bin"), "pulumi")))
	command, err := auto.NewPulumiCommand(&auto.PulumiCommandOptions{Root: filepath.Join(r.dir, "engine")})
	require.NoError(t, err)
	r.engine = &engine{PulumiCommand: command, t: t}
	// The file of dev is not committed: where there is one, it is this machine's own,
	// and its secrets are behind another passphrase.
	doc := []byte("config:\n  stockade:warmPool: 2\n")
	if name != "dev" {
		doc, err = os.ReadFile(filepath.Join("..", "Pulumi."+name+".yaml"))
		require.NoError(t, err)
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder("work"), "Pulumi."+name+".yaml"), doc, 0o600))
	vars := map[string]string{
		"PULUMI_BACKEND_URL":                          "file://" + folder("state"),
		"PULUMI_CONFIG_PASSPHRASE":                    "of the test",
		"PULUMI_SKIP_UPDATE_CHECK":                    "true",
		"PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
		"PULUMI_DEBUG_PROVIDERS":                      fmt.Sprintf("gcp:%d", port),
	}
	maps.Copy(vars, env)
	r.stack, err = auto.NewStackInlineSource(t.Context(), name, "stockade", program,
		auto.WorkDir(folder("work")), auto.Pulumi(r.engine), auto.PulumiHome(folder("home")), auto.EnvVars(vars))
	require.NoError(t, err)
	// What a test does not destroy goes with its folder.
	r.set(map[string]any{"stockade:throwAway": true})
	r.set(config)
	return r
}

// install gives the engine a provider, as `stockade pulumi --` does.
func (r *rig) install(name, version, path string) {
	r.t.Helper()
	dir := filepath.Join(r.dir, "home", "plugins", "resource-"+name+"-v"+version)
	require.NoError(r.t, os.MkdirAll(dir, 0o700))
	require.NoError(r.t, os.Symlink(path, filepath.Join(dir, "pulumi-resource-"+name)))
}

// set changes the stack's configuration.
func (r *rig) set(config map[string]any) {
	r.t.Helper()
	path := filepath.Join(r.dir, "work", "Pulumi."+r.stack.Name()+".yaml")
	raw, err := os.ReadFile(path)
	require.NoError(r.t, err)
	// Pulumi keeps its salt in there, too.
	file := map[string]any{}
	require.NoError(r.t, yaml.Unmarshal(raw, &file))
	values, ok := file["config"].(map[string]any)
	require.True(r.t, ok)
	for k, v := range config {
		values[k] = v
	}
	raw, err = yaml.Marshal(file)
	require.NoError(r.t, err)
	require.NoError(r.t, os.WriteFile(path, raw, 0o600))
}

// up applies the program and returns how many resources had which operation.
func (r *rig) up() map[string]int {
	r.t.Helper()
	result, err := r.stack.Up(r.t.Context())
	require.NoError(r.t, err)
	return *result.Summary.ResourceChanges
}

// destroy takes everything away, and looks for what is left.
func (r *rig) destroy() {
	r.t.Helper()
	_, err := r.stack.Destroy(r.t.Context())
	require.NoError(r.t, err)
	assert.Empty(r.t, r.cloud.Resources(), "the cloud must be empty")
	assert.Empty(r.t, r.graph().Resources, "the stack must be empty")
}

// unchanged asserts that the program has nothing to do.
func (r *rig) unchanged() {
	r.t.Helper()
	_, err := r.stack.Preview(r.t.Context(), optpreview.ExpectNoChanges())
	require.NoError(r.t, err)
}

// graph is the whole stack, as a rule of a plan sees it.
func (r *rig) graph() plan.Graph {
	r.t.Helper()
	deployment, err := r.stack.Export(r.t.Context())
	require.NoError(r.t, err)
	g, err := plan.Decode(strings.NewReader(fmt.Sprintf(`{"version": %d, "deployment": %s}`, deployment.Version, deployment.Deployment)))
	require.NoError(r.t, err)
	return g
}

// created returns the resources that the program asked the cloud for.
func (r *rig) created() (out []standin.Call) {
	r.t.Helper()
	calls, err := r.cloud.Journal()
	require.NoError(r.t, err)
	for _, c := range calls {
		if c.Call == "create" && !c.Preview && c.Error == "" {
			out = append(out, c)
		}
	}
	return out
}

// only asserts that nothing but some operations were done, and at least one of
// each.
func only(t *testing.T, changes map[string]int, ops ...apitype.OpType) {
	t.Helper()
	allowed := map[string]bool{string(apitype.OpSame): true}
	for _, op := range ops {
		allowed[string(op)] = true
		assert.Positive(t, changes[string(op)], "there was no %s", op)
	}
	for op := range changes {
		assert.True(t, allowed[op], "there was a %s: %v", op, changes)
	}
}

// summary turns a preview's counts into those of an update.
func summary(p auto.PreviewResult) map[string]int {
	out := map[string]int{}
	for op, n := range p.ChangeSummary {
		out[string(op)] = n
	}
	return out
}

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// run is the program as main.go runs it.
var run pulumi.RunFunc = stacks.Run
