// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// authentication accepts HTTP401 alone. A 403 would mean that the server knows
// the caller and has something else against it, and that its list of those who
// may is the only wall.
func authentication() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.authentication",
		Title: "Call the server without a token that it gave out",
		About: "Tries to begin a session with no token, with one that nobody has, with parts and variations of a right one, with its digest, which is all that the server keeps of it, " +
			"and with a right one where it does not belong (another header, a cookie, the address, another scheme). The control begins a session with the right token, with a real client. " +
			"ID tokens are tried by kode-gopher.sign-in-token and kode-gopher.sign-in-list.",
		Claims: []string{"KG-14"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1190", "T1078"},
		Refs:       []string{"https://www.rfc-editor.org/rfc/rfc6750", "https://modelcontextprotocol.io/specification/2025-06-18/basic/authorization"},
		Ask:        knockWithout,
		AskControl: greet("user1"),
		Server:     true,
		Accept:     []verdict.Class{verdict.HTTP401},
		Timeout:    60 * time.Second,
		Mutants:    []string{"kode-gopher-shared-no-auth"},
	}
}

// credential is one way to say who one is.
type credential struct {
	name   string
	header http.Header
	query  string
}

func knockWithout(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	if env.Send == nil || len(env.Callers) == 0 {
		return []verdict.Step{probe.Failed("call the server", verdict.ToolMissing, "the target has no server with callers who authenticate")}
	}
	var steps []verdict.Step
	for _, c := range credentials(env.Token(env.Callers[0]), env.Nonce) {
		steps = append(steps, begin(ctx, env, c))
	}
	// Not only the beginning of a session is guarded.
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		r, err := env.Send(ctx, env.Gateway, "mcp", speak(method, "stockade"+env.Nonce, http.Header{}))
		steps = append(steps, replied(method+" without a token", r, err))
	}
	return steps
}

// begin asks for a session, and ends it if it is given one.
func begin(ctx context.Context, env *suite.APIEnv, c credential) verdict.Step {
	h := c.header.Clone()
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	r, err := env.Send(ctx, env.Gateway, "mcp", suite.Message{Method: http.MethodPost, Path: mcpPath + c.query, Header: h, Body: initialize})
	if id := r.Header.Get("Mcp-Session-Id"); err == nil && id != "" {
		_, _ = env.Send(ctx, env.Gateway, "mcp", speak(http.MethodDelete, id, c.header)) // it ends by itself too
	}
	return replied("begin a session with "+c.name, r, err)
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"stockade","version":"v1alpha1"}}}`

// credentials are those that prove nothing. The names hold no part of a token.
func credentials(token, nonce string) []credential {
	authorization := func(v string) http.Header { return http.Header{"Authorization": {v}} }
	digest := sha256.Sum256([]byte(token))
	return []credential{
		{name: "no token", header: http.Header{}},
		{name: "an empty token", header: authorization("Bearer ")},
		{name: "a token that nobody has", header: authorization("Bearer " + nonce)},
		{name: "a token without its last letter", header: authorization("Bearer " + token[:max(len(token)-1, 0)])},
		{name: "the first letter of a token", header: authorization("Bearer " + token[:min(len(token), 1)])},
		{name: "a token and one letter more", header: authorization("Bearer " + token + "A")},
		{name: "a token in the other case", header: authorization("Bearer " + swapCase(token))},
		{name: "a token and a zero byte in hexadecimal", header: authorization("Bearer " + token + "%00")},
		{name: "the digest of a token", header: authorization("Bearer " + hex.EncodeToString(digest[:]))},
		{name: "the digest as the server writes it", header: authorization("Bearer sha256:" + hex.EncodeToString(digest[:]))},
		{name: "the caller's name", header: authorization("Bearer user1")},
		{name: "a token by the Basic scheme", header: authorization("Basic " + base64.StdEncoding.EncodeToString([]byte("user1:"+token)))},
		{name: "a token without a scheme", header: authorization(token)},
		{name: "a token in another header", header: http.Header{"X-Api-Key": {token}, "X-Goog-Iap-Jwt-Assertion": {token}, "X-Forwarded-User": {"user1"}}},
		{name: "a token in a cookie", header: http.Header{"Cookie": {"token=" + token + "; access_token=" + token}}},
		{name: "a token in the address", header: http.Header{}, query: "?access_token=" + token},
	}
}

func swapCase(s string) string {
	if up := strings.ToUpper(s); up != s {
		return up
	}
	return strings.ToLower(s)
}

// idToken is a JSON Web Token (RFC 7519).
func idToken(header, claims string, sign func(input string) (string, error)) (string, error) {
	input := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	signature, err := sign(input)
	return input + "." + signature, err
}

// nobodySigns is the algorithm "none".
func nobodySigns(string) (string, error) { return "", nil }

// sharedSecret is the algorithm HS256.
func sharedSecret(key []byte) func(input string) (string, error) {
	return func(input string) (string, error) {
		mac := hmac.New(sha256.New, key)
		_, _ = mac.Write([]byte(input)) // a hash never fails to write
		return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), nil
	}
}
