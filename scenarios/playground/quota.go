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
)

// manyPods is more than any playground of one node needs at once.
const manyPods = 36

// podQuota accepts ResourceLimit alone: the refusal that names a quota. The
// Pods ask for a node that does not exist, so that they wait and cost nothing,
// and count all the same.
func podQuota() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.pod-quota",
		Title: "Create Pods without end in the playground",
		About: fmt.Sprintf("Creates up to %d Pods of the template's that no node takes, first as they are, then Pods that end by themselves after a time, as those of the service do, "+
			"then Pods that ask for no resources, then Pods of one of the cluster's own priority classes: a quota may be for some kinds of Pods alone. Before the last of each a quota has to refuse. ", manyPods) +
			"The control creates one. All are removed again.",
		Claims: []string{"PG-04"}, Kind: suite.Guarantee, Severity: suite.Medium,
		Techniques: []string{"T1499", "T1496"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/policy/resource-quotas/"},
		Ask:        crowds,
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return []verdict.Step{crowd(ctx, env, scope{"create one Pod", "control", func(object) {}}, 1)}
		},
		Accept: []verdict.Class{verdict.ResourceLimit},
		// It takes the room that others need for their own runs.
		Exclusive: true,
		Stores:    true,
		Timeout:   60 * time.Second,
		Mutants:   []string{"playground-no-quota", "playground-quota-scope", "playground-quota-priority"},
	}
}

// scope is a kind of Pod that a quota can be for, or leave out.
type scope struct {
	name, kind string
	change     func(spec object)
}

var scopes = []scope{
	{fmt.Sprintf("create %d Pods", manyPods), "plain", func(object) {}},
	{fmt.Sprintf("create %d Pods that end by themselves", manyPods), "ending", func(spec object) {
		spec["activeDeadlineSeconds"] = int64(600)
	}},
	{fmt.Sprintf("create %d Pods that ask for no resources", manyPods), "idle", manifest.InContainers(manifest.Without("resources"))},
	// The class is on every cluster. No Pod is thrown out for theirs: a node that does
	// not exist has none.
	{fmt.Sprintf("create %d Pods of a priority class", manyPods), "urgent", manifest.Set("priorityClassName", "system-cluster-critical")},
}

// crowds ends with the first kind that no quota stops: one is enough for a breach.
func crowds(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	var steps []verdict.Step
	for _, of := range scopes {
		steps = append(steps, crowd(ctx, env, of, manyPods))
		if steps[len(steps)-1].OK {
			break
		}
	}
	return steps
}

// crowd creates Pods of one kind until one is refused, and removes them. Those of
// the kind before may still count: what refuses for them counts this one as well.
func crowd(ctx context.Context, env *suite.APIEnv, of scope, want int) verdict.Step {
	name, began := of.name, time.Now()
	var made []string
	defer func() {
		// What this cannot remove is in the runner's ledger.
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		for _, n := range made {
			_, _ = env.API.Delete(undo, "v1", "Pod", n)
		}
	}()
	for i := range want {
		pod := env.Pod()
		spec := manifest.Child(pod, "spec")
		manifest.Child(spec, "nodeSelector")["stockade.dev/nowhere"] = "true"
		of.change(spec)
		podName := fmt.Sprintf("stockade-%s-%s-%d", env.Nonce[:min(len(env.Nonce), 12)], of.kind, i)
		manifest.Child(pod, "metadata")["name"] = podName
		answer, err := env.API.Create(ctx, pod, false)
		if answer.Code == 201 || answer.Code == 200 {
			made = append(made, podName)
		}
		if step, decided := judgeCrowd(name, len(made), want, answer, err); decided {
			step.Millis = time.Since(began).Milliseconds()
			return step
		}
	}
	return verdict.Step{Name: name, Class: verdict.Unknown, Detail: "nothing was asked for"}
}

// judgeCrowd reads the answer to one more Pod. It is a pure function.
func judgeCrowd(name string, made, want int, a suite.Answer, err error) (step verdict.Step, decided bool) {
	step = verdict.Step{Name: name, Detail: fmt.Sprintf("%d Pods were created; %d %s: %s", made, a.Code, a.Reason, a.Message)}
	switch {
	case err != nil:
		step.Class, step.Detail = verdict.TransportError, err.Error()
	case a.Code == 201 || a.Code == 200:
		step.OK, step.Detail = true, fmt.Sprintf("%d Pods were created", made)
		return step, made >= want
	case a.Code == 403 && (strings.Contains(a.Message, "exceeded quota") || strings.Contains(a.Message, "failed quota")):
		// The latter is how a quota refuses a Pod that does not say what it needs.
		step.Class = verdict.ResourceLimit
	case strings.Contains(a.Message, "insufficient quota to match these scopes"):
		// There is none for Pods of the class, and the API server is told to take them
		// by a quota alone. It says so with the code of a failure of its own.
		step.Class = verdict.ResourceLimit
	default:
		step.Class = verdict.Unknown
	}
	return step, true
}
