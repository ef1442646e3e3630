// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil/rpcerror"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
)

// incompleteID is the id of a cluster that did not come up, but of which
// something may stand. It is no cluster's UID, so that the next `pulumi up`
// replaces the resource, and `pulumi destroy` removes what there is.
const incompleteID = "incomplete"

// Exit codes of the stockade command: it did not understand the words, and it
// lacks something or nothing is there. It has changed nothing then.
const (
	exitUsage      = 2
	exitIncomplete = 3
)

// lookAfter bounds the look at a place after the command has failed.
const lookAfter = time.Minute

// operation is one call that runs the command.
type operation struct {
	p      *Provider
	ctx    context.Context
	done   func()
	inputs resource.PropertyMap
	urn    string
}

// operation ends with the call, with Cancel, and after timeout seconds where that
// is not 0.
func (p *Provider) operation(ctx context.Context, urn string, in resource.PropertyMap, timeout float64) *operation {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(p.ctx, cancel)
	end := cancel
	if timeout > 0 {
		ctx, end = context.WithTimeout(ctx, time.Duration(timeout*float64(time.Second)))
	}
	return &operation{p: p, ctx: ctx, done: func() { stop(); end(); cancel() }, inputs: in, urn: urn}
}

func (o *operation) run(ctx context.Context, args ...string) ([]byte, error) {
	home := ""
	if v := o.inputs[propHome]; v.IsString() {
		home = v.StringValue()
	}
	return o.p.cli.Run(ctx, home, func(line string) {
		if o.p.o.Status != nil {
			o.p.o.Status(o.urn, line)
		}
	}, args...)
}

var errNoPlace = errors.New("there is no cluster")

// look asks where the cluster is; errNoPlace says that there is none.
func (o *operation) look(ctx context.Context) (place, error) {
	data, err := o.run(ctx, "place")
	var failed *ExitError
	if errors.As(err, &failed) && failed.Code == exitIncomplete {
		return place{}, errNoPlace
	}
	if err != nil {
		return place{}, err
	}
	return decodePlace(data)
}

// left names the layers of a place without a cluster that stand all the same.
func (o *operation) left() ([]string, error) {
	data, err := o.run(o.ctx, "status", "--json")
	var failed *ExitError
	// Not all of it is up: that is known.
	if err != nil && (!errors.As(err, &failed) || failed.Code != exitIncomplete) {
		return nil, err
	}
	return decodeLeft(data)
}

// up brings the cluster up. Beside an error, began says that something may stand.
func (o *operation) up() (at place, began bool, err error) {
	args := []string{"up", "--bare"}
	chosen, err := names(o.inputs, propProfiles)
	if err != nil {
		return place{}, false, err
	}
	if len(chosen) > 0 {
		args = append(args, "--profile", strings.Join(chosen, ","))
	}
	if _, err := o.run(o.ctx, args...); err != nil {
		var failed *ExitError
		ran := errors.As(err, &failed)
		return place{}, ran && failed.Code != exitUsage && failed.Code != exitIncomplete, err
	}
	at, err = o.look(o.ctx)
	if err == nil && !at.Healthy {
		err = fmt.Errorf("it is up and not healthy: %s", at.Reason)
	}
	return at, true, err
}

// converge is Create and Update: the cluster, or the error to answer with. A
// cluster that did not come up is part of that error, and so of the state, under
// the given id or, where that is empty, under what is known of its own.
func (o *operation) converge(id string) (place, error) {
	const what = "bringing up the cluster"
	at, began, err := o.up()
	if err == nil {
		return at, nil
	}
	if o.ctx.Err() != nil {
		err = fmt.Errorf("interrupted: %w", err)
	}
	if !began {
		return place{}, failure(what, err)
	}
	// The operation may be over, and the question must be asked all the same.
	ctx, end := context.WithTimeout(context.WithoutCancel(o.ctx), lookAfter)
	defer end()
	at, lookErr := o.look(ctx)
	if lookErr != nil {
		at = place{}
	}
	// The cluster of the state is there and well, and only its update has failed or
	// was interrupted. The error alone makes the engine try again. If the cluster
	// were recorded as broken, the next update would delete it with all that is
	// deployed in it.
	if id == "" || at.UID != id {
		at.Healthy = false
	}
	if at.Reason == "" && !at.Healthy {
		at.Reason = "it did not come up"
	}
	if id == "" {
		id = cmp.Or(at.UID, incompleteID)
	}
	props, marshalErr := marshal(at.outputs(o.inputs))
	if marshalErr != nil {
		return place{}, failure(what, errors.Join(err, marshalErr))
	}
	return place{}, rpcerror.WithDetails(failure(what, err), &pulumirpc.ErrorResourceInitFailed{
		Id: id, Properties: props, Reasons: []string{fmt.Sprintf("%s: %v", what, err)},
	})
}
