// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

// taint is the key that GKE puts on the nodes of a gVisor pool, and that our
// own nodes carry too.
const taint = "sandbox.gke.io/runtime"

// nodeTaint accepts Unschedulable alone, and only for a taint: a Pod that waits
// for CPU, or for a node with that label, says nothing about who may use the
// node. Newer schedulers no longer print which taint it was; that it was this
// one is what the control shows, which differs in nothing but its toleration.
//
// A Pod with spec.nodeName passes the scheduler by, and a NoSchedule taint with
// it. That takes the right to create Pods, which a tenant of Agent Sandbox does
// not have.
func nodeTaint() suite.Scenario {
	return suite.Scenario{
		ID:    "admission.sandbox-node-taint",
		Title: "Schedule an ordinary Pod on a gVisor node",
		About: "An ordinary Pod, on runc, asks for a node that is kept for sandboxes, without tolerating the nodes' taint. " +
			"The scheduler has to leave it pending and name the taint. The control is the same Pod with the toleration, which gets the node. " +
			"So what is shown is narrower than the claim: a Pod lands there only if it tolerates the taint. That a Pod which says so " +
			"is a sandbox, nothing here demands; it takes the right to create Pods, which a tenant of Agent Sandbox does not have.",
		Claims:     []string{"AS-13"},
		Kind:       suite.Guarantee,
		Techniques: []string{"T1610"},
		Severity:   suite.Medium,
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return []verdict.Step{schedule(ctx, env, "an ordinary Pod without the toleration", false)}
		},
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return []verdict.Step{schedule(ctx, env, "the same Pod with the toleration", true)}
		},
		Stores:  true,
		Accept:  []verdict.Class{verdict.Unschedulable},
		Timeout: 40 * time.Second,
		Mutants: []string{"node-untainted"},
	}
}

// schedule creates an ordinary Pod for the gVisor nodes, waits until the
// scheduler has spoken, and takes the Pod away. OK means that it got a node.
func schedule(ctx context.Context, env *suite.APIEnv, name string, tolerate bool) verdict.Step {
	pod := ordinary(env.Pod(), tolerate)
	suffix := "plain"
	if tolerate {
		suffix = "control"
	}
	manifest.Rename(pod, env.Nonce)
	meta := manifest.Child(pod, "metadata")
	podName := fmt.Sprintf("%v-%s", meta["name"], suffix)
	meta["name"] = podName

	answer, err := env.API.Create(ctx, pod, false)
	if step := manifest.Judge(name, answer, err); !step.OK {
		return step
	}
	defer manifest.Remove(ctx, env, "v1", "Pod", podName)
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		answer, err := env.API.Get(ctx, "v1", "Pod", podName)
		if err == nil && answer.Code == 200 {
			if step, decided := scheduled(name, answer.Object); decided {
				return step
			}
		}
		select {
		case <-ctx.Done():
			return verdict.Step{Name: name, Class: verdict.Unknown, Detail: "the scheduler said nothing in time"}
		case <-tick.C:
		}
	}
}

// ordinary turns a sandbox Pod into one that is none: no RuntimeClass, and the
// label that network policies select left out.
func ordinary(pod suite.Object, tolerate bool) suite.Object {
	manifest.Child(pod, "metadata")["labels"] = object{"stockade.dev/role": "ordinary"}
	spec := manifest.Child(pod, "spec")
	for _, field := range []string{"runtimeClassName", "tolerations", "nodeName", "affinity"} {
		delete(spec, field)
	}
	spec["nodeSelector"] = object{taint: "gvisor"}
	if tolerate {
		spec["tolerations"] = []any{object{"key": taint, "operator": "Exists", "effect": "NoSchedule"}}
	}
	return pod
}

// scheduled reads what the scheduler decided, if it did.
func scheduled(name string, pod suite.Object) (step verdict.Step, decided bool) {
	if node, _ := manifest.At(pod, "spec", "nodeName").(string); node != "" {
		return verdict.Step{Name: name, OK: true, Detail: "it was put on " + node}, true
	}
	c := manifest.Condition(pod, "PodScheduled")
	if c["status"] != "False" || c["reason"] != "Unschedulable" {
		return verdict.Step{}, false
	}
	message, _ := c["message"].(string)
	step = verdict.Step{Name: name, Class: verdict.Unschedulable, Detail: message}
	if !taintedAway(message) {
		step.Class = verdict.Unknown
		step.Detail = "unschedulable, but not for the taint: " + message
	}
	return step, true
}

// taintedAway tells whether a node was left out for a taint: this one, where
// the scheduler names them ("untolerated taint {key: value}").
func taintedAway(message string) bool {
	_, after, found := strings.Cut(message, "untolerated taint")
	if !found {
		return false
	}
	if strings.HasPrefix(strings.TrimSpace(after), "{") {
		return strings.Contains(message, "{"+taint+":")
	}
	return true
}
