// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// runtimeSocket accepts Absent alone. It asks the API server and not the Pods:
// a component has no shell to look from, and what is mounted into it the API
// server knows. Any folder of the node counts: the runtime's socket is below
// /run, and nobody here needs one. From inside of a run
// filesystem.host-mounts looks.
func runtimeSocket() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.runtime-socket",
		Title: "Find a component with the container runtime's socket",
		About: "Reads every Pod of the playground and of its service, and looks for volumes from the node. " +
			"The control finds such a volume in the suite's own control Pods by the same reading.",
		Claims: []string{"PG-10"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1611"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/security/pod-security-standards/"},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			var steps []verdict.Step
			for _, ns := range append([]string{env.Namespace}, env.Components...) {
				steps = append(steps, readPods(ctx, env, ns))
			}
			return steps
		},
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return []verdict.Step{readPods(ctx, env, env.Controls)}
		},
		Accept:  []verdict.Class{verdict.Absent},
		Timeout: 30 * time.Second,
		Mutants: []string{"playground-runtime-socket"},
	}
}

func readPods(ctx context.Context, env *suite.APIEnv, namespace string) verdict.Step {
	name := "find a volume from the node in namespace " + namespace
	if env.Do == nil {
		return verdict.Step{Name: name, Class: verdict.ToolMissing, Detail: "the target cannot be read"}
	}
	answer, err := env.Do(ctx, suite.Administrator, suite.Request{Verb: http.MethodGet, Path: core(namespace, "pods")})
	return judgePods(name, answer, err)
}

// judgePods is a pure function.
func judgePods(name string, a suite.Answer, err error) verdict.Step {
	if err != nil {
		return verdict.Step{Name: name, Class: verdict.TransportError, Detail: err.Error()}
	}
	items, ok := a.Object["items"].([]any)
	if a.Code != http.StatusOK || !ok {
		return verdict.Step{Name: name, Class: verdict.Unknown, Detail: fmt.Sprintf("%d %s", a.Code, a.Message)}
	}
	if len(items) == 0 {
		// Nothing was looked at.
		return verdict.Step{Name: name, Class: verdict.Unknown, Detail: "there is no Pod"}
	}
	var found []string
	for _, i := range items {
		pod, _ := i.(object)
		meta, _ := pod["metadata"].(object)
		spec, _ := pod["spec"].(object)
		volumes, _ := spec["volumes"].([]any)
		for _, v := range volumes {
			v, _ := v.(object)
			if host, ok := v["hostPath"].(object); ok {
				found = append(found, fmt.Sprintf("%v has %v", meta["name"], host["path"]))
			}
		}
	}
	if len(found) > 0 {
		return verdict.Step{Name: name, OK: true, Detail: strings.Join(found, ", ")}
	}
	return verdict.Step{Name: name, Class: verdict.Absent, Detail: fmt.Sprintf("none of %d Pods has one", len(items))}
}
