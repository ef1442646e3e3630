// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
	"github.com/stockade-dev/stockade/scenarios/reading"
)

// everyPod accepts Absent alone. Admission looks at a Pod when it comes in: one
// that was there before the policy was, or came in while it only took notes, runs
// on. A handler is what the node's containerd starts, whatever its class is
// called. A Pod that has ended has no process any more.
func everyPod() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.every-pod",
		Title: "Find a Pod of another runtime in the playground",
		About: "Reads every Pod of the playground that has not ended, and the handler of its runtime class, which must be gVisor's. " +
			"The control finds Pods of another runtime among the suite's own control Pods by the same reading.",
		Claims: []string{"PG-01"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1610"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/containers/runtime-class/"},
		Needs:      []suite.Feature{suite.GVisor},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return []verdict.Step{readRuntimes(ctx, env, env.Namespace)}
		},
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return []verdict.Step{readRuntimes(ctx, env, env.Controls)}
		},
		Accept:  []verdict.Class{verdict.Absent},
		Timeout: 30 * time.Second,
		Mutants: []string{"playground-other-pod"},
	}
}

func readRuntimes(ctx context.Context, env *suite.APIEnv, namespace string) verdict.Step {
	name := "find a Pod of another runtime in namespace " + namespace
	classes, step := reading.Items(ctx, env, name, "/apis/node.k8s.io/v1/runtimeclasses")
	if step != nil {
		return *step
	}
	pods, step := reading.Items(ctx, env, name, core(namespace, "pods"))
	if step != nil {
		return *step
	}
	return judgeRuntimes(name, classes, pods)
}

// judgeRuntimes is a pure function.
func judgeRuntimes(name string, classes, pods []object) verdict.Step {
	handlers := map[string]string{}
	for _, c := range classes {
		handlers[manifest.Name(c)], _ = c["handler"].(string)
	}
	var others []string
	n := 0
	for _, p := range pods {
		if manifest.Ended(p) {
			continue
		}
		n++
		class, _ := manifest.Map(p, "spec")["runtimeClassName"].(string)
		if !suite.IsGVisor(handlers[class]) {
			others = append(others, fmt.Sprintf("%s with runtime class %q", manifest.Name(p), class))
		}
	}
	switch {
	case len(others) > 0:
		return verdict.Step{Name: name, OK: true, Detail: strings.Join(others, ", ")}
	case n == 0:
		// Nothing was looked at.
		return verdict.Step{Name: name, Class: verdict.Unknown, Detail: "there is no Pod"}
	}
	return verdict.Step{Name: name, Class: verdict.Absent, Detail: fmt.Sprintf("all %d Pods are gVisor's", n)}
}
