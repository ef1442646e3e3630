// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"context"
	"net/http"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// sessionTakeover accepts what the protocol and HTTP have for it: 401 for nobody,
// 403 for somebody else and for a page of another site, 404 for a session that
// there is not. The requests go to the process that has the session, where the id
// means something.
func sessionTakeover() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.session-takeover",
		Title: "Speak in another's session",
		About: "Knows the id of a user's session, as a log or a proxy would tell it, and sends requests with it: as another user, as nobody, and as a page of another site " +
			"in the user's own browser would. Then tries an id that was not given out. After that the session must still be the user's. Where callers do not authenticate, the id is all that there is to know, and only the last " +
			"two are tried. The control is the user's own request with the id.",
		Claims: []string{"KG-02"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1563", "T1550.004"},
		Refs:       []string{"https://modelcontextprotocol.io/specification/2025-06-18/basic/security_best_practices#session-hijacking"},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			s, step := enter(ctx, env, "user1")
			if step != nil {
				return []verdict.Step{*step}
			}
			if s.ID() == "" {
				return []verdict.Step{probe.Failed("know the session's id", verdict.Unknown, "the server gives none")}
			}
			return takeOver(ctx, env, s)
		},
		AskControl: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			s, step := enter(ctx, env, "user1")
			if step != nil {
				return []verdict.Step{*step}
			}
			r, err := s.Send(ctx, speak(http.MethodPost, s.ID(), bearer(env, "user1")))
			return []verdict.Step{replied("list the tools in the own session", r, err)}
		},
		Accept:  []verdict.Class{verdict.HTTP401, verdict.HTTP403, verdict.Absent},
		As:      []string{"user1"},
		Timeout: 60 * time.Second,
		Mutants: []string{"kode-gopher-shared-no-auth"},
	}
}

func takeOver(ctx context.Context, env *suite.APIEnv, s suite.Session) []verdict.Step {
	page := bearer(env, "user1")
	page.Set("Sec-Fetch-Site", "cross-site")
	page.Set("Origin", "https://attacker.stockade.test")
	type attempt struct {
		name    string
		message suite.Message
	}
	var all []attempt
	if len(env.Callers) > 0 {
		all = append(all,
			attempt{"list the tools as another user", speak(http.MethodPost, s.ID(), bearer(env, "user2"))},
			attempt{"list the tools as nobody", speak(http.MethodPost, s.ID(), http.Header{})},
			attempt{"end the session as another user", speak(http.MethodDelete, s.ID(), bearer(env, "user2"))},
			attempt{"end the session as nobody", speak(http.MethodDelete, s.ID(), http.Header{})})
	}
	all = append(all,
		attempt{"list the tools from a page of another site", speak(http.MethodPost, s.ID(), page)},
		attempt{"use an id that was not given out", speak(http.MethodPost, "stockade"+env.Nonce, bearer(env, "user1"))})
	steps := make([]verdict.Step, 0, len(all)+1)
	for _, a := range all {
		r, err := s.Send(ctx, a.message)
		steps = append(steps, replied(a.name, r, err))
	}
	// A session that is not there, or that one of them has ended after all, would be
	// refused to everybody.
	r, err := s.Send(ctx, speak(http.MethodPost, s.ID(), bearer(env, "user1")))
	return append(steps, mustWork(unknown(replied("list the tools in the own session after all that", r, err))))
}

// mcpPath is where a server speaks MCP.
const mcpPath = "/mcp"

// speak is a request in a session: a harmless question, or its end.
func speak(method, id string, header http.Header) suite.Message {
	h := header.Clone()
	h.Set("Mcp-Session-Id", id)
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	m := suite.Message{Method: method, Path: mcpPath, Header: h}
	if method == http.MethodPost {
		m.Body = `{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{}}`
	}
	return m
}

// bearer authenticates as a caller; as nobody where nobody has to.
func bearer(env *suite.APIEnv, caller string) http.Header {
	h := http.Header{}
	if len(env.Callers) > 0 {
		h.Set("Authorization", "Bearer "+env.Token(caller))
	}
	return h
}
