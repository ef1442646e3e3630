// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

const agentsAPI = "agents.x-k8s.io/v1beta1"

// rejectUpdate asks for every rule once more, by the other way to the same
// object: a policy that looks at what is created, and not at what it becomes, is
// passed by a compliant Sandbox that is changed afterwards. The Sandbox that is
// changed is suspended, so that it has no Pod, and each change is a dry run.
// Accepted is what [rule.scenario] accepts.
func rejectUpdate() suite.Scenario {
	return suite.Scenario{
		ID:    "admission.reject-update",
		Title: "Change a sandbox into one that would not be admitted",
		About: "Creates a compliant Sandbox, suspended, and asks to change it in dry runs: for each rule of the policy into one that breaks " +
			"this rule alone. The control asks for a change that breaks none, which has to be taken.",
		Claims:     []string{"AS-10"},
		Kind:       suite.Guarantee,
		Techniques: []string{"T1610"},
		Severity:   suite.Critical,
		Needs:      []suite.Feature{suite.Admission},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return changed(ctx, env, rules)
		},
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return changed(ctx, env, []rule{{id: "none", cases: []variant{{"a change that breaks no rule", func(pod object) {
				pod["terminationGracePeriodSeconds"] = int64(7)
			}}}}})
		},
		Accept:  []verdict.Class{verdict.AdmissionDenied},
		Stores:  true,
		Timeout: 40 * time.Second,
		Mutants: []string{"admission-create-only"},
	}
}

// changed makes a Sandbox, asks for the first case of each rule, and takes the
// Sandbox away.
func changed(ctx context.Context, env *suite.APIEnv, rules []rule) []verdict.Step {
	obj := env.Sandbox()
	manifest.Rename(obj, env.Nonce)
	manifest.Child(obj, "spec")["operatingMode"] = "Suspended"
	name := manifest.Name(obj)
	answer, err := env.API.Create(ctx, obj, false)
	if step := manifest.Judge("create the Sandbox to be changed", answer, err); !step.OK {
		step.Class = verdict.Unknown // nothing was changed, whoever refused
		return []verdict.Step{step}
	}
	defer manifest.Remove(ctx, env, agentsAPI, "Sandbox", name)
	steps := make([]verdict.Step, 0, len(rules))
	for _, r := range rules {
		step := r.own(change(ctx, env, name, r.cases[0]))
		step.Name = r.id + ": " + step.Name
		steps = append(steps, step)
	}
	return steps
}

// change reads the Sandbox as it is and asks for one change. The controller
// writes its status meanwhile, and an answer to an old version is a conflict:
// admission was not asked then.
func change(ctx context.Context, env *suite.APIEnv, name string, v variant) verdict.Step {
	began := time.Now()
	var step verdict.Step
	for range 5 {
		answer, err := env.API.Get(ctx, agentsAPI, "Sandbox", name)
		if step = manifest.Judge(v.name, answer, err); !step.OK {
			step.Class = verdict.Unknown // it is the change that is asked about
			return step
		}
		pod, err := podSpec(answer.Object)
		if err != nil {
			return verdict.Step{Name: v.name, Class: verdict.ToolMissing, Detail: err.Error()}
		}
		v.change(pod)
		answer, err = env.API.Update(ctx, answer.Object)
		step = manifest.Judge(v.name, answer, err)
		if answer.Code != 409 {
			break
		}
	}
	step.Millis = time.Since(began).Milliseconds()
	return step
}
