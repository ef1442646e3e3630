// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/infra/gke"
	"github.com/stockade-dev/stockade/infra/gke/gketest"
)

func TestDefaultsAreTheSafeChoice(t *testing.T) {
	s, err := settingsOf(t, "gke", map[string]string{"stockade:project": "example-project"})
	require.NoError(t, err)
	assert.Equal(t, "stockade-gke", s.Name)
	assert.Equal(t, "us-central1", s.Region)
	assert.Equal(t, "REGULAR", s.ReleaseChannel)
	assert.False(t, s.ThrowAway)
	assert.False(t, s.ExternalControlPlane)
	assert.Equal(t, 1024, s.PodPids)
	assert.Equal(t, gke.EgressAll, s.Egress, "what the Agent Sandbox's text discloses")

	s, err = settingsOf(t, "gke-shared", example(t, "gke-shared"))
	require.NoError(t, err)
	assert.Equal(t, gke.EgressHTTPS, s.Egress)
	assert.False(t, s.PerimeterEnforced, "a dry run comes first")
	assert.Empty(t, s.SandboxRoles)
}

func TestAWrongValueIsNamedByItsKey(t *testing.T) {
	for key, values := range map[string][]string{
		"project":           {"", "No", "example.com:legacy"},
		"region":            {"europe", "us-central1-a"},
		"zones":             {`["europe-west1-b"]`, "us-central1-a", `["us-central1-"]`, `["us-central1-abc"]`},
		"name":              {"a-name-that-is-far-too-long", "-x", "X"},
		"throwAway":         {"yes", "1"},
		"releaseChannel":    {"UNSPECIFIED", "regular"},
		"maintenanceHour":   {"18", "-1", "two"},
		"secretsKey":        {"a-key", "projects/p/locations/global/keyRings/r/cryptoKeys/k", "projects/p/locations/europe-west1/keyRings/r/cryptoKeys/k"},
		"nodeRange":         {"100.64.0.0/16", "10.0.0.1/20", "10.0.0.0/7", "all", "fd00::/64"},
		"podRange":          {"10.10.0.0/16", "34.118.224.0/20"},
		"serviceRange":      {"10.20.128.0/20", "10.10.0.0/20"},
		"egress":            {"all", "none"},
		"systemMachine":     {"big", "n4-standard-4", "c4a-standard-4"},
		"sandboxMachine":    {"e2", "n4d-standard-4", "c4-standard-4"},
		"systemNodes":       {"0", "101", "2"},
		"sandboxNodes":      {"0"},
		"podPids":           {"100", "4194304"},
		"goModuleProxy":     {"", "https://modules.example.com", "localhost", "*.com", "*.example.com"},
		"egressAllow":       {"", "a.example.com", `["*"]`, `["*.com"]`, `["com"]`, `["a.example.com:80"]`, `["a.*.example.com"]`},
		"tokenIssuer":       {"issuer", "a/b/c", "sandboxes/default"},
		"sandboxRoles":      {`["roles/editor"]`},
		"projectNumber":     {"", "example-project"},
		"accessPolicy":      {"", "accessPolicies/1"},
		"operators":         {"", "[]", `["allUsers"]`, `["user:*@example.com"]`, `["domain:example.com"]`},
		"operatorRanges":    {"", "[]", `["0.0.0.0/0"]`, `["10.0.0.0/8"]`, `["::/0"]`, `["203.0.113.1"]`, `["10.1.0.0/16"]`, `["203.0.113.7/24"]`},
		"perimeterEnforced": {"on"},
	} {
		for _, v := range values {
			_, err := settingsOf(t, "gke-shared", with(t, "gke-shared", map[string]string{"stockade:" + key: v}))
			require.Error(t, err, "%s = %q", key, v)
			assert.Contains(t, err.Error(), "stockade:"+key+" ", "%s = %q", key, v)
		}
	}
}

// Google would refuse the pool, a quarter of an hour later.
func TestAMachineWithoutPersistentDisksIsRefusedWithTheReason(t *testing.T) {
	_, err := settingsOf(t, "gke", with(t, "gke", map[string]string{"stockade:sandboxMachine": "c4d-standard-4"}))
	require.ErrorContains(t, err, `stockade:sandboxMachine is "c4d-standard-4": it must be one that takes Persistent Disks`)
	for _, machine := range []string{"c3-standard-4", "n2d-standard-4", "e2-standard-4", "t2d-standard-4"} {
		_, err := settingsOf(t, "gke", with(t, "gke", map[string]string{"stockade:sandboxMachine": machine}))
		require.NoError(t, err, machine)
	}
}

// A pool's nodes are counted over all zones, and GKE begins with one in each.
func TestOneNodeNeedsOneZone(t *testing.T) {
	config := with(t, "gke", map[string]string{"stockade:systemNodes": "1"})
	_, err := settingsOf(t, "gke", config)
	require.ErrorContains(t, err, "at least 3, one for each zone: name fewer in stockade:zones")
	config["stockade:zones"] = `["us-central1-a", "us-central1-b"]`
	_, err = settingsOf(t, "gke", config)
	require.ErrorContains(t, err, "at least 2")
	config["stockade:zones"] = `["us-central1-a"]`
	s, err := settingsOf(t, "gke", config)
	require.NoError(t, err)
	assert.Equal(t, 1, s.SystemNodes)
}

func TestAllWrongValuesAreNamedAtOnce(t *testing.T) {
	_, err := settingsOf(t, "gke", map[string]string{"stockade:region": "x", "stockade:podPids": "1"})
	require.Error(t, err)
	for _, key := range []string{"stockade:project must be set", "stockade:region", "stockade:podPids"} {
		assert.Contains(t, err.Error(), key)
	}
}

func TestAnUnknownEnvironmentIsNamedWithThoseThereAre(t *testing.T) {
	_, err := gketest.Record(Run, gketest.Options{Stack: "prod"})
	require.ErrorContains(t, err, `the stack's name, which stands in for stockade:environment, is "prod": it must be one of dev, gke, gke-autopilot, gke-shared`)
	_, err = gketest.Record(Run, gketest.Options{Stack: "gke", Config: map[string]string{"stockade:environment": "eks"}})
	require.ErrorContains(t, err, `stockade:environment is "eks"`)
}

func TestAnotherStackCanBeOfAnEnvironment(t *testing.T) {
	all, err := gketest.Record(Run, gketest.Options{Stack: "team-a", Config: with(t, "gke", map[string]string{"stockade:environment": "gke"})})
	require.NoError(t, err)
	assert.Equal(t, "stockade-gke", one(t, all, "gcp:container/cluster:Cluster").Inputs["name"])
}

func TestTheStackFilesAndTheGuideKnowEveryKey(t *testing.T) {
	guide, err := os.ReadFile("../docs/gke.md")
	require.NoError(t, err)
	var keys []string
	for _, typ := range []reflect.Type{reflect.TypeFor[settings](), reflect.TypeFor[shared]()} {
		for i := range typ.NumField() {
			if key := typ.Field(i).Tag.Get("key"); key != "" {
				keys = append(keys, "stockade:"+key)
			}
		}
	}
	for _, key := range keys {
		assert.Contains(t, string(guide), "`"+key+"`")
	}
	for _, stack := range clouds {
		for key := range maps.Keys(example(t, stack)) {
			assert.True(t, slices.Contains(keys, key), "Pulumi.%s.yaml sets %s, which nothing reads", stack, key)
		}
	}
}
