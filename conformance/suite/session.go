// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"net/http"
)

// Session is one session of a caller's with the target's server, which has a
// sandbox of its own from its first program on.
type Session interface {
	// ID is what the server calls the session; empty where it has no ids.
	ID() string
	// Run has the server run a program. What the server says no to is an
	// Execution with the status [Refused]; an error means that it did not answer,
	// or that nobody can tell what.
	Run(ctx context.Context, p Program) (Execution, error)
	// Send sends one HTTP request to the very process that has the session. Of
	// the session nothing is added to it, neither its id nor its token.
	Send(ctx context.Context, m Message) (Reply, error)
	// Close ends the session; its sandbox is given back. The runner closes what
	// an action has left open when the action returns.
	Close() error
}

// Refused is the status of an execution that never was: the server said no.
const Refused = "refused"

// Message is one HTTP request, as it goes out.
type Message struct {
	Method string
	Path   string // with its query
	Header http.Header
	Body   string
}

// Reply is what came back. It is bounded; the rest of a longer body is lost.
type Reply struct {
	Code   int
	Header http.Header
	Body   string
}

// Holding is a sandbox that a caller has, by the API server's word.
type Holding struct {
	// Claim is the UID of the SandboxClaim: one that is made later has another.
	Claim string
	// Sandbox is the name of the Sandbox that the claim has got, and UID its
	// own; empty while it has none.
	Sandbox, UID string
	// Addresses are the Pod's.
	Addresses []string
}
