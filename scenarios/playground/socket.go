// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
	"github.com/stockade-dev/stockade/scenarios/reading"
)

// runtimeSocket accepts Absent alone. It asks the API server and not the Pods:
// a component has no shell to look from, and what is mounted into it the API
// server knows. Any folder of the node counts: the runtime's socket is below
// /run, and nobody here needs one. So do a disk, which may be such a folder, and
// the node's namespaces and privilege, by which the socket is reached without a
// mount. From inside of a run filesystem.host-mounts looks.
func runtimeSocket() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.runtime-socket",
		Title: "Find a component with the container runtime's socket",
		About: "Reads every Pod of the playground and of its service, and looks for volumes that could be of the node, for the node's namespaces and for privilege. " +
			"The control finds such a volume in the suite's own control Pods by the same reading.",
		Claims: []string{"PG-10"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1611"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/security/pod-security-standards/"},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			if len(env.Components) == 0 {
				return []verdict.Step{{Name: "find the target's own programs", Class: verdict.ToolMissing, Detail: "the target names none"}}
			}
			var steps []verdict.Step
			for _, ns := range append([]string{env.Namespace}, env.Components...) {
				steps = append(steps, readPods(ctx, env, ns))
			}
			return steps
		},
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return []verdict.Step{readPods(ctx, env, env.Controls)}
		},
		Live:    true, // one run there has to be
		Accept:  []verdict.Class{verdict.Absent},
		Timeout: 30 * time.Second,
		Mutants: []string{"playground-runtime-socket", "playground-component-socket"},
	}
}

func readPods(ctx context.Context, env *suite.APIEnv, namespace string) verdict.Step {
	name := "find a way to the node in namespace " + namespace
	pods, step := reading.Items(ctx, env, name, core(namespace, "pods"))
	if step != nil {
		return *step
	}
	return judgePods(name, pods)
}

// judgePods is a pure function.
func judgePods(name string, pods []object) verdict.Step {
	var found []string
	running := 0
	for _, pod := range pods {
		if manifest.Map(pod, "status")["phase"] == "Running" {
			running++
		}
		for _, way := range waysToTheNode(manifest.Map(pod, "spec")) {
			found = append(found, manifest.Name(pod)+" has "+way)
		}
	}
	switch {
	case len(found) > 0:
		return verdict.Step{Name: name, OK: true, Detail: strings.Join(found, ", ")}
	case running == 0:
		// What does not run was not looked at.
		return verdict.Step{Name: name, Class: verdict.Unknown, Detail: fmt.Sprintf("none of %d Pods runs", len(pods))}
	}
	return verdict.Step{Name: name, Class: verdict.Absent, Detail: fmt.Sprintf("none of %d Pods has one", len(pods))}
}

func waysToTheNode(spec object) (found []string) {
	volumes, _ := spec["volumes"].([]any)
	for _, v := range volumes {
		v, _ := v.(object)
		for kind := range v {
			switch {
			case kind == "name" || !manifest.MayBeTheNodes(kind):
			case kind == "hostPath":
				found = append(found, fmt.Sprint(manifest.Map(v, kind)["path"]))
			default:
				found = append(found, "a volume of the kind "+kind)
			}
		}
	}
	for _, field := range []string{"hostPID", "hostIPC", "hostNetwork"} {
		if spec[field] == true {
			found = append(found, field)
		}
	}
	for _, kind := range []string{"initContainers", "containers", "ephemeralContainers"} {
		list, _ := spec[kind].([]any)
		for _, c := range list {
			if c, _ := c.(object); manifest.Map(c, "securityContext")["privileged"] == true {
				found = append(found, fmt.Sprintf("the privileged container %v", c["name"]))
			}
		}
	}
	slices.Sort(found)
	return found
}
