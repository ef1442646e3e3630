// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/reading/fake"
)

type object = suite.Object

// api answers reads of Pods and namespaces, and reviews by account and namespace; every other
// request is not authorized. Package overlays asks the manifests' own rights.
type api struct {
	pods   []any
	rights map[string][]any // by account, a space, and namespace
	may    []string         // accounts that are authorized all the same
	asked  []string         // as whom, and what
}

func (a *api) do(_ context.Context, as suite.Identity, r suite.Request) (suite.Answer, error) {
	a.asked = append(a.asked, string(as)+" "+r.Verb+" "+r.Path)
	account, ok := as.Account()
	switch {
	case !ok && r.Path == "/api/v1/namespaces/kg/pods":
		return suite.Answer{Code: 200, Object: object{"items": a.pods}}, nil
	case !ok && r.Path == "/api/v1/namespaces":
		return suite.Answer{Code: 200, Object: object{"items": []any{
			object{"metadata": object{"name": "kg"}}, object{"metadata": object{"name": "kube-system"}}}}}, nil
	case strings.HasSuffix(r.Path, "reviews"):
		spec, _ := r.Body["spec"].(object)
		ns, _ := spec["namespace"].(string)
		return fake.Review(a.rights[account+" "+ns]...), nil
	case slices.Contains(a.may, account):
		return suite.Answer{Code: 404}, nil
	}
	return suite.Answer{Code: 403, Message: `x is forbidden: User "system:serviceaccount:kg:x" cannot do resource "x" in API group ""`}, nil
}

func grant(group, resource string, verbs ...any) any {
	return object{"apiGroups": []any{group}, "resources": []any{resource}, "verbs": verbs}
}

func program(app, account string) any {
	return object{"metadata": object{"name": app, "labels": object{"app": app}}, "spec": object{"serviceAccountName": account},
		"status": object{"phase": "Running"}}
}

// sound is an API server of a deployment in which everybody may do what it needs.
func sound() *api {
	read := grant("agents.x-k8s.io", "sandboxes", "get")
	return &api{
		pods: []any{program("kode-gopher", "server"), program("kode-gopher-router", "router"), program("kode-gopher-sandbox", "default"),
			program("kode-gopher", "default")}, // the suite's stand-in for the server
		rights: map[string][]any{
			"server kg": {grant("extensions.agents.x-k8s.io", "sandboxclaims", "create", "get", "list", "patch", "delete"), read},
			"router kg": {read},
		},
	}
}

func (a *api) env() *suite.APIEnv {
	some := func() object {
		return object{"metadata": object{"labels": object{"app": "kode-gopher-sandbox"}}, "spec": object{}}
	}
	return &suite.APIEnv{Nonce: nonce, Namespace: "kg", Live: "live", Pod: some, Sandbox: some, Do: a.do}
}

func TestARightThatAProgramDoesNotNeedIsFound(t *testing.T) {
	secrets, claim := grant("", "secrets", "get"), grant("extensions.agents.x-k8s.io", "sandboxclaims", "create")
	for name, c := range map[string]struct {
		change func(a *api)
		step   string // that reaches its aim; empty: none does
	}{
		"as it should be":                  {func(*api) {}, ""},
		"the server and secrets":           {func(a *api) { a.rights["server kg"] = append(a.rights["server kg"], secrets) }, "too many as server"},
		"the server elsewhere":             {func(a *api) { a.rights["server kube-system"] = []any{secrets} }, "too many as server"},
		"the server's own rights, there":   {func(a *api) { a.rights["server kube-system"] = a.rights["server kg"] }, "too many as server"},
		"the router and claims":            {func(a *api) { a.rights["router kg"] = append(a.rights["router kg"], claim) }, "too many as router"},
		"the router as the server":         {func(a *api) { a.pods[1] = program("kode-gopher-router", "server") }, "too many as server, as which kode-gopher-router runs"},
		"a sandbox":                        {func(a *api) { a.rights["default kg"] = []any{claim} }, "too many as default, as which kode-gopher-sandbox runs"},
		"a sandbox, none of which runs":    {func(a *api) { a.pods = slices.Delete(a.pods, 2, 4); a.rights["default kg"] = []any{claim} }, "too many as default, as which kode-gopher-sandbox runs"},
		"a sandbox as the server":          {func(a *api) { a.pods[2] = program("kode-gopher-sandbox", "server") }, "as which kode-gopher-sandbox runs"},
		"a sandbox that has ended":         {func(a *api) { a.pods = append(a.pods, ended(program("kode-gopher-sandbox", "server"))) }, ""},
		"a program of another label":       {func(a *api) { a.pods = append(a.pods, program("ops", "server")) }, "as which ops runs"},
		"a program without a label":        {func(a *api) { a.pods = append(a.pods, object{"spec": object{"serviceAccountName": "server"}}) }, "a Pod without a label app runs"},
		"a list that hides what it may do": {func(a *api) { a.may = []string{"router"} }, "list the secrets of its namespace as router"},
	} {
		t.Run(name, func(t *testing.T) {
			a := sound()
			c.change(a)
			var reached []string
			for _, s := range serverRights().Ask(t.Context(), a.env()) {
				if s.OK {
					reached = append(reached, s.Name)
				} else {
					assert.Contains(t, serverRights().Accept, s.Class, "%s: %s", s.Name, s.Detail)
				}
			}
			if c.step == "" {
				assert.Empty(t, reached)
				return
			}
			assert.Contains(t, strings.Join(reached, "\n"), c.step)
		})
	}
}

