// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

// bareSandboxNetwork shows an exposure that the text discloses: the controller
// makes a network policy for templates, and none for a Sandbox without one. It
// accepts Confined for the other half: the sandboxes of a template do have a
// policy. If they had none, that would be more than is disclosed.
func bareSandboxNetwork() suite.Scenario {
	return suite.Scenario{
		ID:    "sandbox.bare-sandbox-network",
		Title: "Get a sandbox without a network policy",
		About: "Creates a Sandbox without a template and looks whether any of the controller's network policies selects its Pod: " +
			"none does, as the text says. A sandbox of the template must be selected by the template's policy all the same. " +
			"A policy that somebody else put into the namespace is not looked for.",
		Claims:     []string{"AS-11"},
		Kind:       suite.Limit,
		Techniques: []string{"T1610", "T1562.007"},
		Severity:   suite.High,
		Ask:        askBare,
		AskControl: readTemplate,
		Live:       true,
		Stores:     true,
		Accept:     []verdict.Class{verdict.Confined},
		Timeout:    40 * time.Second,
		Mutants:    []string{"network-unmanaged"},
	}
}

func askBare(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	const what = "create a bare Sandbox"
	bare, name := env.Sandbox(), own(env, "bare")
	bare["metadata"] = object{"name": name}
	a, err := env.API.Create(ctx, bare, false)
	if step := failed(what, a, err); step != nil {
		return []verdict.Step{*step}
	}
	defer manifest.Remove(ctx, env, agentsAPI, "Sandbox", name)
	// The Pod of a bare Sandbox has the Sandbox's name. Its labels are final
	// from the start; that it runs is not needed.
	pod, err := await(ctx, env, coreAPI, "Pod", name, func(suite.Object) bool { return true })
	if err != nil {
		return []verdict.Step{{Name: what, Class: verdict.Unknown, Detail: err.Error()}}
	}
	shared, err1 := env.API.Get(ctx, networkingAPI, "NetworkPolicy", templateName+"-network-policy")
	single, err2 := env.API.Get(ctx, networkingAPI, "NetworkPolicy", name+"-network-policy")
	if err1 != nil || err2 != nil {
		return []verdict.Step{{Name: "read the network policies", Class: verdict.TransportError, Detail: fmt.Sprint(err1, err2)}}
	}
	live, err := env.API.Get(ctx, coreAPI, "Pod", env.Live)
	if step := failed("read a sandbox of the template", live, err); step != nil {
		return []verdict.Step{*step}
	}
	return []verdict.Step{judgeBare(pod, shared, single), judgeTemplate(live.Object, shared)}
}

// judgeBare tells whether the Pod is without a policy, as disclosed. Both
// answers may be a 404; anything else that is not 200 says nothing.
func judgeBare(pod suite.Object, policies ...suite.Answer) verdict.Step {
	step := verdict.Step{Name: "find no network policy for a bare Sandbox's Pod", Expect: verdict.Disclosed, Class: verdict.Confined}
	for _, p := range policies {
		switch {
		case p.Code == 404:
		case p.Code != 200:
			step.Class, step.Detail = verdict.Unknown, fmt.Sprintf("%d %s", p.Code, p.Message)
			return step
		case selects(p.Object, pod):
			step.Detail = fmt.Sprintf("%v selects it", manifest.At(p.Object, "metadata", "name"))
			return step
		}
	}
	step.OK, step.Class, step.Detail = true, "", "no policy of the controller selects it"
	return step
}

// judgeTemplate tells whether a sandbox of the template is without a policy. One
// that is there and selects somebody else is none for it.
func judgeTemplate(live suite.Object, shared suite.Answer) verdict.Step {
	step := verdict.Step{Name: "find no network policy for the template's sandboxes"}
	switch shared.Code {
	case 404:
		step.OK, step.Detail = true, "the controller made none for the template"
	case 200:
		want := manifest.At(shared.Object, "spec", "podSelector", "matchLabels")
		switch {
		case manifest.At(shared.Object, "spec", "podSelector", "matchExpressions") != nil:
			step.Class, step.Detail = verdict.Unknown, "the template's policy selects by expressions, which are not read here"
		case selects(shared.Object, live):
			step.Class, step.Detail = verdict.Confined, fmt.Sprintf("the template's policy selects %v, and this sandbox with it", want)
		default:
			step.OK, step.Detail = true, fmt.Sprintf("the template's policy selects %v, and not this sandbox", want)
		}
	default:
		step.Class, step.Detail = verdict.Unknown, fmt.Sprintf("%d %s", shared.Code, shared.Message)
	}
	return step
}

// selects tells whether a policy's matchLabels select the Pod. An empty
// selector selects every Pod.
func selects(policy, pod suite.Object) bool {
	for k, v := range manifest.Map(policy, "spec", "podSelector", "matchLabels") {
		if manifest.At(pod, "metadata", "labels", k) != v {
			return false
		}
	}
	return true
}

// readTemplate shows that reading works, so that a 404 means "not there".
func readTemplate(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	const what = "read the template"
	a, err := env.API.Get(ctx, extensionsAPI, "SandboxTemplate", templateName)
	if step := failed(what, a, err); step != nil {
		return []verdict.Step{*step}
	}
	return []verdict.Step{{Name: what, OK: true}}
}
