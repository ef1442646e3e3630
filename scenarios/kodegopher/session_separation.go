// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// canaryOf is what a session leaves for others to find. It stands in no
// program's text and in nothing that a client sends by itself.
func canaryOf(env *suite.APIEnv) string { return "stockade-canary-" + env.Nonce }

// sessionSeparation accepts Absent alone, of a search that found the same canary
// where it was left: a search that failed has proved nothing. While the others
// look, they send the headers by which the router is told of a sandbox, with the
// first one's name in them.
//
// The first session lives on while the others look. Whether each had a sandbox of
// its own, the API server knows: a program's own account of where it was has to
// agree with the claims of its user.
func sessionSeparation() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.session-separation",
		Title: "See what another session has left",
		About: "A session leaves a canary in the files that last longest, in `/app/persist`, `/tmp` and the go command's caches there. While it lives, another session of the same user, and then one of " +
			"another user, look for it in every file that a program can reach, but those deep in these caches, and in what every process was started with. Both name the first one's sandbox in " +
			"`X-Sandbox-*` headers, which the router behind the server goes by. The first session finds its own canary by the same search, and by the API server's word " +
			"all three were in different sandboxes, each its user's own. Where callers do not authenticate there is one user, and all three sessions are its own.",
		Claims: []string{"KG-02"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1005", "T1552.001", "T1210"},
		Refs:       []string{"https://modelcontextprotocol.io/specification/2025-06-18/basic/security_best_practices"},
		Ask:        lookForCanary,
		AskControl: greet("user1"),
		Accept:     []verdict.Class{verdict.Absent},
		As:         []string{"user1", "user2"},
		Timeout:    sessionTime,
		Mutants:    []string{"kode-gopher-router-bypassed", "kode-gopher-node-persist", "kode-gopher-node-cache", "kode-gopher-node-modules"},
	}
}

func lookForCanary(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	canary := canaryOf(env)
	first, step := enter(ctx, env, "user1")
	if step != nil {
		return []verdict.Step{*step}
	}
	folders := []string{"/app/persist/", "/tmp/", "/tmp/go-build/", "/tmp/go/pkg/mod/"}
	var tasks []task
	for _, folder := range folders {
		tasks = append(tasks, task{Do: "plant", Path: folder + canary, Text: canary})
	}
	victim, step := order(ctx, first, nil, append(tasks, task{Do: "find", Text: canary})...)
	if step != nil {
		return []verdict.Step{*step}
	}
	steps := []verdict.Step{ownCanary(victim.Did[len(folders)], folders, canary)}
	held, err := env.Held(ctx, known(env, "user1"))
	if err != nil {
		return append(steps, probe.Failed("ask the API server for the first session's sandbox", verdict.TransportError, "%v", err))
	}
	own, _ := boxOf(held, victim)
	steps = append(steps, ownBox("run in a sandbox that is not the user's", held, victim))
	names := towards(env, own)
	runs := []account{victim}
	for _, c := range []struct{ caller, who string }{{"user1", "another session of the same user"}, {"user2", "a session of another user"}} {
		found, more := lookAs(ctx, env, c.caller, c.who, canary, names)
		if found != nil {
			steps = append(steps, shared("share a sandbox as "+c.who, runs, *found))
			runs = append(runs, *found)
		}
		steps = append(steps, more...)
	}
	return steps
}

// ownCanary reads the search of the session that left the canary: one that misses it
// anywhere would prove nothing in another session. It is a pure function.
func ownCanary(d did, folders []string, canary string) verdict.Step {
	step := mustWork(unknown(d.read("find its own canary")))
	found := strings.Split(d.Text, ", ")
	for _, folder := range folders {
		if step.OK && !slices.Contains(found, folder+canary) {
			step.OK, step.Class, step.Detail = false, verdict.Unknown, fmt.Sprintf("it missed the one in %s: %.200q", folder, d.Text)
		}
	}
	return step
}

// lookAs searches in a session of its own, which ends with it.
func lookAs(ctx context.Context, env *suite.APIEnv, caller, who, canary string, names http.Header) (*account, []verdict.Step) {
	s, step := enter(ctx, env, caller)
	if step != nil {
		return nil, []verdict.Step{*step}
	}
	// The runner would close it too, but the user has few sandboxes.
	defer s.Close() //nolint:errcheck // the runner looks whether the sandbox goes
	a, step := order(ctx, s, names, task{Do: "find", Text: canary})
	if step != nil {
		return nil, []verdict.Step{*step}
	}
	steps := []verdict.Step{a.Did[0].read("find the canary as " + who)}
	held, err := env.Held(ctx, known(env, caller))
	if err != nil {
		return &a, append(steps, probe.Failed("ask the API server for the sandbox of "+who, verdict.TransportError, "%v", err))
	}
	return &a, append(steps, ownBox("run in a sandbox that is not the user's, as "+who, held, a))
}

// towards are the headers that name a sandbox to the router.
func towards(env *suite.APIEnv, h suite.Holding) http.Header {
	out := http.Header{"X-Sandbox-Id": {h.Sandbox}, "X-Sandbox-Uid": {h.UID}, "X-Sandbox-Namespace": {env.Namespace}}
	if len(h.Addresses) > 0 {
		out["X-Sandbox-Pod-Ip"], out["X-Forwarded-For"] = h.Addresses[:1], h.Addresses[:1]
	}
	return out
}

// unknown takes a failed step for no evidence at all: what was to be found was
// there, so that the search is what failed.
func unknown(s verdict.Step) verdict.Step {
	if !s.OK {
		s.Class = verdict.Unknown
	}
	return s
}

// ownBox tells whether a run was in a sandbox that its user has, by the API
// server's word. It is a pure function.
func ownBox(name string, held []suite.Holding, a account) verdict.Step {
	if len(held) == 0 {
		return probe.Failed(name, verdict.Unknown, "the API server knows of no sandbox of the user's")
	}
	if box, ok := boxOf(held, a); ok {
		return probe.Failed(name, verdict.Absent, "it was in %s, which is", box.Sandbox)
	}
	var names []string
	for _, h := range held {
		if len(h.Addresses) == 0 {
			return probe.Failed(name, verdict.Unknown, "sandbox %s has no address any more", h.Sandbox)
		}
		names = append(names, fmt.Sprintf("%s at %s", h.Sandbox, strings.Join(h.Addresses, " ")))
	}
	return probe.Reached(name, "it was in %.60q at %.120q, and the user has %s", a.Host, a.Addresses, strings.Join(names, ", "))
}

// shared tells whether a run was where one of the others was: at the same name and
// at one of its addresses. A Pod that comes after another may have its name, or its
// address. It is a pure function.
func shared(name string, others []account, a account) verdict.Step {
	for _, o := range others {
		if o.Host == a.Host && slices.ContainsFunc(o.Addresses, func(addr string) bool { return slices.Contains(a.Addresses, addr) }) {
			return probe.Reached(name, "both were in %.60q at %.120q", a.Host, a.Addresses)
		}
	}
	return probe.Failed(name, verdict.Absent, "it was in %.60q", a.Host)
}
