// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/property"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi/policyx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/stockade-dev/stockade/conformance/plan"
	"github.com/stockade-dev/stockade/infra/gke/gketest"
	"github.com/stockade-dev/stockade/stacks"
)

var clouds = []string{"gke", "gke-autopilot", "gke-shared"}

// example are the values of a committed stack file, and some more.
func example(t *testing.T, stack string, more map[string]string) map[string]string {
	t.Helper()
	doc, err := os.ReadFile("../Pulumi." + stack + ".yaml")
	require.NoError(t, err)
	var file struct {
		Config map[string]any `json:"config"`
	}
	require.NoError(t, yaml.Unmarshal(doc, &file))
	out := map[string]string{}
	for k, v := range file.Config {
		if s, ok := v.(string); ok {
			out[k] = s
			continue
		}
		text, err := json.Marshal(v)
		require.NoError(t, err)
		out[k] = string(text)
	}
	maps.Copy(out, more)
	return out
}

// registered are the resources of a stack as Pulumi shows them to a pack.
func registered(t *testing.T, stack string, preview bool, more map[string]string) []policyx.AnalyzerResource {
	t.Helper()
	all, err := gketest.Record(stacks.Run, gketest.Options{Stack: stack, Config: example(t, stack, more), Preview: preview})
	require.NoError(t, err)
	var out []policyx.AnalyzerResource
	for _, r := range all {
		out = append(out, policyx.AnalyzerResource{
			Type: r.Type, Name: r.Name, URN: "urn:pulumi:" + stack + "::stockade::" + r.Type + "::" + r.Name,
			Properties: properties(r.Inputs),
		})
	}
	return out
}

func properties(inputs map[string]any) property.Map { return convert(inputs).AsMap() }

func convert(v any) property.Value {
	switch v := v.(type) {
	case bool:
		return property.New(v)
	case float64:
		return property.New(v)
	case string:
		return property.New(v)
	case []any:
		out := []property.Value{}
		for _, x := range v {
			out = append(out, convert(x))
		}
		return property.New(out)
	case map[string]any:
		out := map[string]property.Value{}
		for k, x := range v {
			out[k] = convert(x)
		}
		return property.New(out)
	case nil:
		return property.Value{}
	}
	// Both recorders have a type for what is not known.
	return property.New(property.Computed)
}

// violations are what a pack reports, by "mandatory" and "advisory".
type violations map[policyx.EnforcementLevel][]string

type manager func(message string)

func (m manager) ReportViolation(message, _ string) { m(message) }

// play shows the resources to a pack as an update does, and returns what it
// reports of single ones and of all.
func play(t *testing.T, s settings, preview bool, all []policyx.AnalyzerResource) (early, late violations) {
	t.Helper()
	early, late = violations{}, violations{}
	policies := newJudge(s, preview).policies()
	for _, r := range all {
		for _, p := range policies {
			if p, ok := p.(policyx.ResourceValidationPolicy); ok {
				require.NoError(t, p.Validate(context.Background(), policyx.ResourceValidationArgs{
					Resource: r, Manager: manager(func(m string) { early[p.EnforcementLevel()] = append(early[p.EnforcementLevel()], m) }),
				}))
			}
		}
	}
	for _, p := range policies {
		if p, ok := p.(policyx.StackValidationPolicy); ok {
			require.NoError(t, p.Validate(context.Background(), policyx.StackValidationArgs{
				Resources: all, Manager: manager(func(m string) { late[p.EnforcementLevel()] = append(late[p.EnforcementLevel()], m) }),
			}))
		}
	}
	return early, late
}

const (
	mandatory = policyx.EnforcementLevelMandatory
	advisory  = policyx.EnforcementLevelAdvisory
)

var enforced = map[string]string{"stockade:perimeterEnforced": "true", "stockade:sandboxRoles": `["roles/monitoring.viewer"]`}

func of(stack string) (settings, map[string]string) {
	if stack == "gke-shared" {
		return settings{profile: plan.Profiles[stack]}, enforced
	}
	return settings{profile: plan.Profiles[stack]}, nil
}

func TestASoundStackPasses(t *testing.T) {
	for _, stack := range clouds {
		for _, preview := range []bool{true, false} {
			s, config := of(stack)
			early, late := play(t, s, preview, registered(t, stack, preview, config))
			assert.Empty(t, early, "%s: no single resource may look broken", stack)
			assert.Empty(t, late, stack)
		}
	}
}

