// SPDX-License-Identifier: Apache-2.0

package reading

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

// everybody are the rights of every service account, by "verb group/resource":
// those of the roles system:basic-user and system:cluster-trust-bundle-discovery.
var everybody = []string{
	"create authorization.k8s.io/selfsubjectaccessreviews", "create authorization.k8s.io/selfsubjectrulesreviews",
	"create authentication.k8s.io/selfsubjectreviews",
	"get certificates.k8s.io/clustertrustbundles", "list certificates.k8s.io/clustertrustbundles", "watch certificates.k8s.io/clustertrustbundles",
}

// publicPaths are what every account may read besides the API's objects, with what
// lies below: the role system:discovery and that of the tokens' issuer.
var publicPaths = []string{"/api", "/apis", "/healthz", "/livez", "/readyz", "/openapi", "/version", "/openid/v1/jwks", "/.well-known/openid-configuration"}

// Core is the path of what is in a namespace, of the API's core group.
func Core(namespace, rest string) string { return "/api/v1/namespaces/" + namespace + "/" + rest }

// Namespaces are all of the cluster, the target's own first. Those of mutants of
// a deployment, which are weak on purpose and whose Pods the target's programs may
// make, are left out, but for the one that is attacked.
func Namespaces(ctx context.Context, env *suite.APIEnv) ([]string, *verdict.Step) {
	const name = "list the namespaces"
	all := append([]string{env.Namespace}, env.Components...)
	list, step := Items(ctx, env, name, "/api/v1/namespaces")
	if step != nil {
		return nil, step
	}
	if len(list) == 0 {
		return nil, &verdict.Step{Name: name, Class: verdict.Unknown, Detail: "there is none"}
	}
	for _, ns := range list {
		labels := manifest.Map(ns, "metadata", "labels")
		if _, mutant := labels["stockade.dev/mutant"]; !mutant && !slices.Contains(all, manifest.Name(ns)) {
			all = append(all, manifest.Name(ns))
		}
	}
	return all, nil
}

