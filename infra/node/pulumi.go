// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"path/filepath"
)

// Pulumi is where the programs of PulumiComponents are.
type Pulumi struct {
	// Engine is the path of pulumi, the command line with the engine in it.
	Engine string
	// Kubernetes is the path of pulumi-resource-kubernetes, which goes by the
	// version KubernetesProvider.
	Kubernetes string
}

// BuildPulumi builds the engine and the Kubernetes provider, unless they are
// there. It takes ten to twenty minutes on two cores and needs no rights; its errors
// and its cancellation are those of [Build].
func BuildPulumi(ctx context.Context, o Options) (Pulumi, error) {
	b, err := preparePulumi(ctx, o)
	if err != nil {
		return Pulumi{}, err
	}
	if tools, ok := b.pulumi(); ok {
		return tools, nil
	}
	if b.lock, err = acquire(ctx, filepath.Join(b.Home, "build.lock"), o.Progress); err != nil {
		return Pulumi{}, err
	}
	err = sweep(b.binDir())
	if err == nil {
		err = b.buildComponents(ctx, PulumiComponents())
	}
	if err := errors.Join(err, b.lock.release()); err != nil {
		return Pulumi{}, err
	}
	tools, ok := b.pulumi()
	if !ok {
		return Pulumi{}, errors.New("checking what was built: a part is missing again; is another program cleaning " + b.Home + "?")
	}
	return tools, nil
}

// PulumiTools returns what an earlier BuildPulumi with the same sources made, and
// false when any part of it is missing. It builds nothing.
func PulumiTools(ctx context.Context, o Options) (Pulumi, bool, error) {
	b, err := preparePulumi(ctx, o)
	if err != nil {
		return Pulumi{}, false, err
	}
	tools, ok := b.pulumi()
	return tools, ok, nil
}

// preparePulumi is prepare for the components of Pulumi alone.
func preparePulumi(ctx context.Context, o Options) (*builder, error) {
	return prepareComponents(ctx, o, PulumiComponents())
}

// prepareComponents is prepare for some components, and nothing made of them.
func prepareComponents(ctx context.Context, o Options, components []Component) (*builder, error) {
	o, err := o.resolve()
	if err != nil {
		return nil, err
	}
	b := &builder{Options: o, rep: o.Progress, moduleDirs: map[string]string{}}
	if b.tc, err = readToolchain(ctx, o.Source); err != nil {
		return nil, err
	}
	return b, b.keyComponents(components) //nolint:gocritic // b is a pointer
}

func (b *builder) pulumi() (Pulumi, bool) {
	tools := Pulumi{
		Engine:     b.components["pulumi"].path("pulumi"),
		Kubernetes: b.components["pulumi-kubernetes"].path("pulumi-resource-kubernetes"),
	}
	return tools, b.components["pulumi"].complete() && b.components["pulumi-kubernetes"].complete()
}
