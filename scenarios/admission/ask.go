// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

// scenario declares the rule's attack. It accepts one class only: the API
// server's refusal with this rule's own message. Another refusal (a bad
// request, Pod Security, a quota) would look just as safe, and would say
// nothing about the rule.
func (r rule) scenario() suite.Scenario {
	return suite.Scenario{
		ID:    "admission." + r.id,
		Title: r.title,
		About: r.about + " The attack asks for the target's own Sandbox with this one thing changed, as a dry run. " +
			"The control is the same Sandbox unchanged, which has to be taken.",
		Claims:     []string{"AS-10"},
		Kind:       suite.Guarantee,
		Techniques: []string{"T1610"},
		Severity:   r.severity,
		Needs:      []suite.Feature{suite.Admission},
		Ask:        r.ask,
		AskControl: takeCompliant,
		Params:     map[string]string{"says": r.says},
		Accept:     []verdict.Class{verdict.AdmissionDenied},
		Timeout:    30 * time.Second,
		Mutants:    r.mutants,
	}
}

func (r rule) ask(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	steps := make([]verdict.Step, 0, len(r.cases))
	for _, v := range r.cases {
		obj := env.Sandbox()
		pod, err := podSpec(obj)
		if err != nil {
			return append(steps, verdict.Step{Name: v.name, Class: verdict.ToolMissing, Detail: err.Error()})
		}
		v.change(pod)
		steps = append(steps, r.own(manifest.DryRun(ctx, env, v.name, obj)))
	}
	return steps
}

// own demands that it was this rule that refused.
func (r rule) own(step verdict.Step) verdict.Step {
	if step.Class == verdict.AdmissionDenied && !strings.Contains(step.Detail, r.says) {
		step.Class, step.Detail = verdict.Unknown, "refused, but not by this rule: "+step.Detail
	}
	return step
}

func takeCompliant(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	return []verdict.Step{manifest.DryRun(ctx, env, "the compliant Sandbox", env.Sandbox())}
}

func podSpec(sandbox suite.Object) (object, error) {
	pod := manifest.Map(sandbox, "spec", "podTemplate", "spec")
	if pod == nil {
		return nil, errors.New("reading the target's Sandbox: it has no spec.podTemplate.spec")
	}
	return pod, nil
}
