// SPDX-License-Identifier: Apache-2.0

package sandbox

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

// override is something of a sandbox's that a claim may bring along, where the
// template lets it.
type override struct {
	// field of a claim's spec; bring makes its value, for a claim of the target's
	// own template.
	field string
	bring func(env *suite.APIEnv) any
	// refused is the reason by which the controller turns down such a claim, and says
	// are its words for the template's policy: there are other causes.
	refused, says string
	// in tells whether a Sandbox or its Pod, which may be nil, has what was brought.
	in func(env *suite.APIEnv, box, pod object) bool
}

// variable is one more in the environment of the first container.
var variable = override{
	field: "env", refused: "EnvVarsInjectionRejected", says: "not allowed by the template policy",
	bring: func(env *suite.APIEnv) any {
		return []any{object{"name": variableName, "value": env.Nonce}}
	},
	in: func(env *suite.APIEnv, box, pod object) bool {
		ours := func(v any) bool {
			return manifest.At(v, "name") == variableName && manifest.At(v, "value") == env.Nonce
		}
		for _, spec := range []object{manifest.Map(box, "spec", "podTemplate", "spec"), manifest.Map(pod, "spec")} {
			if slices.ContainsFunc(manifest.Containers(spec), func(c object) bool { return some(c["env"], ours) }) {
				return true
			}
		}
		return false
	},
}

const variableName = "STOCKADE_CLAIMED"

// disk takes the place of the first of the template's folders in memory: the
// controller lets a claim's disk win over a volume of the same name.
var disk = override{
	field: "volumeClaimTemplates", refused: "VolumeClaimTemplatesError", says: "disallowed by the template",
	bring: func(env *suite.APIEnv) any {
		return []any{object{"metadata": object{"name": folder(env)}, "spec": object{
			"accessModes": []any{"ReadWriteOnce"}, "resources": object{"requests": object{"storage": "1Mi"}}}}}
	},
	in: func(env *suite.APIEnv, box, pod object) bool {
		name := folder(env)
		return some(manifest.At(box, "spec", "volumeClaimTemplates"), func(v any) bool { return manifest.At(v, "metadata", "name") == name }) ||
			some(manifest.At(pod, "spec", "volumes"), func(v any) bool {
				return manifest.At(v, "name") == name && manifest.At(v, "persistentVolumeClaim") != nil
			})
	},
}

// folder is the name of the template's first emptyDir.
func folder(env *suite.APIEnv) string {
	volumes, _ := manifest.At(env.Pod(), "spec", "volumes").([]any)
	for _, v := range volumes {
		if name, ok := manifest.At(v, "name").(string); ok && manifest.At(v, "emptyDir") != nil {
			return name
		}
	}
	return "stockade"
}

// some tells whether a list has one that is as wanted.
func some(list any, wanted func(any) bool) bool {
	all, _ := list.([]any)
	return slices.ContainsFunc(all, wanted)
}

// claimEnvironment and claimVolume accept Absent alone: no sandbox came, for the
// reason that the controller has for this, or one came without what was asked for.
// A claim that the API server refuses was no claim, and says nothing of the policy.
func claimEnvironment() suite.Scenario {
	return variable.scenario(suite.Scenario{
		ID:    "sandbox.claim-environment",
		Title: "Put a variable into a sandbox's environment by a claim",
		About: "Claims a sandbox and brings a variable of its environment along: a secret that outlives the run, or the address of another metadata server. " +
			"A template may let claims do so.",
		// What is in the environment, credentials.environment-secrets looks for.
		Claims: []string{"AS-02", "KG-09"}, Severity: suite.Medium,
		Techniques: []string{"T1574.006", "T1552.007"},
		Mutants:    []string{"claim-environment-allowed", "kode-gopher-claim-environment"},
	})
}

func claimVolume() suite.Scenario {
	return disk.scenario(suite.Scenario{
		ID:    "sandbox.claim-volume",
		Title: "Put a disk under a sandbox's folder by a claim",
		About: "Claims a sandbox and brings a disk along, with the name of the template's first folder in memory, whose place it would take: with another size, and with files that outlive the sandbox. " +
			"A template may let claims do so.",
		Claims: []string{"AS-16", "KG-10"}, Severity: suite.High,
		Techniques: []string{"T1610"},
		Mutants:    []string{"claim-volume-allowed", "kode-gopher-claim-volume"},
	})
}

// scenario completes an attack by an override.
func (o override) scenario(s suite.Scenario) suite.Scenario {
	s.About += " The controller has to turn the claim down for this reason, without a Sandbox for it, or to leave out what it brings. " +
		"The control is a claim of the same template's in the same way that brings nothing, for which a Sandbox and its Pod have to come."
	s.Kind = suite.Guarantee
	s.Refs = []string{"https://pkg.go.dev/sigs.k8s.io/agent-sandbox/extensions/api/v1beta1#SandboxTemplateSpec"}
	s.Needs = []suite.Feature{suite.WarmPool}
	s.Ask = o.ask
	s.AskControl = claimNothing
	s.Stores = true
	s.Accept = []verdict.Class{verdict.Absent}
	s.Timeout = 40 * time.Second
	return s
}

