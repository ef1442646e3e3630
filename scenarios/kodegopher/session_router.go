// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
	"github.com/stockade-dev/stockade/scenarios/reading"
)

// The target's own Services besides the server's, with their ports' names.
const (
	routerService  = "kode-gopher-router"
	routerPort     = "http"
	tokenService   = "kode-gopher-metadata" //nolint:gosec // a name
	tokenPort      = "metadata"
	controlService = "kode-gopher-metadata-control"
	controlPort    = "control"
)

// routerHeaders accepts two answers of the router: 400 (Unsupported) for headers
// that name no sandbox of its own, and 404 (Absent) for a sandbox of which only the
// API server knows that it is not there.
//
// Where the headers alone are wrong, every other answer is a breach. The router
// gave it after it had begun to look for the place: a 404 or a 503 is what became
// of its question to the API server, a 502 what became of its connection. What
// stopped the request then was another wall.
func routerHeaders() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.router-headers",
		Title: "Name another place to the sandbox router",
		About: "Asks the router, as one would who has got past the server in front of it, for places that are no sandbox in use: an address of one's own choice, another port, " +
			"another namespace, two sandboxes at once, a sandbox with another's uid, one that is not there. It must refuse each by its headers alone. The control is the " +
			"same request for a sandbox in use, whose runner answers.",
		Claims: []string{"KG-02"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1090", "T1210"},
		Refs:       []string{"https://cwe.mitre.org/data/definitions/918.html", "https://github.com/kubernetes-sigs/agent-sandbox"},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			box, step := liveBox(ctx, env)
			if step != nil {
				return []verdict.Step{*step}
			}
			var steps []verdict.Step
			for _, g := range games {
				h := route(env, box)
				g.change(h)
				r, err := env.Send(ctx, routerService, routerPort, suite.Message{Method: http.MethodGet, Path: "/healthz", Header: h})
				steps = append(steps, g.judge(r, err))
			}
			return steps
		},
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			box, step := liveBox(ctx, env)
			if step != nil {
				return []verdict.Step{*step}
			}
			r, err := env.Send(ctx, routerService, routerPort, suite.Message{Method: http.MethodGet, Path: "/healthz", Header: route(env, box)})
			return []verdict.Step{replied("ask for a sandbox in use", r, err)}
		},
		Live:    true,
		Server:  true,
		Accept:  []verdict.Class{verdict.Unsupported, verdict.Absent},
		Timeout: 60 * time.Second,
		Mutants: []string{"kode-gopher-router-namespaces"},
	}
}

// game is one way to ask for what is no sandbox in use.
type game struct {
	name   string
	change func(http.Header)
	// lookup is true where it takes the API server to know that it is wrong.
	lookup bool
}

var games = []game{
	{name: "name an address", change: func(h http.Header) { h.Set("X-Sandbox-Pod-IP", "169.254.169.254") }},
	{name: "name the own loopback", change: func(h http.Header) { h.Set("X-Sandbox-Pod-IP", "127.0.0.1") }},
	{name: "name another port", change: func(h http.Header) { h.Set("X-Sandbox-Port", "22") }},
	{name: "name a system namespace", change: func(h http.Header) { h.Set("X-Sandbox-Namespace", "kube-system") }},
	{name: "name two sandboxes", change: func(h http.Header) { h.Add("X-Sandbox-ID", "another") }},
	{name: "name a path as the sandbox", change: func(h http.Header) { h.Set("X-Sandbox-ID", "../kube-system/x") }},
	{name: "name a host by a header of its own", change: func(h http.Header) { h.Set("X-Sandbox-Host", "kubernetes.default") }},
	{name: "name another's uid", lookup: true, change: func(h http.Header) { h.Set("X-Sandbox-UID", "00000000-0000-0000-0000-000000000000") }},
	{name: "name a sandbox that is not there", lookup: true, change: func(h http.Header) {
		h.Set("X-Sandbox-ID", "stockade-none")
		h.Del("X-Sandbox-UID")
	}},
}

// route are the headers that lead to a sandbox.
func route(env *suite.APIEnv, box suite.Holding) http.Header {
	h := http.Header{}
	h.Set("X-Sandbox-ID", box.Sandbox)
	h.Set("X-Sandbox-UID", box.UID)
	h.Set("X-Sandbox-Namespace", env.Namespace)
	h.Set("X-Sandbox-Port", serverPort)
	return h
}

// judge reads the router's answer. It is a pure function.
func (g game) judge(r suite.Reply, err error) verdict.Step {
	looked := []int{http.StatusBadGateway, http.StatusGatewayTimeout}
	if !g.lookup {
		looked = append(looked, http.StatusNotFound, http.StatusServiceUnavailable)
	}
	if err == nil && slices.Contains(looked, r.Code) {
		return probe.Reached(g.name, "status %d: it went to look", r.Code)
	}
	return replied(g.name, r, err)
}

// liveBox is the Sandbox of the suite's own that runs.
func liveBox(ctx context.Context, env *suite.APIEnv) (suite.Holding, *verdict.Step) {
	const name = "find a sandbox in use"
	if env.Send == nil {
		return suite.Holding{}, &verdict.Step{Name: name, Class: verdict.ToolMissing, Detail: "the target has no server of its own"}
	}
	items, step := reading.Items(ctx, env, name, "/apis/agents.x-k8s.io/v1beta1/namespaces/"+env.Namespace+"/sandboxes")
	if step != nil {
		return suite.Holding{}, step
	}
	for _, item := range items {
		box := boxIn(item)
		if box.UID != "" && podIn(item) == env.Live {
			return box, nil
		}
	}
	return suite.Holding{}, &verdict.Step{Name: name, Class: verdict.Unknown, Detail: "the API server has no Sandbox for " + env.Live}
}

func boxIn(item any) (h suite.Holding) {
	h.Sandbox, _ = manifest.At(item, "metadata", "name").(string)
	h.UID, _ = manifest.At(item, "metadata", "uid").(string)
	return h
}

// podIn is the name of a Sandbox's Pod: its own, or that of the one which it took
// over from the pool.
func podIn(item any) string {
	if pod, _ := manifest.At(item, "metadata", "annotations", "agents.x-k8s.io/pod-name").(string); pod != "" {
		return pod
	}
	name, _ := manifest.At(item, "metadata", "name").(string)
	return name
}
