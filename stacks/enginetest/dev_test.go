// SPDX-License-Identifier: Apache-2.0

//go:build pulumi

package enginetest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/auto/optpreview"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optrefresh"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/infra/gke/standin"
	"github.com/stockade-dev/stockade/infra/kind/provider/fake"
	"github.com/stockade-dev/stockade/infra/kube/kubetest"
	"github.com/stockade-dev/stockade/infra/node"
)

// startDev makes an empty stack dev whose cluster stands already, without nodes.
func startDev(t *testing.T) *rig {
	t.Helper()
	p := onGKE(t)
	path, err := p.Kubeconfig(kubetest.Operator)
	require.NoError(t, err)
	kubeconfig, err := os.ReadFile(path)
	require.NoError(t, err)
	port, err := fake.Serve(t.Context(), &fake.Stockade{Kubeconfig: string(kubeconfig)})
	require.NoError(t, err)
	p.env["PULUMI_DEBUG_PROVIDERS"] = fmt.Sprintf("stockade:%d", port)
	r := startWith(t, "dev", nil, run, standin.Options{}, p.env)
	built, err := tools()
	require.NoError(t, err)
	r.install("kubernetes", node.KubernetesProvider, built["pulumi-resource-kubernetes"])
	return r
}

// The cluster of dev is made by `stockade up`, which the pack does not see; what is
// deployed in it passes.
func TestTheDevStackPassesThePolicyPack(t *testing.T) {
	pack, err := thePack()
	require.NoError(t, err)
	r := startDev(t)
	only(t, r.up(), apitype.OpCreate)
	for _, packs := range [][]string{nil, {pack}} {
		begun := time.Now()
		_, err = r.stack.Preview(t.Context(), optpreview.ExpectNoChanges(), optpreview.PolicyPacks(packs...))
		require.NoError(t, err)
		t.Logf("a preview without changes, with %d packs: %s", len(packs), time.Since(begun).Round(10*time.Millisecond))
	}
	_, err = r.stack.Refresh(t.Context(), optrefresh.ExpectNoChanges())
	require.NoError(t, err)
	// Everything in the cluster goes with it.
	_, err = r.stack.Destroy(t.Context())
	require.NoError(t, err)
	assert.Empty(t, r.graph().Resources, "the stack must be empty")
}
