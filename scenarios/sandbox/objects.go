// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// object is short for an object's shape.
type object = map[string]any

// at walks into nested objects; nil when the way is not there.
func at(o any, path ...string) any {
	for _, field := range path {
		m, ok := o.(object)
		if !ok {
			return nil
		}
		o = m[field]
	}
	return o
}

// failed turns an answer that is not a success into a step, or returns nil.
// What the API server refuses here is the suite's own doing, so it is never
// evidence.
func failed(name string, a suite.Answer, err error) *verdict.Step {
	switch {
	case err != nil:
		return &verdict.Step{Name: name, Class: verdict.TransportError, Detail: err.Error()}
	case a.Code == 200 || a.Code == 201:
		return nil
	default:
		return &verdict.Step{Name: name, Class: verdict.Unknown, Detail: fmt.Sprintf("%d %s: %s", a.Code, a.Reason, a.Message)}
	}
}

// remove deletes an object that the scenario made, also when its time is up.
// What it cannot remove is in the runner's ledger.
func remove(ctx context.Context, env *suite.APIEnv, apiVersion, kind, name string) {
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, _ = env.API.Delete(undo, apiVersion, kind, name)
}

// await gets an object until ok says yes. The error is ctx's.
func await(ctx context.Context, env *suite.APIEnv, apiVersion, kind, name string, ok func(suite.Object) bool) (suite.Object, error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		a, err := env.API.Get(ctx, apiVersion, kind, name)
		if err == nil && a.Code == 200 && ok(a.Object) {
			return a.Object, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for %s %s (last answer %d %s): %w", kind, name, a.Code, a.Message, ctx.Err())
		case <-tick.C:
		}
	}
}

// pollEvery is also the resolution of the times measured.
const pollEvery = 50 * time.Millisecond

// own returns a name of this attempt's own.
func own(env *suite.APIEnv, what string) string {
	return "stockade-" + what + "-" + env.Nonce[:min(len(env.Nonce), 10)]
}
