// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/plan"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/infra/gke/gketest"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

var clouds = []string{"gke", "gke-autopilot", "gke-shared"}

// enforced are the values under which every claim of a stack is made.
func enforced(t *testing.T, stack string) map[string]string {
	t.Helper()
	if stack == "gke-shared" {
		return with(t, stack, map[string]string{"stockade:perimeterEnforced": "true", "stockade:sandboxRoles": `["roles/monitoring.viewer"]`})
	}
	return example(t, stack)
}

// A preview must be judged before the cloud has computed anything, and the whole
// stack after.
func TestEveryStackKeepsEveryRuleOfItsProfile(t *testing.T) {
	for _, stack := range clouds {
		for _, preview := range []bool{true, false} {
			g := graph(record(t, stack, enforced(t, stack), preview))
			p := plan.Profiles[stack]
			held := 0
			for _, f := range plan.Check(g, p, at) {
				want := verdict.Held
				if !f.Rule.Concerns(p) {
					want = verdict.NotApplicable
				} else {
					held++
				}
				assert.Equal(t, want, f.Result.Verdict(), "%s, preview %v: %s: %s %s %+v",
					stack, preview, f.Rule.ID, f.Result.Reason(), f.Result.Detail(), f.Evidence.Attempts)
			}
			assert.Greater(t, held, 15, stack)
		}
	}
}

func TestADryRunBreaksTheRuleThatThePerimeterIsEnforcedAndNoOther(t *testing.T) {
	g := graph(record(t, "gke-shared", example(t, "gke-shared"), true))
	for _, f := range plan.Check(g, plan.Profiles["gke-shared"], at) {
		want := verdict.Held
		switch f.Rule.ID {
		case "plan.perimeter-enforced":
			want = verdict.Breached
		case "plan.image-digests", "plan.allow-list":
			want = verdict.NotApplicable
		}
		assert.Equal(t, want, f.Result.Verdict(), f.Rule.ID)
	}
}

func TestAThrowAwayStackCanBeDestroyedAndNothingElseIsWeaker(t *testing.T) {
	for _, stack := range clouds {
		config := enforced(t, stack)
		config["stockade:throwAway"] = "true"
		all := record(t, stack, config, false)
		cluster := one(t, all, "gcp:container/cluster:Cluster")
		assert.Equal(t, false, cluster.Inputs["deletionProtection"], stack)
		assert.False(t, cluster.Protect, stack)
		assert.False(t, one(t, all, "stockade:gke:Guard").Protect, stack)
		p := plan.Profiles[stack]
		p.ThrowAway = true
		for _, f := range plan.Check(graph(all), p, at) {
			assert.Contains(t, []verdict.Verdict{verdict.Held, verdict.NotApplicable}, f.Result.Verdict(), f.Rule.ID)
		}
	}
}

func TestARealStackIsProtectedTwice(t *testing.T) {
	for _, stack := range clouds {
		cluster := one(t, record(t, stack, example(t, stack), false), "gcp:container/cluster:Cluster")
		assert.Equal(t, true, cluster.Inputs["deletionProtection"], stack)
		assert.True(t, cluster.Protect, "%s: Pulumi itself does not delete it", stack)
	}
}

func TestNothingOfARealStackCanGoBeforeItsGuard(t *testing.T) {
	for _, stack := range clouds {
		all := record(t, stack, withImages(t, stack), false)
		guard := one(t, all, "stockade:gke:Guard")
		assert.True(t, guard.Protect, stack)
		guarded := before(all, guard)
		for _, r := range all {
			// A provider cannot go before the resources that it made.
			if r.Custom && !strings.HasPrefix(r.Type, "pulumi:") {
				assert.Contains(t, guarded, r.Name, "%s: %s", stack, r.Type)
			}
		}
	}
}

func TestEveryResourceGoesThroughTheStacksOwnProvider(t *testing.T) {
	for _, stack := range clouds {
		for _, r := range record(t, stack, example(t, stack), false) {
			if strings.HasPrefix(r.Type, "gcp:") {
				assert.Contains(t, r.Provider, "pulumi:providers:gcp::stockade-"+stack, "%s %s", r.Type, r.Name)
			}
		}
	}
}

// Access Context Manager answers a person's credentials only then.
func TestCallsForThePerimeterAreCountedAgainstTheProject(t *testing.T) {
	for _, stack := range clouds {
		provider := one(t, record(t, stack, example(t, stack), false), "pulumi:providers:gcp")
		if stack == "gke-shared" {
			assert.Equal(t, "example-project", provider.Inputs["billingProject"])
			assert.NotNil(t, provider.Inputs["userProjectOverride"])
		} else {
			assert.Nil(t, provider.Inputs["billingProject"], stack)
		}
	}
}

// A cluster may be told to have its posture watched while nothing does so.
func TestAPostureThatIsWatchedHasTheServiceThatWatches(t *testing.T) {
	for _, name := range clouds {
		all := record(t, name, example(t, name), false)
		require.Equal(t, map[string]any{"mode": "BASIC"}, one(t, all, "gcp:container/cluster:Cluster").Inputs["securityPostureConfig"], name)
		assert.True(t, slices.ContainsFunc(all, func(r gketest.Resource) bool {
			return r.Type == "gcp:projects/service:Service" && r.Inputs["service"] == "containersecurity.googleapis.com"
		}), name)
	}
}

// What must be there before it is used, although it hands over no value.
func TestResourcesWaitForWhatTheyNeed(t *testing.T) {
	for _, stack := range clouds {
		all := record(t, stack, example(t, stack), false)
		for _, r := range all {
			switch {
			case !r.Custom, strings.HasPrefix(r.Type, "pulumi:"), r.Type == "gcp:projects/service:Service", strings.HasPrefix(r.Type, "gcp:accesscontextmanager/accessLevel:"):
			default:
				assert.Contains(t, before(all, r), "stockade-"+stack+"-compute", "%s %s must wait for the APIs", r.Type, r.Name)
			}
		}
		cluster := before(all, one(t, all, "gcp:container/cluster:Cluster"))
		for _, name := range []string{"-node", "-egress-rest", "-googleapis-com-any"} {
			assert.Contains(t, cluster, "stockade-"+stack+name, "%s: the cluster needs it", stack)
		}
	}
	shared := record(t, "gke-shared", example(t, "gke-shared"), false)
	perimeter := before(shared, one(t, shared, "gcp:accesscontextmanager/servicePerimeter:ServicePerimeter"))
	binding := one(t, shared, "gcp:serviceaccount/iAMMember:IAMMember")
	assert.Contains(t, perimeter, "stockade-gke-shared-sandbox", "the perimeter comes last")
	assert.Contains(t, before(shared, binding), "stockade-gke-shared", "there is no workload pool before the cluster")
}

// before returns the names of all resources that come before r, at any distance.
func before(all []gketest.Resource, r gketest.Resource) []string {
	var names []string
	todo := slices.Clone(r.DependsOn)
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if slices.Contains(names, name) {
			continue
		}
		names = append(names, name)
		for _, x := range all {
			// Names are unique within a type only; one more dependency is harmless
			// here, since what is looked for has a name of its own.
			if x.Name == name {
				todo = append(todo, x.DependsOn...)
			}
		}
	}
	return names
}

func one(t *testing.T, all []gketest.Resource, typ string) gketest.Resource {
	t.Helper()
	var found []gketest.Resource
	for _, r := range all {
		if r.Type == typ {
			found = append(found, r)
		}
	}
	require.Len(t, found, 1, typ)
	return found[0]
}
