// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// appWipe accepts Absent alone. That a file in /app/persist is still there in the
// next call is part of the claim, and shows that the search sees one. Whether the
// sandbox itself is gone after the session, the API server says.
func appWipe() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.app-wipe",
		Title: "Keep a file beyond a call and beyond the session",
		About: "A program leaves files in `/app`: a plain one, one in a folder that nobody may enter, a name that begins with a dot, and one that a process which it leaves behind plants again and again; one " +
			"in `/app/persist`; one in `/tmp`; and one in each of the go command's caches. The next call of the same session must find the one in `/app/persist` and no other in `/app`. After the session's end its sandbox must be gone, by the API server's word, and a new session of the same user must " +
			"be in another one and find nothing at all.",
		Claims: []string{"KG-10"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1005", "T1564.001"},
		Ask:        leaveFiles,
		AskControl: greet("user3"),
		Accept:     []verdict.Class{verdict.Absent},
		As:         []string{"user3"},
		Timeout:    sessionTime + goneTime,
		Mutants:    []string{"kode-gopher-app-elsewhere", "kode-gopher-no-sweep", "kode-gopher-node-persist", "kode-gopher-node-cache", "kode-gopher-node-modules"},
	}
}

// planted are the files that a program leaves, and replanted is the one that a process
// of its own does, which it leaves behind too.
var planted = []string{"/app/persist/kept", "/app/plain", "/app/.hidden", "/app/locked/file", "/tmp/kept", "/tmp/go-build/kept", "/tmp/go/pkg/mod/kept"}

const replanted = "/app/again"

func leaveFiles(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	canary := canaryOf(env)
	s, step := enter(ctx, env, "user3")
	if step != nil {
		return []verdict.Step{*step}
	}
	var tasks []task
	for _, path := range planted {
		tasks = append(tasks, task{Do: "plant", Path: path, Text: canary})
	}
	tasks = append(tasks, task{Do: "replant", Path: replanted, Text: canary}, task{Do: "lock", Path: "/app/locked"})
	search := len(tasks)
	// The search opens what is locked, which is locked again.
	first, step := order(ctx, s, nil, append(tasks, task{Do: "find", Text: canary}, task{Do: "lock", Path: "/app/locked"})...)
	if step != nil {
		return []verdict.Step{*step}
	}
	steps := []verdict.Step{judgeSearch(first.Did[search])}
	for i, d := range first.Did {
		if i != search && !d.OK {
			return append(steps, probe.Failed("leave files in /app", verdict.Unknown, "%.120q", d.Text))
		}
	}
	held, err := env.Held(ctx, known(env, "user3"))
	if err != nil {
		return append(steps, probe.Failed("ask the API server for the session's sandbox", verdict.TransportError, "%v", err))
	}
	second, step := order(ctx, s, nil, task{Do: "find", Text: canary}, task{Do: "read", Path: "/app/persist/kept"})
	if step != nil {
		return append(steps, *step)
	}
	if second.Host != first.Host {
		// What was lost with a sandbox was not wiped, and what was kept is no loss.
		return append(steps, probe.Failed("make the next call in the same sandbox", verdict.Unknown, "it was in %.60q, and the one before in %.60q", second.Host, first.Host))
	}
	steps = append(steps, judgeLeft(second.Did[0]), judgeKept(canary, second.Did[1]))
	if err := s.Close(); err != nil {
		return append(steps, probe.Failed("end the session", verdict.TransportError, "%v", err))
	}
	return append(steps, afterwards(ctx, env, canary, held, first)...)
}

