// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
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
			all, step := namespaces(ctx, env)
			if step != nil {
				return append(steps, *step)
			}
			for _, ns := range all {
				steps = append(steps, readRights(ctx, env, ns))
			}
			return append(steps, askAll(ctx, env, forbidden(env))...)
		},
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return askAll(ctx, env, []attempt{
				{"list the Pods of the runs", suite.Request{Verb: http.MethodGet, Path: core(env.Namespace, "pods?limit=1")}},
				{"create a Pod for a run", suite.Request{Verb: http.MethodPost, Path: core(env.Namespace, "pods"), Body: env.Pod()}},
			})
		},
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
		if ended(p) {
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

// everybody are the rights of every service account, by "verb group/resource":
// those of the roles system:basic-user and system:cluster-trust-bundle-discovery.
var everybody = []string{
	"create authorization.k8s.io/selfsubjectaccessreviews", "create authorization.k8s.io/selfsubjectrulesreviews",
	"create authentication.k8s.io/selfsubjectreviews",
	"get certificates.k8s.io/clustertrustbundles", "list certificates.k8s.io/clustertrustbundles", "watch certificates.k8s.io/clustertrustbundles",
}

// onPods are all that the service may do in the playground.
var onPods = []string{"create /pods", "delete /pods", "get /pods", "list /pods", "watch /pods", "create /pods/exec", "get /pods/exec"}

// publicPaths are what every account may read besides the API's objects, with what
// lies below: the role system:discovery and that of the tokens' issuer.
var publicPaths = []string{"/api", "/apis", "/healthz", "/livez", "/readyz", "/openapi", "/version", "/openid/v1/jwks", "/.well-known/openid-configuration"}

// namespaces are all of the cluster, the target's own first. Those of mutants of
// a deployment, which are weak on purpose and whose runs the service may make,
// are left out, but for the one that is attacked.
func namespaces(ctx context.Context, env *suite.APIEnv) ([]string, *verdict.Step) {
	all := append([]string{env.Namespace}, env.Components...)
	list, step := reading.Items(ctx, env, "list the namespaces", "/api/v1/namespaces")
	if step != nil {
		return nil, step
	}
	if len(list) == 0 {
		return nil, &verdict.Step{Name: "list the namespaces", Class: verdict.Unknown, Detail: "there is none"}
	}
	for _, ns := range list {
		labels := manifest.Map(ns, "metadata", "labels")
		if _, mutant := labels["stockade.dev/mutant"]; !mutant && !slices.Contains(all, manifest.Name(ns)) {
			all = append(all, manifest.Name(ns))
		}
	}
	return all, nil
}

func readRights(ctx context.Context, env *suite.APIEnv, namespace string) verdict.Step {
	answer, err := env.Do(ctx, suite.Service, suite.Request{
		Verb: http.MethodPost, Path: "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
		Body: object{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": object{"namespace": namespace}},
	})
	allowed := everybody
	if namespace == env.Namespace {
		allowed = slices.Concat(everybody, onPods)
	}
	return judgeRights("have a right too many in namespace "+namespace, allowed, answer, err)
}

// judgeRights is a pure function. A list that does not say of itself that it is
// whole, or that lacks what every account has, proves nothing.
func judgeRights(name string, allowed []string, a suite.Answer, err error) verdict.Step {
	step := verdict.Step{Name: name}
	status := manifest.Map(a.Object, "status")
	rights, _ := status["resourceRules"].([]any)
	paths, _ := status["nonResourceRules"].([]any)
	incomplete, said := status["incomplete"].(bool)
	problem, _ := status["evaluationError"].(string)
	switch {
	case err != nil:
		step.Class, step.Detail = verdict.TransportError, err.Error()
		return step
	case a.Code != http.StatusOK && a.Code != http.StatusCreated || len(rights) == 0:
		step.Class, step.Detail = verdict.Unknown, fmt.Sprintf("%d %s, and no rights", a.Code, a.Message)
		return step
	}
	var more []string
	n := 0
	for _, r := range rights {
		r, _ := r.(object)
		for _, right := range expand(r) {
			n++
			if !slices.Contains(allowed, right) {
				more = append(more, right)
			}
		}
	}
	for _, r := range paths {
		r, _ := r.(object)
		for _, verb := range texts(r["verbs"]) {
			for _, path := range texts(r["nonResourceURLs"]) {
				if verb != "get" || !slices.ContainsFunc(publicPaths, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") }) {
					more = append(more, verb+" "+path)
				}
			}
		}
	}
	switch {
	case len(more) > 0:
		step.OK, step.Detail = true, strings.Join(more, ", ")
	case !said || incomplete || problem != "":
		step.Class, step.Detail = verdict.Unknown, "the list is not known to be whole: "+problem
	default:
		step.Class, step.Detail = verdict.Absent, fmt.Sprintf("%d rights, and none too many", n)
	}
	return step
}

// expand returns the rights of one rule, by "verb group/resource". Names that a
// rule is restricted to do not count: a part of what is too much is too much.
func expand(rule object) (out []string) {
	for _, verb := range texts(rule["verbs"]) {
		for _, group := range texts(rule["apiGroups"]) {
			for _, resource := range texts(rule["resources"]) {
				out = append(out, verb+" "+group+"/"+resource)
			}
		}
	}
	return out
}

func texts(list any) []string {
	all, _ := list.([]any)
	out := make([]string, 0, len(all))
	for _, x := range all {
		out = append(out, fmt.Sprint(x))
	}
	return out
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
	const door = "/apis/admissionregistration.k8s.io/v1/"
	token := object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": object{}}
	all := []attempt{
		{"list the secrets of its namespace", suite.Request{Verb: http.MethodGet, Path: core(own, "secrets?limit=1")}},
		{"list the secrets of the system", suite.Request{Verb: http.MethodGet, Path: core("kube-system", "secrets?limit=1")}},
		{"list the config maps of its namespace", suite.Request{Verb: http.MethodGet, Path: core(own, "configmaps?limit=1")}},
		{"list the nodes", suite.Request{Verb: http.MethodGet, Path: "/api/v1/nodes?limit=1"}},
		{"reach a kubelet through a node", suite.Request{Verb: http.MethodGet, Path: "/api/v1/nodes/stockade-worker/proxy/pods"}},
		{"list the Pods of the system", suite.Request{Verb: http.MethodGet, Path: core("kube-system", "pods?limit=1")}},
		{"create a Pod in another namespace", suite.Request{Verb: http.MethodPost, Path: core("default", "pods"), Body: elsewhere}},
		{"execute in a Pod of the system", suite.Request{Verb: http.MethodPost, Path: core("kube-system", "pods/stockade-none/exec?command=id&stdout=true")}},
		{"mint a token of its namespace's service account", suite.Request{Verb: http.MethodPost, Path: core(own, "serviceaccounts/default/token"), Body: token}},
		{"bind a role", suite.Request{Verb: http.MethodPost, Path: rbac + own + "/rolebindings",
			Body: object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": object{"name": "stockade-attack"},
				"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
				"subjects": []any{object{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:serviceaccounts"}}}}},
		{"lower Pod Security", suite.Request{Verb: http.MethodPatch, Path: "/api/v1/namespaces/" + own,
			Body: object{"metadata": object{"labels": object{"pod-security.kubernetes.io/enforce": "privileged"}}}}},
		{"raise the quota", suite.Request{Verb: http.MethodPatch, Path: core(own, "resourcequotas/runs"),
			Body: object{"spec": object{"hard": object{"pods": "1000"}}}}},
		{"delete the network policy", suite.Request{Verb: http.MethodDelete, Path: "/apis/networking.k8s.io/v1/namespaces/" + own + "/networkpolicies/default-deny"}},
		{"unbind the admission policy", suite.Request{Verb: http.MethodDelete, Path: door + "validatingadmissionpolicybindings/playground-pods"}},
		{"delete the admission policy", suite.Request{Verb: http.MethodDelete, Path: door + "validatingadmissionpolicies/playground-pods"}},
		{"change what a run is", suite.Request{Verb: http.MethodPatch, Path: core(own, "podtemplates/run"),
			Body: object{"metadata": object{"annotations": object{"stockade.dev/rlimits": ""}}}}},
		{"add a container to a run", suite.Request{Verb: http.MethodPatch, Path: core(own, "pods/"+env.Live+"/ephemeralcontainers"),
			Body: object{"spec": object{"ephemeralContainers": []any{}}}}},
	}
	_, account, _ := strings.Cut(env.Account, "/")
	for _, ns := range env.Components {
		beside := env.Pod()
		meta, _ := beside["metadata"].(object)
		meta["namespace"] = ns
		all = append(all,
			attempt{"list the secrets of " + ns, suite.Request{Verb: http.MethodGet, Path: core(ns, "secrets?limit=1")}},
			attempt{"create a Pod in " + ns, suite.Request{Verb: http.MethodPost, Path: core(ns, "pods"), Body: beside}},
			attempt{"mint a token of its own in " + ns, suite.Request{Verb: http.MethodPost, Path: core(ns, "serviceaccounts/"+account+"/token"), Body: token}})
	}
	return all
}

// unauthorized is how RBAC refuses. Admission policies say "cannot" as well.
var unauthorized = regexp.MustCompile(`is forbidden: User "[^"]+" cannot [a-z]+ resource "`)

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
	case a.Code == http.StatusForbidden && unauthorized.MatchString(a.Message):
		step.Class = verdict.HTTP403
	case a.Code == http.StatusForbidden, a.Code >= 200 && a.Code < 300,
		a.Code == http.StatusNotFound, a.Code == http.StatusBadRequest, a.Code == http.StatusConflict, a.Code == http.StatusUnprocessableEntity:
		step.OK = true
	default:
		step.Class = verdict.Unknown
	}
	return step
}
