// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

// object is short for an object's shape.
type object = manifest.Object

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