// afterwards looks for what the session has left, from outside and from a new
// session of the same user.
func afterwards(ctx context.Context, env *suite.APIEnv, canary string, held []suite.Holding, first account) []verdict.Step {
	const gone = "keep the sandbox after the session"
	var claims []string
	for _, h := range held {
		claims = append(claims, h.Claim)
	}
	left, err := awaitGone(ctx, env, "user3", claims, goneTime)
	var steps []verdict.Step
	switch {
	case len(claims) == 0:
		steps = append(steps, probe.Failed(gone, verdict.Unknown, "the API server knew of no sandbox of the user's"))
	case err != nil:
		steps = append(steps, probe.Failed(gone, verdict.TransportError, "%v", err))
	case len(left) > 0:
		steps = append(steps, probe.Reached(gone, "%s is still there after %s", strings.Join(left, ", "), goneTime))
	default:
		steps = append(steps, probe.Failed(gone, verdict.Absent, "%d claims are gone", len(claims)))
	}
	s, step := enter(ctx, env, "user3")
	if step != nil {
		return append(steps, *step)
	}
	next, step := order(ctx, s, nil, task{Do: "find", Text: canary})
	if step != nil {
		return append(steps, *step)
	}
	now, err := env.Held(ctx, known(env, "user3"))
	if err != nil {
		return append(steps, probe.Failed("ask the API server for the new session's sandbox", verdict.TransportError, "%v", err))
	}
	return append(steps, next.Did[0].read("find something of the session before"),
		shared("be given the sandbox of the session before", []account{first}, next),
		sameBox("be given it under another claim", held, now))
}

// sameBox tells whether one of the sandboxes that a user has now is one that the
// user had: by its UID, which is nobody else's, whatever it is called. Where the API
// server does not tell one's UID, it has not said that it is another. It is a pure
// function.
func sameBox(name string, before, now []suite.Holding) verdict.Step {
	if len(before) == 0 || len(now) == 0 {
		return probe.Failed(name, verdict.Unknown, "the API server knows of %d sandboxes of the session before, and of %d of the new one", len(before), len(now))
	}
	nameless := func(h suite.Holding) bool { return h.UID == "" }
	for _, h := range now {
		if !nameless(h) && slices.ContainsFunc(before, func(b suite.Holding) bool { return b.UID == h.UID }) {
			return probe.Reached(name, "%.60q was that session's, too", h.Sandbox)
		}
	}
	if slices.ContainsFunc(before, nameless) || slices.ContainsFunc(now, nameless) {
		return probe.Failed(name, verdict.Unknown, "the API server does not tell which sandbox one of the claims has")
	}
	return probe.Failed(name, verdict.Absent, "the API server says that it is another one")
}

// judgeSearch reads a search in the call that left the files: one that misses any
// of them proves nothing in the next call. It is a pure function.
func judgeSearch(d did) verdict.Step {
	step := mustWork(unknown(d.read("find in the call what it left itself")))
	found := strings.Split(d.Text, ", ")
	for _, path := range append(slices.Clone(planted), replanted) {
		if step.OK && !slices.Contains(found, path) {
			step.OK, step.Class, step.Detail = false, verdict.Unknown, fmt.Sprintf("it missed %s: %.200q", path, d.Text)
		}
	}
	return step
}

// judgeLeft reads a search in a later call of the session: only what is in
// /app/persist may be found. It is a pure function.
func judgeLeft(d did) verdict.Step {
	const name = "find in /app what the call before left"
	if !d.OK {
		return d.read(name)
	}
	var more []string
	for place := range strings.SplitSeq(d.Text, ", ") {
		if strings.HasPrefix(place, "/app/") && !strings.HasPrefix(place, "/app/persist/") {
			more = append(more, place)
		}
	}
	if len(more) > 0 {
		return probe.Reached(name, "%.200q", more)
	}
	return probe.Failed(name, verdict.Absent, "only %.200q", d.Text)
}

// judgeKept reads what a later call found in /app/persist: what was kept there,
// or the claim is broken. That a file could not be read does not say that it was not
// kept. It is a pure function.
func judgeKept(canary string, d did) verdict.Step {
	step := mustWork(probe.Failed("find in /app/persist what was kept there", verdict.Absent, "it holds %.80q (%.40q)", d.Text, d.Denial))
	switch {
	case d.OK && d.Text == canary:
		step.OK, step.Class, step.Detail = true, "", "it is there"
	case !d.OK && d.Denial != string(verdict.Absent):
		step.Class = verdict.Unknown
	}
	return step
}
