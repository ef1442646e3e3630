// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
	"github.com/stockade-dev/stockade/scenarios/reading"
)

// What decides which requests a program has no need of.
const (
	mayClaim = "create extensions.agents.x-k8s.io/sandboxclaims"
	mayRead  = "get agents.x-k8s.io/sandboxes"
)

// needs are all that a program has to do at the API server, by its label app and by
// "verb group/resource". Whoever is not in it needs nothing: neither the metadata
// server nor a sandbox ever asks.
var needs = map[string][]string{
	"kode-gopher": {
		mayClaim, "get extensions.agents.x-k8s.io/sandboxclaims",
		"list extensions.agents.x-k8s.io/sandboxclaims", "patch extensions.agents.x-k8s.io/sandboxclaims",
		"delete extensions.agents.x-k8s.io/sandboxclaims", mayRead,
	},
	"kode-gopher-router": {mayRead},
}

// Where the objects are that a server works with.
const (
	claims    = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/%s/sandboxclaims"
	templates = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/%s/sandboxtemplates"
	boxes     = "/apis/agents.x-k8s.io/v1beta1/namespaces/%s/sandboxes"
	// nobody is the name of no object: whoever may ask for it learns that.
	nobody = "stockade-none"
)

// serverRights compares the API server's list of rights with what a program needs,
// for the account of every Pod of the target's: whoever takes over the server, or
// gets out of a sandbox, has these rights and no others. Requests made as the
// account show that the list is true. Whatever would change something is a dry run.
//
// It accepts Absent for what is not in the list. Of the requests it accepts HTTP403
// by the authorizer alone: what an admission policy refuses was authorized before.
func serverRights() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.server-rights",
		Title: "Act on the cluster as the server, or as a sandbox",
		About: "Looks as which service accounts the Pods of the namespace run, and asks the API server which rights each of them has there and in every other namespace (but those that `stockade prove` makes): the server may " +
			"make, read, change and end claims and read Sandboxes, the sandbox router may read Sandboxes, and everybody else, the sandboxes among them, may do what every account may. " +
			"Then, as each account, asks for secrets, nodes, tokens and Pods, for an exec, for a Sandbox without a claim, and for changes of what holds the sandboxes: template, policies, roles and " +
			"the namespace's labels. The control is what the server and the router need: by the same list they have it, and the requests are authorized.",
		Claims: []string{"KG-03"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1078.001", "T1098.006", "T1552.007"},
		Refs: []string{"https://kubernetes.io/docs/concepts/security/rbac-good-practices/",
			"https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access"},
		Ask:        askRights,
		AskControl: askNeeds,
		Accept:     []verdict.Class{verdict.HTTP403, verdict.Absent},
		Timeout:    60 * time.Second,
		Mutants: []string{"kode-gopher-server-secrets", "kode-gopher-router-any-verb", "kode-gopher-sandbox-rights",
			"kode-gopher-shared-server-exec", "kode-gopher-shared-metadata-as-server"},
	}
}

// holder is an account, and the program, by its label app, that has its rights.
type holder struct{ app, account string }

func (h holder) String() string {
	return h.account + ", as which " + cmp.Or(h.app, "a Pod without a label app") + " runs"
}

// holders are those of the Pods of the target's namespace, each once, and first those
// that need least.
func holders(ctx context.Context, env *suite.APIEnv) ([]holder, *verdict.Step) {
	const name = "find the accounts of the Pods"
	pods, step := reading.Items(ctx, env, name, reading.Core(env.Namespace, "pods"))
	if step != nil {
		return nil, step
	}
	found := map[holder]bool{}
	for _, p := range pods {
		if manifest.Ended(p) {
			continue
		}
		app, _ := manifest.At(p, "metadata", "labels", "app").(string)
		account, _ := manifest.At(p, "spec", "serviceAccountName").(string)
		if account == "" {
			return nil, &verdict.Step{Name: name, Class: verdict.Unknown, Detail: manifest.Name(p) + " names none"}
		}
		found[holder{app, account}] = true
	}
	// No sandbox may run at the moment. They are as the template says.
	box := env.Pod()
	app, _ := manifest.At(box, "metadata", "labels", "app").(string)
	account, _ := manifest.At(box, "spec", "serviceAccountName").(string)
	found[holder{app, cmp.Or(account, "default")}] = true
	all := slices.SortedFunc(maps.Keys(found), func(a, b holder) int {
		return cmp.Or(cmp.Compare(len(needs[a.app]), len(needs[b.app])), cmp.Compare(a.app, b.app), cmp.Compare(a.account, b.account))
	})
	for _, app := range slices.Sorted(maps.Keys(needs)) {
		if !slices.ContainsFunc(all, func(h holder) bool { return h.app == app }) {
			// Nobody has the rights that are looked at.
			return nil, &verdict.Step{Name: name, Class: verdict.Unknown, Detail: "no Pod of " + app + " runs"}
		}
	}
	return all, nil
}

