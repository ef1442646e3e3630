// SPDX-License-Identifier: Apache-2.0

//go:build pulumi

package enginetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pulumi/pulumi-gcp/sdk/v8/go/gcp/compute"
	"github.com/pulumi/pulumi-gcp/sdk/v8/go/gcp/container"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optpreview"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optup"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scratch is a folder for all tests.
var scratch string

func TestMain(m *testing.M) {
	if os.Getenv(weakProgram) != "" {
		pulumi.Run(weaken(publicNodes))
		return
	}
	var err error
	scratch, err = os.MkdirTemp("", "enginetest")
	if err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// thePack builds the policy pack once, as `make` would.
var thePack = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "policy")
	out, err := exec.Command("go", "build", "-o", path, "../../cmd/policy").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the policy pack: %w: %s", err, out)
	}
	return path, nil
})

// weaken runs the program with other arguments for some resources.
func weaken(change func(args any)) pulumi.RunFunc {
	return func(ctx *pulumi.Context) error {
		err := ctx.RegisterStackTransformation(func(a *pulumi.ResourceTransformationArgs) *pulumi.ResourceTransformationResult {
			change(a.Props)
			return &pulumi.ResourceTransformationResult{Props: a.Props, Opts: a.Opts}
		})
		if err != nil {
			return err
		}
		return run(ctx)
	}
}

func TestAStackThatKeepsItsGuaranteesPassesThePolicyPack(t *testing.T) {
	pack, err := thePack()
	require.NoError(t, err)
	for _, name := range clouds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, name, changes[name], run)
			_, err := r.stack.Preview(t.Context(), optpreview.PolicyPacks(pack))
			require.NoError(t, err)
			result, err := r.stack.Up(t.Context(), optup.PolicyPacks(pack))
			require.NoError(t, err)
			assert.Contains(t, result.StdOut, "stockade", "the pack was there")
			assert.NotContains(t, result.StdOut, "Inconclusive")
		})
	}
}

func TestAWeakStackIsStoppedByThePolicyPack(t *testing.T) {
	pack, err := thePack()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		stack  string
		change func(args any)
		rule   string
		// early: nothing of the weak type is made, even without a preview.
		early string
	}{
		"public nodes": {"gke", publicNodes, "plan.private-nodes", "gcp:container/cluster:Cluster"},
		"the node's own token": {"gke-shared", func(args any) {
			if a, ok := args.(*container.NodePoolArgs); ok {
				node := a.NodeConfig.(container.NodePoolNodeConfigArgs)
				node.WorkloadMetadataConfig = container.NodePoolNodeConfigWorkloadMetadataConfigArgs{Mode: pulumi.String("GCE_METADATA")}
				a.NodeConfig = node
			}
		}, "plan.metadata-mode", "gcp:container/nodePool:NodePool"},
		// This one is only seen when all rules of the firewall are there.
		"no rule that denies the rest": {"gke-shared", func(args any) {
			if a, ok := args.(*compute.FirewallArgs); ok && a.Denies != nil {
				a.Disabled = pulumi.Bool(true)
			}
		}, "plan.egress-firewall", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, c.stack, changes[c.stack], weaken(c.change))
			_, err := r.stack.Preview(t.Context(), optpreview.PolicyPacks(pack))
			require.ErrorContains(t, err, c.rule)
			assert.Empty(t, r.cloud.Resources())
			// The Automation API skips the preview.
			_, err = r.stack.Up(t.Context(), optup.PolicyPacks(pack))
			require.ErrorContains(t, err, c.rule)
			if c.early != "" {
				for _, x := range r.cloud.Resources() {
					assert.NotEqual(t, c.early, x.Type, "it was made all the same")
				}
			}
		})
	}
}

func TestWhatCannotBeToldIsShownInAPreviewAndStopsAnUpdate(t *testing.T) {
	t.Parallel()
	pack, err := thePack()
	require.NoError(t, err)
	r := start(t, "gke", nil, weaken(func(args any) {
		if a, ok := args.(*container.ClusterArgs); ok {
			a.ReleaseChannel = nil
		}
	}))
	result, err := r.stack.Preview(t.Context(), optpreview.PolicyPacks(pack))
	require.NoError(t, err)
	assert.Contains(t, result.StdOut, "plan.release-channel: Inconclusive")
	_, err = r.stack.Up(t.Context(), optup.PolicyPacks(pack))
	require.ErrorContains(t, err, "plan.release-channel: Inconclusive")
}

func TestADeclaredDryRunOfThePerimeterOnlyWarns(t *testing.T) {
	t.Parallel()
	pack, err := thePack()
	require.NoError(t, err)
	r := start(t, "gke-shared", nil, run)
	result, err := r.stack.Up(t.Context(), optup.PolicyPacks(pack))
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(result.StdOut, "plan.perimeter-enforced: Breached"))
}
