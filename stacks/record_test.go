// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"encoding/json"
	"maps"
	"os"
	"testing"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/stockade-dev/stockade/conformance/plan"
	"github.com/stockade-dev/stockade/infra/gke/gketest"
)

// example reads the values of a committed stack file, as Pulumi hands them over.
func example(t *testing.T, stack string) map[string]string {
	t.Helper()
	doc, err := os.ReadFile("Pulumi." + stack + ".yaml")
	require.NoError(t, err)
	var file struct {
		Config map[string]any `json:"config"`
	}
	require.NoError(t, yaml.UnmarshalStrict(doc, &file))
	out := map[string]string{}
	for k, v := range file.Config {
		s, ok := v.(string)
		if !ok {
			text, err := json.Marshal(v)
			require.NoError(t, err)
			s = string(text)
		}
		out[k] = s
	}
	return out
}

// with is the example with other values; "" takes a key away.
func with(t *testing.T, stack string, more map[string]string) map[string]string {
	t.Helper()
	out := example(t, stack)
	maps.Copy(out, more)
	maps.DeleteFunc(out, func(_, v string) bool { return v == "" })
	return out
}

// record runs the program of the stack.
func record(t *testing.T, stack string, config map[string]string, preview bool) []gketest.Resource {
	t.Helper()
	all, err := gketest.Record(Run, gketest.Options{Stack: stack, Config: config, Preview: preview})
	require.NoError(t, err)
	return all
}

// graph is what the rules of a plan look at.
func graph(all []gketest.Resource) plan.Graph {
	var g plan.Graph
	for _, r := range all {
		inputs, _ := toPlan(r.Inputs).(map[string]any)
		g.Resources = append(g.Resources, plan.Resource{Type: r.Type, Name: r.Name, Inputs: inputs})
	}
	return g
}

func toPlan(v any) any {
	switch v := v.(type) {
	case gketest.Unknown:
		return plan.Unknown{}
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = toPlan(x)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = toPlan(x)
		}
		return out
	default:
		return v
	}
}

// settingsOf reads settings as the environment's program does.
func settingsOf(t *testing.T, environment string, config map[string]string) (s settings, err error) {
	t.Helper()
	_, runErr := gketest.Record(func(ctx *pulumi.Context) error {
		s, err = readSettings(ctx, environment)
		return nil
	}, gketest.Options{Stack: environment, Config: config})
	require.NoError(t, runErr)
	return s, err
}
