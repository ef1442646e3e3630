// SPDX-License-Identifier: Apache-2.0

//go:build pulumi

package enginetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	t.Setenv(node.GoProxyEnv, "off") // whatever this machine's is
	p := onGKE(t)
	p.bring(t, ciliumPolicies(t))
	port, err := fake.Serve(t.Context(), p.local(t))
	require.NoError(t, err)
	p.env["PULUMI_DEBUG_PROVIDERS"] = fmt.Sprintf("stockade:%d", port)
	r := startWith(t, "dev", nil, run, standin.Options{}, p.env)
	built, err := tools()
	require.NoError(t, err)
	r.install("kubernetes", node.KubernetesProvider, built["pulumi-resource-kubernetes"])
	return r
}

// local is a stockade command that says that the cluster is what it has made.
func (p *platform) local(t *testing.T) *fake.Stockade {
	t.Helper()
	path, err := p.Kubeconfig(kubetest.Operator)
	require.NoError(t, err)
	kubeconfig, err := os.ReadFile(path)
	require.NoError(t, err)
	s := &fake.Stockade{Kubeconfig: string(kubeconfig), Images: map[string]string{}}
	for i, program := range node.DefaultPrograms() {
		name, _, _ := strings.Cut(program.Image, ":")
		s.Images[node.Repository+"/"+program.Image] = fmt.Sprintf("%s/%s@sha256:%064x", node.Repository, name, i)
	}
	return s
}

// ciliumPolicies are the definition of Cilium's own network policies.
func ciliumPolicies(t *testing.T) string {
	t.Helper()
	module, err := node.ModuleDir(t.Context(), node.Options{}, "cilium", "github.com/cilium/cilium")
	require.NoError(t, err)
	return filepath.Join(module, "pkg/k8s/apis/cilium.io/client/crds/v2/ciliumnetworkpolicies.yaml")
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
