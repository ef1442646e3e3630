// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"context"
	_ "embed" // the agent
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// sessions are the attacks by way of the server, as its users: on other sessions
// and other users, on what a session leaves, and on who may have one; and those
// from the Pods that may or may not call it.
//
// What a program says there of itself is the attacker's word. Where the API
// server or the server's own metadata server knows better, they are asked.
//
// Left out, and why:
//   - A token that is used at Google after its run. Google takes it until it
//     expires, minutes later, and the text says no more than that it is
//     short-lived. What the target's metadata server says of it is attacked.
func sessions() []suite.Scenario {
	return []suite.Scenario{
		sessionSeparation(), sessionTakeover(), routerHeaders(), appWipe(),
		runToken(), runIdentity(), authentication(), signInToken(), signInList(), sandboxCap(),
		serverFromStranger(), innerFromClient(),
	}
}

// agent is what sessions run: see its own comment.
//
//go:embed agent/main.go
var agent string

// task is one order for the agent, and did what came of it; the fields are the
// agent's.
type task struct {
	Do      string   `json:"do"`
	Path    string   `json:"path,omitempty"`
	Text    string   `json:"text,omitempty"`
	Address string   `json:"address,omitempty"`
	Header  []string `json:"header,omitempty"`
	Method  string   `json:"method,omitempty"`
}

type did struct {
	OK     bool   `json:"ok"`
	Code   int    `json:"code"`
	Text   string `json:"text"`
	Denial string `json:"denial"`
}

// account is what the agent says of one run.
type account struct {
	Host      string   `json:"host"`
	Addresses []string `json:"addresses"`
	Did       []did    `json:"did"`
}

// Bounds of scenarios with sessions. A program is built anew in each sandbox,
// beside whatever else runs on the node.
const (
	sessionTime = 150 * time.Second
	lookEvery   = 200 * time.Millisecond
	// goneTime is for a sandbox whose session has ended. Mostly it is gone in
	// seconds; where the API server was away just then, the server's lease on it
	// has to end first, and somebody has to notice.
	goneTime = 4 * time.Minute
)

// enter opens a session as a caller. A step tells why there is none.
func enter(ctx context.Context, env *suite.APIEnv, caller string) (suite.Session, *verdict.Step) {
	const name = "open a session"
	if env.Open == nil {
		return nil, &verdict.Step{Name: name, Class: verdict.ToolMissing, Detail: "the target has no server that keeps sessions"}
	}
	s, err := env.Open(ctx, known(env, caller))
	if err != nil {
		return nil, &verdict.Step{Name: name, Class: verdict.TransportError, Detail: fmt.Sprintf("as %q: %v", caller, err)}
	}
	return s, nil
}

// known is a caller as the target knows it: by name, or, where nobody has to
// authenticate, as the one user that there is.
func known(env *suite.APIEnv, caller string) string {
	if len(env.Callers) == 0 {
		return ""
	}
	return caller
}

// order has the agent carry out tasks in a session's sandbox. A step tells why
// there is no account of all of them.
func order(ctx context.Context, s suite.Session, header http.Header, tasks ...task) (account, *verdict.Step) {
	const name = "run a program"
	input, err := json.Marshal(tasks)
	if err != nil {
		return account{}, &verdict.Step{Name: name, Class: verdict.Unknown, Detail: err.Error()}
	}
	x, err := s.Run(ctx, suite.Program{Language: "go", Source: agent, Stdin: string(input), Header: header})
	if err != nil {
		return account{}, &verdict.Step{Name: name, Class: verdict.TransportError, Detail: err.Error()}
	}
	a, err := readAccount(x, len(tasks))
	if err != nil {
		return account{}, &verdict.Step{Name: name, Class: verdict.Unknown, Detail: err.Error()}
	}
	return a, nil
}

