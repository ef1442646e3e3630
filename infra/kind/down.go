// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/stockade-dev/stockade/infra/progress"
)

// Down removes the cluster's nodes and what Up has written about it. The engine
// goes on. A cluster that is not there is no error.
func Down(ctx context.Context, o Options) error {
	o, err := o.orDefaults()
	if err != nil {
		return err
	}
	if err := o.remove(ctx); err != nil {
		return fmt.Errorf("removing the cluster: %w", err)
	}
	return nil
}

// giveUp removes a cluster that could not be finished, also after a Ctrl-C.
func (o Options) giveUp(ctx context.Context, rep *progress.Reporter) (err error) {
	done := rep.Step("removing the half-made cluster")
	defer func() { done("", err) }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Timeouts.Remove)
	defer cancel()
	return o.remove(ctx)
}

// remove removes nodes, kubeconfig and identity. It does not use kind, so that
// it works from outside the seal, and on nodes that kind would not recognise. With
// a context that has ended it leaves everything as it is.
func (o Options) remove(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for _, path := range []string{o.identityPath(), o.KubeconfigPath(), o.KubeconfigPath() + ".lock"} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if o.Engine.Ping(ctx) != nil {
		// Without an engine there are no nodes. Where only ctx has ended there may
		// be some, and the error says so.
		return context.Cause(ctx)
	}
	ids, err := o.Engine.Docker(ctx, "ps", "--all", "--quiet", "--filter", o.nodeFilter())
	if err != nil || ids == "" {
		return err
	}
	_, err = o.Engine.Docker(ctx, append([]string{"rm", "--force", "--volumes"}, strings.Fields(ids)...)...)
	return err
}
