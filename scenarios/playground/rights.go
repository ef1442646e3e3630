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
)

// executionRights accepts HTTP403 alone, and only where authorization refused:
// what an admission policy refuses was authorized. Whoever takes over the
// service has these rights and no others. All that would change something is a
// dry run.
func executionRights() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.execution-rights",
		Title: "Leave the sandbox namespace as the execution service",
		About: "As the execution service, asks the API server for secrets, nodes, tokens and Pods of other namespaces, for an exec there, and for changes of what holds " +
			"the runs: policies, quota, roles and the namespace's labels. The control is what the service needs: the Pods of its own namespace.",
		Claims: []string{"PG-10"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1078.001", "T1098.006", "T1552.007"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/security/rbac-good-practices/"},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return askAll(ctx, env, forbidden(env))
		},
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return askAll(ctx, env, []attempt{
				{"list the Pods of the runs", suite.Request{Verb: http.MethodGet, Path: core(env.Namespace, "pods?limit=1")}},
				{"create a Pod for a run", suite.Request{Verb: http.MethodPost, Path: core(env.Namespace, "pods"), Body: env.Pod()}},
			})
		},
		Accept:  []verdict.Class{verdict.HTTP403},
		Timeout: 30 * time.Second,
		Mutants: []string{"playground-execution-secrets"},
	}
}

type attempt struct {
	name    string
	request suite.Request
}

func core(namespace, rest string) string { return "/api/v1/namespaces/" + namespace + "/" + rest }

func forbidden(env *suite.APIEnv) []attempt {
	own := env.Namespace
	elsewhere := env.Pod()
	meta, _ := elsewhere["metadata"].(object)
	meta["namespace"] = "default"
	const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/"
	return []attempt{
		{"list the secrets of its namespace", suite.Request{Verb: http.MethodGet, Path: core(own, "secrets?limit=1")}},
		{"list the secrets of the system", suite.Request{Verb: http.MethodGet, Path: core("kube-system", "secrets?limit=1")}},
		{"list the config maps of its namespace", suite.Request{Verb: http.MethodGet, Path: core(own, "configmaps?limit=1")}},
		{"list the nodes", suite.Request{Verb: http.MethodGet, Path: "/api/v1/nodes?limit=1"}},
		{"reach a kubelet through a node", suite.Request{Verb: http.MethodGet, Path: "/api/v1/nodes/stockade-worker/proxy/pods"}},
		{"list the Pods of the system", suite.Request{Verb: http.MethodGet, Path: core("kube-system", "pods?limit=1")}},
		{"create a Pod in another namespace", suite.Request{Verb: http.MethodPost, Path: core("default", "pods"), Body: elsewhere}},
		{"execute in a Pod of the system", suite.Request{Verb: http.MethodPost, Path: core("kube-system", "pods/stockade-none/exec?command=id&stdout=true")}},
		{"mint a token of its namespace's service account", suite.Request{Verb: http.MethodPost, Path: core(own, "serviceaccounts/default/token"),
			Body: object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": object{}}}},
		{"bind a role", suite.Request{Verb: http.MethodPost, Path: rbac + own + "/rolebindings",
			Body: object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": object{"name": "stockade-attack"},
				"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
				"subjects": []any{object{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:serviceaccounts"}}}}},
		{"lower Pod Security", suite.Request{Verb: http.MethodPatch, Path: "/api/v1/namespaces/" + own,
			Body: object{"metadata": object{"labels": object{"pod-security.kubernetes.io/enforce": "privileged"}}}}},
		{"raise the quota", suite.Request{Verb: http.MethodPatch, Path: core(own, "resourcequotas/runs"),
			Body: object{"spec": object{"hard": object{"pods": "1000"}}}}},
		{"delete the network policy", suite.Request{Verb: http.MethodDelete, Path: "/apis/networking.k8s.io/v1/namespaces/" + own + "/networkpolicies/default-deny"}},
		{"delete the admission policy", suite.Request{Verb: http.MethodDelete, Path: "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/playground-pods"}},
		{"change what a run is", suite.Request{Verb: http.MethodPatch, Path: core(own, "podtemplates/run"),
			Body: object{"metadata": object{"annotations": object{"stockade.dev/rlimits": ""}}}}},
		{"add a container to a run", suite.Request{Verb: http.MethodPatch, Path: core(own, "pods/"+env.Live+"/ephemeralcontainers"),
			Body: object{"spec": object{"ephemeralContainers": []any{}}}}},
	}
}

func askAll(ctx context.Context, env *suite.APIEnv, all []attempt) []verdict.Step {
	steps := make([]verdict.Step, 0, len(all))
	for _, a := range all {
		if env.Do == nil {
			return []verdict.Step{{Name: a.name, Class: verdict.ToolMissing, Detail: "the target has no execution service"}}
		}
		answer, err := env.Do(ctx, suite.Service, a.request)
		steps = append(steps, judgeRight(a.name, answer, err))
	}
	return steps
}

// judgeRight reads whether a request was authorized. Who is not authorized
// learns nothing else; so any answer but that one, be it that there is no such
// object, is one to somebody who may. It is a pure function.
func judgeRight(name string, a suite.Answer, err error) verdict.Step {
	step := verdict.Step{Name: name, Detail: fmt.Sprintf("%d %s: %s", a.Code, a.Reason, a.Message)}
	switch {
	case err != nil:
		step.Class, step.Detail = verdict.TransportError, err.Error()
	case a.Code == 0:
		step.Class = verdict.TransportError
	case a.Code == http.StatusForbidden && strings.Contains(a.Message, "cannot "):
		step.Class = verdict.HTTP403
	case a.Code == http.StatusForbidden, a.Code >= 200 && a.Code < 300,
		a.Code == http.StatusNotFound, a.Code == http.StatusBadRequest, a.Code == http.StatusConflict, a.Code == http.StatusUnprocessableEntity:
		step.OK = true
	default:
		step.Class = verdict.Unknown
	}
	return step
}