// readAccount reads what the agent printed. It is a pure function.
func readAccount(x suite.Execution, tasks int) (a account, err error) {
	if x.Status != "ok" {
		return a, fmt.Errorf("it is %.20q, with code %d: %.200q", x.Status, x.ExitCode, x.Stderr)
	}
	if err := json.Unmarshal([]byte(x.Stdout), &a); err != nil {
		return a, fmt.Errorf("it printed no account: %.120q", x.Stdout)
	}
	if len(a.Did) != tasks || a.Host == "" || len(a.Addresses) == 0 {
		return a, fmt.Errorf("it printed an account of %d tasks of %d, from %.60q at %.120q", len(a.Did), tasks, a.Host, a.Addresses)
	}
	return a, nil
}

// denials are the classes that the agent may say.
var denials = []verdict.Class{verdict.Dropped, verdict.Refused, verdict.Reset, verdict.Unreachable, verdict.NoName, verdict.Absent, verdict.Permission}

// read makes a step of what came of a task.
func (d did) read(name string) verdict.Step {
	class := verdict.Class(d.Denial)
	switch {
	case d.Code != 0:
		return answered(name, d.Code, d.Text)
	case d.OK:
		return probe.Reached(name, "%.300q", d.Text)
	case slices.Contains(denials, class):
		return probe.Failed(name, class, "%.300q", d.Text)
	}
	return probe.Failed(name, verdict.Unknown, "%.300q", d.Text)
}

// answered makes a step of an HTTP answer. A request that is not taken as it is
// (400), or not with this method, is Unsupported. What comes back is not shown
// where it was a success: it may be a token.
func answered(name string, code int, body string) verdict.Step {
	if code >= 200 && code < 300 {
		return probe.Reached(name, "status %d", code)
	}
	class := verdict.Unknown
	switch code {
	case http.StatusUnauthorized:
		class = verdict.HTTP401
	case http.StatusForbidden:
		class = verdict.HTTP403
	case http.StatusNotFound:
		class = verdict.Absent
	case http.StatusBadRequest, http.StatusMethodNotAllowed:
		class = verdict.Unsupported
	}
	return probe.Failed(name, class, "status %d: %.120q", code, body)
}

// replied makes a step of the answer to a request of the suite's own.
func replied(name string, r suite.Reply, err error) verdict.Step {
	if err != nil {
		return probe.Failed(name, verdict.TransportError, "%v", err)
	}
	return answered(name, r.Code, r.Body)
}

// mustWork marks honest work within an attack: without it the attack has shown
// nothing. Its failure is a breach only where the class says that the work was
// refused, and not merely lost.
func mustWork(s verdict.Step) verdict.Step {
	s.Expect = verdict.MustWork
	return s
}

// greet is the control of attacks by way of the server: a caller that may is let
// in, and its session ends.
func greet(caller string) suite.APIAction {
	return func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
		s, step := enter(ctx, env, caller)
		if step != nil {
			return []verdict.Step{*step}
		}
		const name = "open a session and end it"
		if err := s.Close(); err != nil {
			return []verdict.Step{probe.Failed(name, verdict.TransportError, "%v", err)}
		}
		return []verdict.Step{probe.Reached(name, "as %q", known(env, caller))}
	}
}

// awaitGone waits until a caller has no sandbox of those any more, and returns
// those that it has all the same when the time is over. An error means that
// nobody can tell.
func awaitGone(ctx context.Context, env *suite.APIEnv, caller string, claims []string, limit time.Duration) (left []string, err error) { //nolint:unparam // like its neighbours, it is told whose
	over := time.NewTimer(limit)
	defer over.Stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		held, err := env.Held(ctx, known(env, caller))
		left = nil
		for _, h := range held {
			if slices.Contains(claims, h.Claim) {
				left = append(left, h.Sandbox)
			}
		}
		if err == nil && len(left) == 0 {
			return nil, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-over.C:
			return left, err
		case <-tick.C:
		}
	}
}

// boxOf is the sandbox, of those that a caller has, in which a run was by its own
// account: the one with its address.
func boxOf(held []suite.Holding, a account) (suite.Holding, bool) {
	i := slices.IndexFunc(held, func(h suite.Holding) bool {
		return slices.ContainsFunc(h.Addresses, func(addr string) bool { return slices.Contains(a.Addresses, addr) })
	})
	if i < 0 {
		return suite.Holding{}, false
	}
	return held[i], true
}