// rightsOf asks the API server for somebody's list of rights in a namespace.
func rightsOf(ctx context.Context, env *suite.APIEnv, as suite.Identity, namespace string) (suite.Answer, error) {
	return env.Do(ctx, as, suite.Request{
		Verb: http.MethodPost, Path: "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
		Body: object{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": object{"namespace": namespace}},
	})
}

// RightsTooMany compares somebody's rights in a namespace with what every account
// has and with those allowed, which are written as "verb group/resource".
func RightsTooMany(ctx context.Context, env *suite.APIEnv, name string, as suite.Identity, namespace string, allowed []string) verdict.Step {
	answer, err := rightsOf(ctx, env, as, namespace)
	return judgeRights(name, slices.Concat(everybody, allowed), answer, err)
}

// RightsEnough looks, in the same list, for all of the rights that somebody needs: a
// list that has them would have others too.
func RightsEnough(ctx context.Context, env *suite.APIEnv, name string, as suite.Identity, namespace string, needed []string) verdict.Step {
	answer, err := rightsOf(ctx, env, as, namespace)
	return judgeNeeds(name, needed, answer, err)
}

// judgeNeeds is a pure function.
func judgeNeeds(name string, needed []string, a suite.Answer, err error) verdict.Step {
	if err != nil {
		return verdict.Step{Name: name, Class: verdict.TransportError, Detail: err.Error()}
	}
	var has []string
	for _, r := range objects(manifest.Map(a.Object, "status"), "resourceRules") {
		if _, some := r["resourceNames"]; !some {
			has = append(has, expand(r)...)
		}
	}
	for _, right := range needed {
		if !slices.ContainsFunc(has, func(h string) bool { return covers(h, right) }) {
			return verdict.Step{Name: name, Class: verdict.Absent, Detail: fmt.Sprintf("%d: %d rights, and not: %s", a.Code, len(has), right)}
		}
	}
	return verdict.Step{Name: name, OK: true, Detail: strings.Join(needed, ", ")}
}

// covers tells whether a right is the one that is wanted, or one to everything of
// its kind.
func covers(right, want string) bool {
	split := func(s string) [3]string {
		verb, rest, _ := strings.Cut(s, " ")
		group, resource, _ := strings.Cut(rest, "/")
		return [3]string{verb, group, resource}
	}
	has, all := split(right), split(want)
	for i := range has {
		if has[i] != "*" && has[i] != all[i] {
			return false
		}
	}
	return true
}

// judgeRights is a pure function. A list that does not say of itself that it is
// whole, or that lacks what every account has, proves nothing.
func judgeRights(name string, allowed []string, a suite.Answer, err error) verdict.Step {
	step := verdict.Step{Name: name}
	status := manifest.Map(a.Object, "status")
	rights := objects(status, "resourceRules")
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
		for _, right := range expand(r) {
			n++
			if !slices.Contains(allowed, right) {
				more = append(more, right)
			}
		}
	}
	for _, r := range objects(status, "nonResourceRules") {
		for _, verb := range texts(r, "verbs") {
			for _, path := range texts(r, "nonResourceURLs") {
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
	for _, verb := range texts(rule, "verbs") {
		for _, group := range texts(rule, "apiGroups") {
			for _, resource := range texts(rule, "resources") {
				out = append(out, verb+" "+group+"/"+resource)
			}
		}
	}
	return out
}

// Attempt is a request that somebody makes to learn whether it may.
type Attempt struct {
	Name    string
	Request suite.Request
}

// Overreach are requests that no program of a target's has to make: for secrets,
// nodes, tokens, Pods of other namespaces, and for changes of what holds the
// sandboxes.
func Overreach(env *suite.APIEnv) []Attempt {
	own := env.Namespace
	elsewhere := env.Pod()
	manifest.Child(elsewhere, "metadata")["namespace"] = "default"
	const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/"
	return []Attempt{
		{"list the secrets of its namespace", suite.Request{Verb: http.MethodGet, Path: Core(own, "secrets?limit=1")}},
		{"list the secrets of the system", suite.Request{Verb: http.MethodGet, Path: Core("kube-system", "secrets?limit=1")}},
		{"list the config maps of its namespace", suite.Request{Verb: http.MethodGet, Path: Core(own, "configmaps?limit=1")}},
		{"list the nodes", suite.Request{Verb: http.MethodGet, Path: "/api/v1/nodes?limit=1"}},
		{"reach a kubelet through a node", suite.Request{Verb: http.MethodGet, Path: "/api/v1/nodes/stockade-worker/proxy/pods"}},
		{"list the Pods of the system", suite.Request{Verb: http.MethodGet, Path: Core("kube-system", "pods?limit=1")}},
		{"create a Pod in another namespace", suite.Request{Verb: http.MethodPost, Path: Core("default", "pods"), Body: elsewhere}},
		{"execute in a Pod of the system", suite.Request{Verb: http.MethodPost, Path: Core("kube-system", "pods/stockade-none/exec?command=id&stdout=true")}},
		{"mint a token of its namespace's service account", MintToken(own, "default")},
		{"bind a role", suite.Request{Verb: http.MethodPost, Path: rbac + own + "/rolebindings",
			Body: object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": object{"name": "stockade-attack"},
				"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
				"subjects": []any{object{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:serviceaccounts"}}}}},
		{"lower Pod Security", suite.Request{Verb: http.MethodPatch, Path: "/api/v1/namespaces/" + own,
			Body: object{"metadata": object{"labels": object{"pod-security.kubernetes.io/enforce": "privileged"}}}}},
	}
}

// MintToken asks for a token of a service account: one that nobody takes, because the
// API server knows no dry run here.
func MintToken(namespace, account string) suite.Request {
	return suite.Request{Verb: http.MethodPost, Path: Core(namespace, "serviceaccounts/"+account+"/token"),
		Body: object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": object{
			"audiences": []any{"https://attacker.stockade.test"}, "expirationSeconds": 600}}}
}

// unauthorized is how RBAC refuses. Admission policies say "cannot" as well.
var unauthorized = regexp.MustCompile(`is forbidden: User "[^"]+" cannot [a-z]+ resource "`)

// Try makes the requests as somebody.
func Try(ctx context.Context, env *suite.APIEnv, as suite.Identity, all []Attempt) []verdict.Step {
	steps := make([]verdict.Step, 0, len(all))
	for _, a := range all {
		if env.Do == nil {
			return []verdict.Step{{Name: a.Name, Class: verdict.ToolMissing, Detail: "nobody can be asked as here"}}
		}
		answer, err := env.Do(ctx, as, a.Request)
		steps = append(steps, judgeRight(a.Name, answer, err))
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
	case strings.Contains(a.Message, " cannot impersonate resource "):
		step.Class = verdict.Unknown // it is the suite that was refused, and not somebody
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
