// SPDX-License-Identifier: Apache-2.0

//go:build pulumi

package enginetest

import (
	"strings"
	"testing"

	"github.com/pulumi/pulumi/sdk/v3/go/auto/optrefresh"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/plan"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/infra/gke/standin"
)

// changes are edits of a stack's file that must not replace anything.
var changes = map[string]map[string]any{
	"gke":           {"stockade:podPids": 2048, "stockade:releaseChannel": "RAPID", "stockade:sandboxMachine": "n2-standard-8", "stockade:egress": "https"},
	"gke-autopilot": {"stockade:releaseChannel": "STABLE", "stockade:maintenanceHour": 4, "stockade:externalControlPlane": false},
	// The perimeter in earnest, after its dry run.
	"gke-shared": {"stockade:perimeterEnforced": true, "stockade:systemNodes": 5},
}

func TestAStackIsMadeChangedAndTakenAway(t *testing.T) {
	for _, name := range clouds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, name, nil, run)
			before, err := r.stack.Preview(t.Context())
			require.NoError(t, err)
			only(t, summary(before), apitype.OpCreate)
			assert.Empty(t, r.cloud.Resources(), "a preview makes nothing")

			only(t, r.up(), apitype.OpCreate)
			made := len(r.created())
			assert.Len(t, r.cloud.Resources(), made)
			assert.Greater(t, made, 30)
			r.unchanged()
			_, err = r.stack.Refresh(t.Context(), optrefresh.ExpectNoChanges())
			require.NoError(t, err)

			r.set(changes[name])
			only(t, r.up(), apitype.OpUpdate)
			assert.Len(t, r.created(), made, "nothing was made anew")
			r.unchanged()
			_, err = r.stack.Refresh(t.Context(), optrefresh.ExpectNoChanges())
			require.NoError(t, err)
			keepsItsRules(t, name, r.graph(), false)

			r.destroy()
		})
	}
}

// keepsItsRules judges what was really applied, as `stockade plan-check` would.
func keepsItsRules(t *testing.T, name string, g plan.Graph, workloads bool) {
	t.Helper()
	p := plan.Profiles[name]
	p.ThrowAway, p.Workloads = true, workloads
	held := 0
	for _, f := range plan.Check(g, p, at) {
		switch f.Result.Verdict() {
		case verdict.Held:
			held++
		case verdict.NotApplicable:
			assert.False(t, f.Rule.Concerns(p), f.Rule.ID)
		default:
			t.Errorf("%s: %s %s", f.Rule.ID, f.Result.Verdict(), f.Result.Detail())
		}
	}
	assert.Greater(t, held, 15)
}

func TestAProtectedStackIsNotDestroyedBeforeSomebodySaysSo(t *testing.T) {
	t.Parallel()
	r := start(t, "gke", map[string]any{"stockade:throwAway": false}, run)
	r.up()
	made := r.cloud.Resources()
	// `pulumi destroy` begins with this, and goes no further.
	_, err := r.stack.PreviewDestroy(t.Context())
	require.ErrorContains(t, err, "protect")
	assert.Equal(t, made, r.cloud.Resources(), "nothing of it is gone")
	// With --skip-preview, Pulumi would delete what depends on the cluster before it
	// comes to the cluster itself. The guard is what it comes to first.
	_, err = r.stack.Destroy(t.Context())
	require.ErrorContains(t, err, "protect")
	assert.Equal(t, made, r.cloud.Resources(), "nothing of it is gone")
	r.unchanged()
	r.set(map[string]any{"stockade:throwAway": true})
	r.up()
	r.destroy()
}

func types(resources []standin.Resource) (out []string) {
	for _, r := range resources {
		out = append(out, r.Type)
	}
	return out
}

func TestWhatChangedBehindTheStackIsSeenAndMended(t *testing.T) {
	t.Parallel()
	r := start(t, "gke-shared", nil, run)
	r.up()
	for _, x := range r.cloud.Resources() {
		switch {
		case x.Type == "gcp:compute/subnetwork:Subnetwork":
			require.NoError(t, r.cloud.Edit(x.Type, x.ID, func(v map[string]any) { v["privateIpGoogleAccess"] = false }))
		case x.Type == "gcp:container/nodePool:NodePool" && strings.HasSuffix(x.ID, "/sandbox"):
			require.NoError(t, r.cloud.Edit(x.Type, x.ID, func(v map[string]any) {
				v["nodeConfig"].(map[string]any)["workloadMetadataConfig"] = map[string]any{"mode": "GCE_METADATA"}
			}))
		case strings.HasSuffix(x.URN, "-egress-rest"):
			require.NoError(t, r.cloud.Drop(x.Type, x.ID))
		}
	}
	r.unchanged() // A preview alone goes by what was known.
	_, err := r.stack.Refresh(t.Context(), optrefresh.ExpectNoChanges())
	require.Error(t, err, "the refresh must say that something changed")
	_, err = r.stack.Refresh(t.Context())
	require.NoError(t, err)
	only(t, r.up(), apitype.OpUpdate, apitype.OpCreate)
	r.unchanged()
	_, err = r.stack.Refresh(t.Context(), optrefresh.ExpectNoChanges())
	require.NoError(t, err)
	r.destroy()
}