// Each mutant of each rule, on each stack where it finds something to weaken,
// stops the update; and those that one resource shows stop it early.
func TestEveryMutantIsStopped(t *testing.T) {
	for _, stack := range clouds {
		s, config := of(stack)
		all := registered(t, stack, false, config)
		var sound plan.Graph
		for _, r := range all {
			sound.Resources = append(sound.Resources, asked(r))
		}
		for _, rule := range plan.Rules() {
			if !rule.Concerns(s.profile) {
				continue
			}
			for _, m := range rule.Mutants {
				g := sound.Clone()
				if !m.Apply(&g) {
					continue
				}
				var weak []policyx.AnalyzerResource
				for _, r := range g.Resources {
					weak = append(weak, policyx.AnalyzerResource{Type: r.Type, Name: r.Name, URN: r.Type + "::" + r.Name, Properties: properties(r.Inputs)})
				}
				early, late := play(t, s, true, weak)
				assert.Contains(t, strings.Join(late[mandatory], "\n"), rule.ID+": Breached", "%s: %s", stack, m.ID)
				isAlone := false
				for _, r := range alone() {
					isAlone = isAlone || r.ID == rule.ID
				}
				if isAlone {
					assert.Contains(t, strings.Join(early[mandatory], "\n"), rule.ID+": Breached", "%s: %s", stack, m.ID)
				}
			}
		}
	}
}

func TestADryRunOfThePerimeterWarnsWhereItIsDeclared(t *testing.T) {
	all := registered(t, "gke-shared", false, nil)
	s := settings{profile: plan.Profiles["gke-shared"], dryRun: true}
	early, late := play(t, s, false, all)
	assert.Empty(t, early)
	assert.Empty(t, late[mandatory])
	assert.Len(t, late[advisory], 1)
	s.dryRun = false
	early, late = play(t, s, false, all)
	assert.Len(t, early[mandatory], 1)
	assert.Len(t, late[mandatory], 1)
	assert.Empty(t, late[advisory])
}

func TestWhatCannotBeToldStopsAnUpdateAndNoPreview(t *testing.T) {
	s, config := of("gke")
	all := registered(t, "gke", false, config)
	for i, r := range all {
		if r.Type == "gcp:container/cluster:Cluster" {
			all[i].Properties = r.Properties.Delete("releaseChannel")
		}
	}
	early, late := play(t, s, true, all)
	assert.Empty(t, early)
	assert.Empty(t, late[mandatory])
	require.Len(t, late[advisory], 1)
	assert.Contains(t, late[advisory][0], "plan.release-channel: Inconclusive")
	_, late = play(t, s, false, all)
	assert.Len(t, late[mandatory], 1)
	assert.Empty(t, late[advisory])
}

func TestAResourceThatWasLeftOutLeavesNothingHeld(t *testing.T) {
	s, config := of("gke")
	j := newJudge(s, false)
	all := registered(t, "gke", false, config)
	g := j.graph(all)
	assert.Contains(t, g.Partial, "leaves out")
	assert.Empty(t, g.Resources)
}

func TestASecretIsNeverQuoted(t *testing.T) {
	v := value(property.New("hunter2").WithSecret(true))
	assert.Equal(t, plan.Unknown{}, v)
	assert.Equal(t, plan.Unknown{}, value(property.New(property.Computed)))
	assert.Equal(t, map[string]any{"a": []any{1.0, true, nil}}, value(property.New(map[string]property.Value{
		"a": property.New([]property.Value{property.New(1.0), property.New(true), {}}),
	})))
}

func TestTheProfileComesFromTheStack(t *testing.T) {
	read := func(stack string, config map[string]string) (s settings, err error) {
		require.NoError(t, pulumi.RunErr(func(ctx *pulumi.Context) error {
			s, err = readSettings(ctx)
			return nil
		}, pulumi.WithMocks("stockade", stack, none{}), func(info *pulumi.RunInfo) { info.Config = config }))
		return s, err
	}
	s, err := read("prod", map[string]string{"stockade:environment": "gke-shared", "stockade:throwAway": "true", "stockade:controllerImage": "x"})
	require.NoError(t, err)
	assert.True(t, s.profile.Workloads)
	assert.Equal(t, "gke-shared", s.profile.Name)
	assert.True(t, s.profile.ThrowAway)
	assert.True(t, s.dryRun, "it is one until somebody says otherwise")
	s, err = read("gke", nil)
	require.NoError(t, err)
	assert.Equal(t, plan.Profiles["gke"], s.profile)
	assert.False(t, s.dryRun)
	s, err = read("dev", nil)
	require.NoError(t, err)
	assert.Empty(t, s.profile.Name, "there is nothing to judge")
	_, err = read("prod", nil)
	assert.ErrorContains(t, err, `stockade:environment is "prod"`)
}

type none struct{}

func (none) Call(pulumi.MockCallArgs) (resource.PropertyMap, error) { return nil, nil }

func (none) NewResource(pulumi.MockResourceArgs) (string, resource.PropertyMap, error) {
	return "", nil, nil
}
