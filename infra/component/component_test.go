// SPDX-License-Identifier: Apache-2.0

package component

import (
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// group is a component of five resources, two of them a component's in it.
type group struct {
	pulumi.ResourceState
	Children
}

type thing struct{ pulumi.CustomResourceState }

func newGroup(ctx *pulumi.Context) (*group, error) {
	g, inner := &group{}, &group{}
	if err := Register(ctx, "test:a:Group", "outer", g); err != nil {
		return nil, err
	}
	if err := Register(ctx, "test:a:Group", "inner", inner, pulumi.Parent(g)); err != nil {
		return nil, err
	}
	parents := map[string]pulumi.Resource{"a": g, "b": g, "c": g, "d": inner, "e": inner}
	for _, name := range slices.Sorted(maps.Keys(parents)) {
		if err := ctx.RegisterResource("test:a:Thing", name, pulumi.Map{}, &thing{}, pulumi.Parent(parents[name])); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// dependencies returns what the resource "last" waits for, in a program that the
// scheduler is not kind to.
func dependencies(t *testing.T, wait func([]pulumi.Resource) pulumi.ResourceOption) []string {
	t.Helper()
	// With one processor the goroutine that was started last runs first.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	m := &mocks{}
	require.NoError(t, pulumi.RunErr(func(ctx *pulumi.Context) error {
		g, err := newGroup(ctx)
		if err != nil {
			return err
		}
		return ctx.RegisterResource("test:a:Thing", "last", pulumi.Map{}, &thing{}, wait([]pulumi.Resource{g}))
	}, pulumi.WithMocks("project", "stack", m)))
	return m.last
}

type mocks struct {
	mu   sync.Mutex
	last []string
}

func (m *mocks) NewResource(args pulumi.MockResourceArgs) (string, resource.PropertyMap, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if args.Name == "last" {
		for _, urn := range args.RegisterRPC.GetDependencies() {
			m.last = append(m.last, resource.URN(urn).Name())
		}
		slices.Sort(m.last)
	}
	return args.Name, args.Inputs, nil
}

func (*mocks) Call(pulumi.MockCallArgs) (resource.PropertyMap, error) { return nil, nil }

func TestAfterAComponentIsAfterAllOfItsResources(t *testing.T) {
	assert.Equal(t, []string{"a", "b", "c", "d", "e"}, dependencies(t, After))
}

func TestPulumisOwnDependsOnCanMissSome(t *testing.T) {
	// What this package is for. When this fails, it can go.
	assert.NotEqual(t, []string{"a", "b", "c", "d", "e"}, dependencies(t, func(all []pulumi.Resource) pulumi.ResourceOption { return pulumi.DependsOn(all) }))
}

func TestARegistrationChangesNoOption(t *testing.T) {
	opts := make([]pulumi.ResourceOption, 0, 4)
	require.NoError(t, pulumi.RunErr(func(ctx *pulumi.Context) error {
		return Register(ctx, "test:a:Group", "outer", &group{}, opts...)
	}, pulumi.WithMocks("project", "stack", &mocks{})))
	assert.Nil(t, opts[:1][0], "the caller's own array was not written to")
}