func ended(pod any) any {
	p, _ := pod.(object)
	p["status"] = object{"phase": "Failed"}
	return p
}

// An account is asked as itself, and every account for all that none of its programs
// needs.
func TestEachAccountIsAskedAsItself(t *testing.T) {
	a := sound()
	serverRights().Ask(t.Context(), a.env())
	count := func(request string) (n int) {
		for _, q := range a.asked {
			if strings.HasSuffix(q, request) {
				n++
			}
		}
		return n
	}
	for _, account := range []string{"server", "router", "default"} {
		as := string(suite.AccountIdentity(account)) + " "
		assert.Equal(t, 1, count(as+"GET /api/v1/namespaces/kg/secrets?limit=1"), account)
		assert.NotZero(t, count(as+"POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews"), account)
		claimed := count(as + "POST /apis/extensions.agents.x-k8s.io/v1beta1/namespaces/kg/sandboxclaims")
		read := count(as + "GET /apis/agents.x-k8s.io/v1beta1/namespaces/kg/sandboxes/stockade-none")
		assert.Equal(t, account != "server", claimed == 1, account)
		assert.Equal(t, account == "default", read == 1, account)
	}
	assert.Zero(t, count(http.MethodPut+" "), "nothing is replaced")
}

func TestWhereAProgramDoesNotRunItsRightsAreNotJudged(t *testing.T) {
	for name, spoil := range map[string]func(a *api, e *suite.APIEnv){
		"no router":                func(a *api, _ *suite.APIEnv) { a.pods = slices.Delete(a.pods, 1, 2) },
		"no Pod":                   func(a *api, _ *suite.APIEnv) { a.pods = nil },
		"a router that has ended":  func(a *api, _ *suite.APIEnv) { ended(a.pods[1]) },
		"a Pod without an account": func(a *api, _ *suite.APIEnv) { a.pods = append(a.pods, object{"spec": object{}}) },
		"Pods that cannot be read": func(_ *api, e *suite.APIEnv) { e.Namespace = "other" },
		"nobody to ask":            func(_ *api, e *suite.APIEnv) { e.Do = nil },
	} {
		a := sound()
		e := a.env()
		spoil(a, e)
		for _, act := range []suite.APIAction{serverRights().Ask, serverRights().AskControl} {
			steps := act(t.Context(), e)
			assert.Len(t, steps, 1, name)
			assert.False(t, steps[0].OK || steps[0].Class.IsEvidence(), "%s: %s", name, steps[0].Detail)
		}
	}
}

func TestTheControlWantsTheServerAndTheRouterToHaveWhatTheyNeed(t *testing.T) {
	works := func(change func(a *api)) bool {
		a := sound()
		a.may = []string{"server", "router"}
		change(a)
		steps := serverRights().AskControl(t.Context(), a.env())
		return !slices.ContainsFunc(steps, func(s verdict.Step) bool { return !s.OK })
	}
	assert.True(t, works(func(*api) {}))
	assert.False(t, works(func(a *api) { a.rights["router kg"] = nil }))
	assert.False(t, works(func(a *api) { a.rights["server kg"] = a.rights["router kg"] }))
	assert.False(t, works(func(a *api) { a.may = []string{"server"} }), "it is in the list, and not authorized")
}
