// SPDX-License-Identifier: Apache-2.0

// Package reading looks at what the API server has stored of a deployment's walls:
// its network policies, its admission policies, and the rights of its accounts. An
// attack tries some ways through a wall; a hole beside all of them stays unseen, and
// the text of the wall shows it. What is written in a way that is not understood here
// is no evidence.
package reading

import (
	"context"
	"fmt"
	"net/http"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

// object is short for an object's shape.
type object = manifest.Object

// get asks the API server as the administrator; the step tells why there is no
// answer.
func get(ctx context.Context, env *suite.APIEnv, name, path string) (suite.Answer, *verdict.Step) {
	if env.Do == nil {
		return suite.Answer{}, &verdict.Step{Name: name, Class: verdict.ToolMissing, Detail: "the target cannot be read"}
	}
	answer, err := env.Do(ctx, suite.Administrator, suite.Request{Verb: http.MethodGet, Path: path})
	if err != nil {
		return suite.Answer{}, &verdict.Step{Name: name, Class: verdict.TransportError, Detail: err.Error()}
	}
	return answer, nil
}

// Object reads one object as the administrator; the step tells why it could not.
func Object(ctx context.Context, env *suite.APIEnv, name, path string) (suite.Object, *verdict.Step) {
	answer, step := get(ctx, env, name, path)
	if step != nil {
		return nil, step
	}
	return objectIn(answer, name, path)
}

func objectIn(answer suite.Answer, name, path string) (suite.Object, *verdict.Step) {
	if answer.Code != http.StatusOK || answer.Object == nil {
		return nil, &verdict.Step{Name: name, Class: verdict.Unknown, Detail: fmt.Sprintf("%s: %d %s", path, answer.Code, answer.Message)}
	}
	return answer.Object, nil
}

// Items reads a list.
func Items(ctx context.Context, env *suite.APIEnv, name, path string) ([]suite.Object, *verdict.Step) {
	return list(ctx, env, name, path, "items")
}

// list is Items of what has its list in another field.
func list(ctx context.Context, env *suite.APIEnv, name, path, field string) ([]suite.Object, *verdict.Step) {
	answer, step := get(ctx, env, name, path)
	if step != nil {
		return nil, step
	}
	return listIn(answer, name, path, field)
}

func listIn(answer suite.Answer, name, path, field string) ([]suite.Object, *verdict.Step) {
	o, step := objectIn(answer, name, path)
	if step != nil {
		return nil, step
	}
	if _, ok := o[field].([]any); !ok {
		return nil, &verdict.Step{Name: name, Class: verdict.Unknown, Detail: fmt.Sprintf("%s: the answer has no %s", path, field)}
	}
	return objects(o, field), nil
}

// objects are those of a list in a field.
func objects(o suite.Object, field string) []suite.Object {
	all, _ := o[field].([]any)
	out := make([]suite.Object, 0, len(all))
	for _, x := range all {
		x, _ := x.(object)
		out = append(out, x)
	}
	return out
}

// texts are the texts of a list in a field.
func texts(o suite.Object, field string) []string {
	all, _ := o[field].([]any)
	out := make([]string, 0, len(all))
	for _, x := range all {
		out = append(out, fmt.Sprint(x))
	}
	return out
}
