// SPDX-License-Identifier: Apache-2.0

package gke

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/infra/gke/gketest"
)

func TestEveryComponentSaysWhatItMust(t *testing.T) {
	for name, c := range components {
		t.Run(name, func(t *testing.T) {
			assert.Empty(t, complaints(declare(t, c.program), c.wants))
		})
	}
}

func TestComponentsHaveTheirOwnTypes(t *testing.T) {
	for name, c := range components {
		found := 0
		for _, r := range declare(t, c.program) {
			if !r.Custom {
				found++
				assert.Regexp(t, `^stockade:gke:[A-Z][A-Za-z]+$`, r.Type, name)
			}
		}
		assert.Equal(t, 1, found, name)
	}
}

// A preview of an empty project already says all that a rule asks for: only the
// ids of other resources are unknown.
func TestAPreviewKnowsWhatMattersAndAsksNobody(t *testing.T) {
	for name, c := range components {
		all, err := gketest.Record(c.program, gketest.Options{Preview: true})
		require.NoError(t, err, name)
		for _, r := range all {
			walk(r.Inputs, "", func(path string, v any) {
				if v != (gketest.Unknown{}) {
					return
				}
				last := path[strings.LastIndexByte(path, '.')+1:]
				assert.Contains(t, []string{"network", "name", "router", "managedZone", "serviceAccountId", "repository"}, last, "%s: %s %s", name, r.Type, path)
			})
		}
	}
}

// walk visits every value below v.
func walk(v any, path string, visit func(path string, v any)) {
	switch x := v.(type) {
	case obj:
		for k := range x {
			walk(x[k], path+"."+k, visit)
		}
	case []any:
		for i := range x {
			walk(x[i], path, visit)
		}
	default:
		visit(strings.TrimPrefix(path, "."), v)
	}
}

func TestAnUpgradeByTheChannelIsNoChange(t *testing.T) {
	cluster := find(t, declare(t, components["standard cluster"].program), tCluster, "x")
	for _, key := range []string{"minMasterVersion", "nodeVersion", "nodePools", "nodeConfig", "initialNodeCount"} {
		assert.Contains(t, cluster.IgnoreChanges, key)
	}
	for _, name := range []string{"x-system", "x-sandbox"} {
		pool := find(t, declare(t, components["pools"].program), tPool, name)
		for _, key := range []string{"version", "nodeCount", "initialNodeCount"} {
			assert.Contains(t, pool.IgnoreChanges, key)
		}
	}
}

func TestPulumiItselfProtectsAProtectedCluster(t *testing.T) {
	assert.True(t, find(t, declare(t, components["standard cluster"].program), tCluster, "x").Protect)
	args := clusterArgs
	args.Protected = false
	cluster := find(t, declare(t, decl(NewCluster, args)), tCluster, "x")
	assert.False(t, cluster.Protect)
	assert.Equal(t, false, cluster.Inputs["deletionProtection"])
}

func TestSwitchesOfTheClusterAreThoseOfItsArgs(t *testing.T) {
	args := clusterArgs
	args.FQDNPolicies, args.External, args.Zones = false, true, nil
	cluster := find(t, declare(t, decl(NewCluster, args)), tCluster, "x")
	assert.Equal(t, false, cluster.Inputs["enableFqdnNetworkPolicy"])
	external, _ := at(cluster.Inputs, "controlPlaneEndpointsConfig.dnsEndpointConfig.allowExternalTraffic")
	assert.Equal(t, true, external)
	assert.NotContains(t, cluster.Inputs, "nodeLocations")
}

func TestAnUnknownKindOfEgressIsTheNarrowOne(t *testing.T) {
	public := find(t, declare(t, decl(NewFirewall, firewallArgs(""))), tFirewall, "x-egress-public")
	assert.Equal(t, []any{obj{"protocol": "tcp", "ports": texts("443")}}, public.Inputs["allows"])
}

func TestADeniedRuleAllowsNothing(t *testing.T) {
	for _, r := range declare(t, decl(NewFirewall, firewallArgs(EgressAll))) {
		if r.Type == tFirewall {
			assert.NotEqual(t, r.Inputs["allows"] != nil, r.Inputs["denies"] != nil, "%s does one of the two", r.Name)
			assert.NotContains(t, r.Inputs, "targetTags", "it is for every instance")
		}
	}
}

func find(t *testing.T, all []gketest.Resource, typ, name string) gketest.Resource {
	t.Helper()
	for _, r := range all {
		if r.Type == typ && r.Name == name {
			return r
		}
	}
	require.Fail(t, "there is no "+typ+" "+name)
	return gketest.Resource{}
}
