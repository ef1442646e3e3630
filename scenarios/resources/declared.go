// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
	"github.com/stockade-dev/stockade/scenarios/reading"
)

// declaredLimits accepts Confined alone: a limit is there, and is no higher than it
// may be. What is attacked takes its bound from the declaration, or would have to
// fill the node's disk: kubelets only look at that now and then.
func declaredLimits() suite.Scenario {
	return suite.Scenario{
		ID:    "resources.declared-limits",
		Title: "Find a limit that a sandbox does not have",
		About: "Reads what the running sandbox's Pod declares: limits on CPU and memory, each no higher than the deployment's text lets it be (half a core and 512 MiB in our own), and on " +
			"the node's disk (128 MiB, for logs). A higher one would be kept just as well, so that trying it shows nothing. A template of your own may have others, and none on the disk. " +
			"The control asks, in a dry run, for the same Pod without limits, and finds by the same reading that it has none.",
		Claims: []string{"AS-08", "AS-09"}, Kind: suite.Guarantee, Severity: suite.Medium,
		Techniques: []string{"T1499", "T1496"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/"},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			if env.Live == "" {
				return []verdict.Step{{Name: "read the running sandbox", Class: verdict.ToolMissing, Detail: "none runs"}}
			}
			pod, step := reading.Object(ctx, env, "read the running sandbox", "/api/v1/namespaces/"+env.Namespace+"/pods/"+env.Live)
			if step != nil {
				return []verdict.Step{*step}
			}
			var steps []verdict.Step
			for _, b := range bounds(env) {
				steps = append(steps, b.judge(manifest.Map(pod, "spec")))
			}
			return steps
		},
		AskControl: findNoLimits,
		Live:       true,
		Accept:     []verdict.Class{verdict.Confined},
		Timeout:    30 * time.Second,
		Mutants: []string{"memory-limit-raised", "cpu-limit-raised", "no-storage-limit",
			"playground-memory-raised", "playground-cpu-raised", "playground-no-storage-limit"},
	}
}

// bound is the most of a resource that a Pod may declare; 0 is any.
type bound struct {
	resource string
	most     float64
}

func bounds(env *suite.APIEnv) []bound {
	most := env.Site.Most
	all := []bound{{"cpu", most.CPU}, {"memory", float64(most.Memory)}}
	if most.Storage > 0 {
		all = append(all, bound{"ephemeral-storage", float64(most.Storage)})
	}
	return all
}

// judge tells whether a Pod has more of the resource than it may. A container without
// a limit has all of the node's. Those that run before the others are counted with
// them. It is a pure function.
func (b bound) judge(spec suite.Object) verdict.Step {
	step := verdict.Step{Name: "take more " + b.resource + " than a sandbox may have"}
	if manifest.At(spec, "resources", "limits", b.resource) != nil {
		step.Class, step.Detail = verdict.Unknown, "the Pod as a whole has a limit, which is not read"
		return step
	}
	total, containers := 0.0, manifest.Containers(spec)
	if len(containers) == 0 {
		step.Class, step.Detail = verdict.Unknown, "the Pod has no containers"
		return step
	}
	all, _ := spec["initContainers"].([]any)
	for _, c := range containers {
		all = append(all, c)
	}
	for _, c := range all {
		limit := manifest.At(c, "resources", "limits", b.resource)
		if limit == nil {
			step.OK, step.Detail = true, fmt.Sprintf("container %v has no limit on it", manifest.At(c, "name"))
			return step
		}
		n, ok := manifest.Quantity(limit)
		switch {
		case !ok:
			step.Class, step.Detail = verdict.Unknown, fmt.Sprintf("the limit %v is not understood", limit)
			return step
		case n <= 0:
			step.OK, step.Detail = true, "the limit is 0, which is none"
			return step
		}
		total += n
	}
	if b.most > 0 && total > b.most {
		step.OK, step.Detail = true, fmt.Sprintf("the limit is %g, and %g is the most that it may be", total, b.most)
		return step
	}
	step.Class, step.Detail = verdict.Confined, fmt.Sprintf("the limit is %g", total)
	return step
}

// findNoLimits is the control.
func findNoLimits(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	const name = "find a Pod without limits"
	if env.Do == nil {
		return []verdict.Step{{Name: name, Class: verdict.ToolMissing, Detail: "the target cannot be asked"}}
	}
	pod := env.Pod()
	manifest.Rename(pod, env.Nonce)
	manifest.InContainers(manifest.Without("resources"))(manifest.Child(pod, "spec"))
	answer, err := env.Do(ctx, suite.Administrator, suite.Request{Verb: http.MethodPost, Path: "/api/v1/namespaces/" + env.Namespace + "/pods", Body: pod})
	if step := manifest.Judge(name, answer, err); !step.OK {
		step.Class = verdict.Unknown // a refusal denies nothing here
		return []verdict.Step{step}
	}
	var steps []verdict.Step
	for _, b := range bounds(env) {
		steps = append(steps, b.judge(manifest.Map(answer.Object, "spec")))
	}
	return steps
}
