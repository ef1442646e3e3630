// SPDX-License-Identifier: Apache-2.0

// Package gketest runs a Pulumi program without an engine and tells what it
// declared. It is for tests.
package gketest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// Unknown is an input that only the cloud will compute, or one that is secret.
type Unknown struct{}

// Resource is one resource as the engine would get it.
type Resource struct {
	// Type is Pulumi's token.
	Type, Name string
	// Inputs hold what JSON holds, and [Unknown].
	Inputs map[string]any
	// Custom tells a resource of a provider from a component.
	Custom bool
	// The options that matter for safety.
	IgnoreChanges []string
	Protect       bool
	Provider      string
	// DependsOn holds the names of the resources that come first, in order.
	DependsOn []string
}

// Options are how a program runs.
type Options struct {
	// Stack is the stack's name; "test" where it is "".
	Stack string
	// Config by full key, stockade:region. A list is its JSON.
	Config map[string]string
	// Preview leaves unknown what only the cloud computes.
	Preview bool
	// Outputs are what resources of a type compute, beside what is made up for all.
	Outputs map[string]map[string]any
}

// Record runs the program and returns what it declared, ordered by type and
// name. A program that asks the cloud for something fails.
func Record(program pulumi.RunFunc, o Options) ([]Resource, error) {
	m := &monitor{preview: o.Preview, outputs: o.Outputs, seen: map[string]Resource{}}
	if o.Stack == "" {
		o.Stack = "test"
	}
	err := pulumi.RunErr(program, pulumi.WithMocks("stockade", o.Stack, m), func(info *pulumi.RunInfo) {
		info.Config, info.DryRun = o.Config, o.Preview
	})
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(m.seen), func(a, b Resource) int {
		return strings.Compare(a.Type+"\n"+a.Name, b.Type+"\n"+b.Name)
	}), nil
}

// monitor stands for the engine and the cloud.
type monitor struct {
	preview bool
	outputs map[string]map[string]any

	mu   sync.Mutex
	seen map[string]Resource
}

// Call implements [pulumi.MockResourceMonitor].
func (m *monitor) Call(args pulumi.MockCallArgs) (resource.PropertyMap, error) {
	return nil, fmt.Errorf("the program asks the cloud for %s", args.Token)
}

// NewResource implements [pulumi.MockResourceMonitor].
func (m *monitor) NewResource(args pulumi.MockResourceArgs) (string, resource.PropertyMap, error) {
	rpc := args.RegisterRPC
	// args.Inputs lack what is unknown.
	inputs, err := plugin.UnmarshalProperties(rpc.GetObject(), plugin.MarshalOptions{KeepUnknowns: true, KeepSecrets: true})
	if err != nil {
		return "", nil, fmt.Errorf("reading the inputs of %s: %w", args.Name, err)
	}
	r := Resource{
		Type: args.TypeToken, Name: args.Name, Custom: args.Custom, Inputs: map[string]any{},
		IgnoreChanges: rpc.GetIgnoreChanges(), Protect: rpc.GetProtect(), Provider: rpc.GetProvider(),
	}
	for k, v := range inputs {
		r.Inputs[string(k)] = plain(v)
	}
	for _, urn := range rpc.GetDependencies() {
		r.DependsOn = append(r.DependsOn, urn[strings.LastIndex(urn, "::")+2:])
	}
	slices.Sort(r.DependsOn)

	m.mu.Lock()
	defer m.mu.Unlock()
	key := r.Type + "\n" + r.Name
	if _, twice := m.seen[key]; twice {
		return "", nil, fmt.Errorf("%s %q is declared twice", r.Type, r.Name)
	}
	m.seen[key] = r
	if m.preview || !args.Custom {
		return "", args.Inputs, nil
	}
	state := args.Inputs.Copy()
	if !state.HasValue("name") {
		state["name"] = resource.NewProperty(args.Name + "-0a1b2c3")
	}
	if dns, ok := dnsEndpoint(state); ok {
		dns["endpoint"] = resource.NewProperty("gke-0123.example.gke.goog")
	}
	maps.Copy(state, resource.NewPropertyMapFromMap(m.outputs[args.TypeToken]))
	return "id-of-" + args.Name, state, nil
}

// dnsEndpoint is where a cluster says its host name.
func dnsEndpoint(state resource.PropertyMap) (resource.PropertyMap, bool) {
	at := state
	for _, key := range []resource.PropertyKey{"controlPlaneEndpointsConfig", "dnsEndpointConfig"} {
		if !at[key].IsObject() {
			return nil, false
		}
		at = at[key].ObjectValue()
	}
	return at, true
}

// plain turns a value of Pulumi's into one of JSON's.
func plain(v resource.PropertyValue) any {
	switch {
	case v.IsNull():
		return nil
	case v.IsBool():
		return v.BoolValue()
	case v.IsNumber():
		return v.NumberValue()
	case v.IsString():
		return v.StringValue()
	case v.IsArray():
		out := []any{}
		for _, x := range v.ArrayValue() {
			out = append(out, plain(x))
		}
		return out
	case v.IsObject():
		out := map[string]any{}
		for k, x := range v.ObjectValue() {
			out[string(k)] = plain(x)
		}
		return out
	default:
		return Unknown{}
	}
}