func askRights(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	all, step := holders(ctx, env)
	if step != nil {
		return []verdict.Step{*step}
	}
	namespaces, step := reading.Namespaces(ctx, env)
	if step != nil {
		return []verdict.Step{*step}
	}
	var steps []verdict.Step
	tried := map[string]bool{}
	for _, h := range all {
		steps = append(steps, tooMany(ctx, env, h, namespaces))
		// The first program of an account has no need of what any other of it needs.
		if tried[h.account] {
			continue
		}
		tried[h.account] = true
		for _, s := range reading.Try(ctx, env, suite.AccountIdentity(h.account), needless(env, h.app)) {
			s.Name += " as " + h.account
			steps = append(steps, s)
		}
	}
	return steps
}

// tooMany looks at an account's rights in all namespaces, up to the first that is
// not as it should be.
func tooMany(ctx context.Context, env *suite.APIEnv, h holder, namespaces []string) verdict.Step {
	name := "have a right too many as " + h.String()
	for _, ns := range namespaces {
		var allowed []string
		if ns == env.Namespace {
			allowed = needs[h.app]
		}
		step := reading.RightsTooMany(ctx, env, name, suite.AccountIdentity(h.account), ns, allowed)
		if step.OK || step.Class != verdict.Absent {
			step.Detail = "in namespace " + ns + ": " + step.Detail
			return step
		}
	}
	return verdict.Step{Name: name, Class: verdict.Absent, Detail: fmt.Sprintf("none too many in %d namespaces", len(namespaces))}
}

// needless are the requests that a program has no need of.
func needless(env *suite.APIEnv, app string) []reading.Attempt {
	own := env.Namespace
	in := func(format string) string { return fmt.Sprintf(format, own) }
	all := append(reading.Overreach(env), []reading.Attempt{
		{Name: "list the Pods of its namespace", Request: suite.Request{Verb: http.MethodGet, Path: reading.Core(own, "pods?limit=1")}},
		{Name: "create a Pod in its namespace", Request: suite.Request{Verb: http.MethodPost, Path: reading.Core(own, "pods"), Body: env.Pod()}},
		{Name: "execute in a Pod of its namespace", Request: suite.Request{Verb: http.MethodPost, Path: reading.Core(own, "pods/"+nobody+"/exec?command=id&stdout=true")}},
		{Name: "create a Sandbox without a claim", Request: suite.Request{Verb: http.MethodPost, Path: in(boxes), Body: env.Sandbox()}},
		{Name: "delete a Sandbox", Request: suite.Request{Verb: http.MethodDelete, Path: in(boxes) + "/" + nobody}},
		{Name: "delete the sandboxes' template", Request: suite.Request{Verb: http.MethodDelete, Path: in(templates) + "/kode-gopher"}},
		{Name: "delete a network policy", Request: suite.Request{Verb: http.MethodDelete, Path: reading.PoliciesOf(own) + "/" + nobody}},
		{Name: "mint a token of the server's account", Request: reading.MintToken(own, "kode-gopher")},
	}...)
	if !slices.Contains(needs[app], mayClaim) {
		all = append(all, makeClaim(env))
	}
	if !slices.Contains(needs[app], mayRead) {
		all = append(all, readSandbox(env))
	}
	return all
}

func makeClaim(env *suite.APIEnv) reading.Attempt {
	claim := suite.Object{"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxClaim", "metadata": suite.Object{},
		"spec": suite.Object{"warmPoolRef": suite.Object{"name": "kode-gopher"}}}
	manifest.Rename(claim, env.Nonce)
	return reading.Attempt{Name: "claim a sandbox", Request: suite.Request{Verb: http.MethodPost, Path: fmt.Sprintf(claims, env.Namespace), Body: claim}}
}

func readSandbox(env *suite.APIEnv) reading.Attempt {
	return reading.Attempt{Name: "read a Sandbox", Request: suite.Request{Verb: http.MethodGet, Path: fmt.Sprintf(boxes, env.Namespace) + "/" + nobody}}
}

// askNeeds finds by the same list that each program has what it needs, and has one
// request of each made.
func askNeeds(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	all, step := holders(ctx, env)
	if step != nil {
		return []verdict.Step{*step}
	}
	var steps []verdict.Step
	for _, app := range slices.Sorted(maps.Keys(needs)) {
		steps = append(steps, hasNeeds(ctx, env, app, all)...)
	}
	return steps
}

// hasNeeds wants one account of a program's to have it all: beside the server there
// may be a Pod that only looks like it to the network policies.
func hasNeeds(ctx context.Context, env *suite.APIEnv, app string, all []holder) []verdict.Step {
	name := "have what " + app + " needs"
	var enough verdict.Step
	for _, h := range all {
		if h.app != app {
			continue
		}
		as := suite.AccountIdentity(h.account)
		if enough = reading.RightsEnough(ctx, env, name, as, env.Namespace, needs[app]); !enough.OK {
			continue
		}
		request := readSandbox(env)
		if slices.Contains(needs[app], mayClaim) {
			request = makeClaim(env)
		}
		return append([]verdict.Step{enough}, reading.Try(ctx, env, as, []reading.Attempt{request})...)
	}
	return []verdict.Step{enough}
}