func (o override) ask(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	what := "get a sandbox with the " + o.field + " of the claim's"
	return []verdict.Step{claimAnew(ctx, env, newClaim{
		what: what, name: own(env, "brings"),
		change:  func(spec object) { spec[o.field] = o.bring(env) },
		refused: o.refused, says: o.says,
		look: func(box object) verdict.Step {
			step := verdict.Step{Name: what, OK: o.in(env, box, nil), Detail: manifest.Name(box) + " has it"}
			if step.OK {
				return step
			}
			pod, err := podOf(ctx, env, box)
			switch {
			case err != nil:
				step.Class, step.Detail = verdict.Unknown, err.Error()
			case o.in(env, box, pod):
				step.OK = true
			default:
				step.Class, step.Detail = verdict.Absent, "the Pod of "+manifest.Name(box)+" came without it"
			}
			return step
		},
	})}
}

// claimNothing is the control.
func claimNothing(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	const what = "get a sandbox by a claim that brings nothing"
	return []verdict.Step{claimAnew(ctx, env, newClaim{
		what: what, name: own(env, "plain"), change: func(object) {},
		look: func(box object) verdict.Step {
			if _, err := podOf(ctx, env, box); err != nil {
				return verdict.Step{Name: what, Class: verdict.Unknown, Detail: err.Error()}
			}
			return verdict.Step{Name: what, OK: true, Detail: "the Sandbox " + manifest.Name(box) + " and its Pod"}
		},
	})}
}

// podOf waits for the Pod of a Sandbox that no pool had: it has the Sandbox's name.
// One that waits for a disk, or for a node, is there all the same.
func podOf(ctx context.Context, env *suite.APIEnv, box object) (suite.Object, error) {
	return await(ctx, env, coreAPI, "Pod", manifest.Name(box), func(suite.Object) bool { return true })
}

// newClaim is a claim of the target's template that no warm sandbox serves.
type newClaim struct {
	what, name string
	change     func(spec object)
	// refused and says are how the controller turns it down; empty where it should
	// not.
	refused, says string
	// look is asked for what came of it, once there is a Sandbox. It need not
	// run yet: what it is made of is certain before.
	look func(box object) verdict.Step
}

// claimAnew makes the claim, and takes it back. Where the controller refused it,
// that is a denial.
func claimAnew(ctx context.Context, env *suite.APIEnv, c newClaim) verdict.Step {
	unsure := func(why string) verdict.Step { return verdict.Step{Name: c.what, Class: verdict.Unknown, Detail: why} }
	template, step := onlyTemplate(ctx, env, c.what)
	if step != nil {
		return *step
	}
	if step := emptyPool(ctx, env, c.name, template); step != nil {
		return *step
	}
	defer manifest.Remove(ctx, env, extensionsAPI, "SandboxWarmPool", c.name)
	spec := object{"warmPoolRef": object{"name": c.name}}
	c.change(spec)
	a, err := env.API.Create(ctx, object{"apiVersion": extensionsAPI, "kind": "SandboxClaim", "metadata": object{"name": c.name}, "spec": spec}, false)
	if step := failed(c.what, a, err); step != nil {
		return *step
	}
	defer manifest.Remove(ctx, env, extensionsAPI, "SandboxClaim", c.name)
	for field := range spec {
		if manifest.At(a.Object, "spec", field) == nil {
			return unsure("the API server knows no field " + field + " of claims")
		}
	}
	claim, err := await(ctx, env, extensionsAPI, "SandboxClaim", c.name, func(o suite.Object) bool {
		return c.refused != "" && manifest.Condition(o, "Ready")["reason"] == c.refused || sandboxOf(o) != ""
	})
	if err != nil {
		return unsure(err.Error())
	}
	if sandboxOf(claim) == "" {
		return turnedDown(ctx, env, c, claim)
	}
	box, err := await(ctx, env, agentsAPI, "Sandbox", sandboxOf(claim), func(suite.Object) bool { return true })
	if err != nil {
		return unsure(err.Error())
	}
	return c.look(box)
}

// turnedDown is the denial, unless there is a Sandbox all the same: one that is made
// for a claim has the claim's name.
func turnedDown(ctx context.Context, env *suite.APIEnv, c newClaim, claim suite.Object) verdict.Step {
	ready := manifest.Condition(claim, "Ready")
	message, _ := ready["message"].(string)
	step := verdict.Step{Name: c.what, Class: verdict.Unknown, Detail: fmt.Sprintf("%s: %s", c.refused, message)}
	a, err := env.API.Get(ctx, agentsAPI, "Sandbox", c.name)
	switch {
	case err != nil:
		step.Class, step.Detail = verdict.TransportError, err.Error()
	case a.Code != 404:
		step.Detail += fmt.Sprintf("; of its Sandbox the API server says %d", a.Code)
	case ready["status"] == "False" && strings.Contains(message, c.says):
		step.Class = verdict.Absent
	}
	return step
}

// sandboxOf is the name of the Sandbox that a claim has got.
func sandboxOf(claim suite.Object) string {
	name, _ := manifest.At(claim, "status", "sandbox", "name").(string)
	return name
}

// onlyTemplate is the name of the target's template: no target has two.
func onlyTemplate(ctx context.Context, env *suite.APIEnv, what string) (string, *verdict.Step) {
	all, step := reading.Items(ctx, env, what, "/apis/"+extensionsAPI+"/namespaces/"+env.Namespace+"/sandboxtemplates")
	if step != nil {
		return "", step
	}
	if len(all) != 1 {
		return "", &verdict.Step{Name: what, Class: verdict.Unknown, Detail: fmt.Sprintf("the namespace has %d templates", len(all))}
	}
	return manifest.Name(all[0]), nil
}
