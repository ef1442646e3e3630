// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
	"github.com/stockade-dev/stockade/scenarios/reading"
)

// executionRights compares the API server's list of the service's rights with all
// that it may have, because whoever takes over the service has these rights and no
// others; requests made as the service show that the list is true. Every request
// that would change something is a dry run.
//
// It accepts Absent for what is not in the list, and where every program runs as
// the service's account. Of the requests it accepts HTTP403 by the authorizer
// alone: what an admission policy refuses was authorized before.
func executionRights() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.execution-rights",
		Title: "Leave the sandbox namespace as the execution service",
		About: "Looks whether every program of the service's runs as the service's account, and asks the API server which rights that account has in the playground, " +
			"in the service's own namespace, and in every other one of the cluster: to manage Pods of the playground and to enter them, and what every account has, and " +
			"no more. Then, as that account, asks for secrets, nodes, tokens and Pods of other namespaces, for an exec there, and for changes of what holds the runs: " +
			"policies, quota, roles and the namespace's labels. The control is what the service needs: the Pods of the playground.",
		Claims: []string{"PG-10"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1078.001", "T1098.006", "T1552.007"},
		Refs: []string{"https://kubernetes.io/docs/concepts/security/rbac-good-practices/",
			"https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access"},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			if env.Do == nil || len(env.Components) == 0 {
				return []verdict.Step{{Name: "ask as the execution service", Class: verdict.ToolMissing, Detail: "the target has no execution service"}}
			}
			var steps []verdict.Step
			for _, ns := range env.Components {
				steps = append(steps, readAccounts(ctx, env, ns))
			}
			all, step := reading.Namespaces(ctx, env)
			if step != nil {
				return append(steps, *step)
			}
			for _, ns := range all {
				var allowed []string
				if ns == env.Namespace {
					allowed = onPods
				}
				steps = append(steps, reading.RightsTooMany(ctx, env, "have a right too many in namespace "+ns, suite.Service, ns, allowed))
			}
			return append(steps, reading.Try(ctx, env, suite.Service, forbidden(env))...)
		},
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return reading.Try(ctx, env, suite.Service, []reading.Attempt{
				{Name: "list the Pods of the runs", Request: suite.Request{Verb: http.MethodGet, Path: core(env.Namespace, "pods?limit=1")}},
				{Name: "create a Pod for a run", Request: suite.Request{Verb: http.MethodPost, Path: core(env.Namespace, "pods"), Body: env.Pod()}},
			})
		},
		Live:    true,
		Accept:  []verdict.Class{verdict.HTTP403, verdict.Absent},
		Timeout: 60 * time.Second,
		Mutants: []string{"playground-execution-secrets", "playground-execution-own-namespace", "playground-other-account"},
	}
}

// readAccounts looks as whom the Pods of the service's namespace run: whose
// rights are asked for must be theirs.
func readAccounts(ctx context.Context, env *suite.APIEnv, namespace string) verdict.Step {
	name := "find a program of another account in namespace " + namespace
	pods, step := reading.Items(ctx, env, name, core(namespace, "pods"))
	if step != nil {
		return *step
	}
	return judgeAccounts(name, namespace, env.Account, pods)
}

// judgeAccounts is a pure function.
func judgeAccounts(name, namespace, account string, pods []object) verdict.Step {
	ready := 0
	for _, p := range pods {
		if manifest.Ended(p) {
			continue
		}
		if as := fmt.Sprintf("%s/%v", namespace, manifest.Map(p, "spec")["serviceAccountName"]); as != account {
			return verdict.Step{Name: name, OK: true, Detail: fmt.Sprintf("%s runs as %s, and not as %s", manifest.Name(p), as, account)}
		}
		if manifest.Condition(p, "Ready")["status"] == "True" {
			ready++
		}
	}
	if ready == 0 {
		// Nobody has the rights that were looked at.
		return verdict.Step{Name: name, Class: verdict.Unknown, Detail: fmt.Sprintf("none of %d Pods is ready", len(pods))}
	}
	return verdict.Step{Name: name, Class: verdict.Absent, Detail: fmt.Sprintf("all of %d run as %s", len(pods), account)}
}

// onPods are all that the service may do in the playground.
var onPods = []string{"create /pods", "delete /pods", "get /pods", "list /pods", "watch /pods", "create /pods/exec", "get /pods/exec"}

// core is short for the path of what is in a namespace.
var core = reading.Core

// forbidden are the requests that the service has no need of.
func forbidden(env *suite.APIEnv) []reading.Attempt {
	own := env.Namespace
	const door = "/apis/admissionregistration.k8s.io/v1/"
	all := append(reading.Overreach(env), []reading.Attempt{
		{Name: "raise the quota", Request: suite.Request{Verb: http.MethodPatch, Path: core(own, "resourcequotas/runs"),
			Body: object{"spec": object{"hard": object{"pods": "1000"}}}}},
		{Name: "delete the network policy", Request: suite.Request{Verb: http.MethodDelete, Path: reading.PoliciesOf(own) + "/default-deny"}},
		{Name: "unbind the admission policy", Request: suite.Request{Verb: http.MethodDelete, Path: door + "validatingadmissionpolicybindings/playground-pods"}},
		{Name: "delete the admission policy", Request: suite.Request{Verb: http.MethodDelete, Path: door + "validatingadmissionpolicies/playground-pods"}},
		{Name: "change what a run is", Request: suite.Request{Verb: http.MethodPatch, Path: core(own, "podtemplates/run"),
			Body: object{"metadata": object{"annotations": object{"stockade.dev/rlimits": ""}}}}},
		{Name: "add a container to a run", Request: suite.Request{Verb: http.MethodPatch, Path: core(own, "pods/"+env.Live+"/ephemeralcontainers"),
			Body: object{"spec": object{"ephemeralContainers": []any{}}}}},
	}...)
	_, account, _ := strings.Cut(env.Account, "/")
	for _, ns := range env.Components {
		beside := env.Pod()
		manifest.Child(beside, "metadata")["namespace"] = ns
		all = append(all,
			reading.Attempt{Name: "list the secrets of " + ns, Request: suite.Request{Verb: http.MethodGet, Path: core(ns, "secrets?limit=1")}},
			reading.Attempt{Name: "create a Pod in " + ns, Request: suite.Request{Verb: http.MethodPost, Path: core(ns, "pods"), Body: beside}},
			reading.Attempt{Name: "mint a token of its own in " + ns, Request: reading.MintToken(ns, account)})
	}
	return all
}
