// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// Rename gives the object a name of this attempt's own.
func Rename(o Object, nonce string) {
	Child(o, "metadata")["name"] = "stockade-" + nonce[:min(len(nonce), 12)]
}

// DryRun asks the API server, in a dry run, to create the object under a name of
// this attempt's own. The step is OK when it would be created.
func DryRun(ctx context.Context, env *suite.APIEnv, name string, o Object) verdict.Step {
	began := time.Now()
	Rename(o, env.Nonce)
	answer, err := env.API.Create(ctx, o, true)
	step := Judge(name, answer, err)
	step.Millis = time.Since(began).Milliseconds()
	return step
}

// Judge reads the answer to a create or a change. It is a pure function.
func Judge(name string, a suite.Answer, err error) verdict.Step {
	step := verdict.Step{Name: name, Detail: fmt.Sprintf("%d %s: %s", a.Code, a.Reason, a.Message)}
	switch {
	case err != nil:
		step.Class, step.Detail = verdict.TransportError, err.Error()
	case a.Code == http.StatusOK || a.Code == http.StatusCreated:
		step.OK, step.Detail = true, "the API server takes it"
	case a.Code == http.StatusForbidden || a.Code == http.StatusUnprocessableEntity:
		// A ValidatingAdmissionPolicy answers 422 by default and 403 for the
		// reason Forbidden; who refused is to be read in the message alone.
		step.Class = verdict.AdmissionDenied
	case a.Code == 0:
		step.Class = verdict.TransportError
	default:
		step.Class = verdict.Unknown
	}
	return step
}

// Remove deletes an object that the scenario made, also when the scenario's time is
// up. What it cannot delete is in the runner's ledger, which deletes it later.
func Remove(ctx context.Context, env *suite.APIEnv, apiVersion, kind, name string) {
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, _ = env.API.Delete(undo, apiVersion, kind, name)
}
