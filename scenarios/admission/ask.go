// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
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
		step := Request(ctx, env, v.name, obj)
		if step.Class == verdict.AdmissionDenied && !strings.Contains(step.Detail, r.says) {
			step.Class = verdict.Unknown
			step.Detail = "refused, but not by this rule: " + step.Detail
		}
		steps = append(steps, step)
	}
	return steps
}

func takeCompliant(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	return []verdict.Step{Request(ctx, env, "the compliant Sandbox", env.Sandbox())}
}

// Request asks for obj as a dry run; the step is OK when it would be created.
func Request(ctx context.Context, env *suite.APIEnv, name string, obj suite.Object) verdict.Step {
	began := time.Now()
	Rename(obj, env.Nonce)
	answer, err := env.API.Create(ctx, obj, true)
	step := Judge(name, answer, err)
	step.Millis = time.Since(began).Milliseconds()
	return step
}

// Judge reads an answer to a create. It is a pure function.
func Judge(name string, a suite.Answer, err error) verdict.Step {
	step := verdict.Step{Name: name, Detail: fmt.Sprintf("%d %s: %s", a.Code, a.Reason, a.Message)}
	switch {
	case err != nil:
		step.Class, step.Detail = verdict.TransportError, err.Error()
	case a.Code == 200 || a.Code == 201:
		step.OK, step.Detail = true, "the API server takes it"
	case a.Code == 403 || a.Code == 422:
		// A ValidatingAdmissionPolicy answers 422 by default and 403 for the
		// reason Forbidden; who refused is to be read in the message alone.
		step.Class = verdict.AdmissionDenied
	case a.Code == 0:
		step.Class = verdict.TransportError
	default:
		step.Class = verdict.Unknown
	}
	return step
}

// Rename gives the object a name of this attempt's own.
func Rename(obj suite.Object, nonce string) {
	Child(obj, "metadata")["name"] = "stockade-" + nonce[:min(len(nonce), 12)]
}

func podSpec(sandbox suite.Object) (object, error) {
	spec, ok := sandbox["spec"].(object)
	if !ok {
		return nil, fmt.Errorf("reading the target's Sandbox: it has no spec")
	}
	template, ok := spec["podTemplate"].(object)
	if !ok {
		return nil, fmt.Errorf("reading the target's Sandbox: it has no spec.podTemplate")
	}
	pod, ok := template["spec"].(object)
	if !ok {
		return nil, fmt.Errorf("reading the target's Sandbox: it has no spec.podTemplate.spec")
	}
	return pod, nil
}
