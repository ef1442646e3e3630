// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	mcpauth "github.com/modelcontextprotocol/go-sdk/auth"
)

// ErrInvalid says that a token proves nothing.
var ErrInvalid = errors.New("authenticating: the token is not valid")

// Identity is who a token proves its bearer to be.
type Identity struct {
	// User tells the user from all others, for as long as there are users. It
	// is no e-mail address: those change hands.
	User string
	// Name is for people to read, in logs.
	Name string
	// Allowed is whether the user may use the gateway at all.
	Allowed bool
	// Expires is when the token does; zero means never.
	Expires time.Time
}

// Verifier judges tokens. Its errors wrap [ErrInvalid], or are that of looking
// something up; none has the token in it.
type Verifier interface {
	Verify(ctx context.Context, token string) (Identity, error)
}

// Any returns a verifier that takes what one of several takes.
func Any(all ...Verifier) Verifier { return anyOf(all) }

type anyOf []Verifier

func (a anyOf) Verify(ctx context.Context, token string) (Identity, error) {
	errs := []error{ErrInvalid}
	for _, v := range a {
		id, err := v.Verify(ctx, token)
		if err == nil {
			return id, nil
		}
		errs = append(errs, err)
	}
	return Identity{}, errors.Join(errs...)
}

// scope is what an allowed user has, and a user who is somebody, but not on the
// list, has not.
const scope = "run"

// Middleware lets requests through that bear the token of an allowed user; the
// MCP library binds a session to that user. All others get 401, or 403 for a
// user who is not on the allow-list, and are not told more: the log is.
func Middleware(v Verifier, log *slog.Logger) func(http.Handler) http.Handler {
	verify := func(ctx context.Context, token string, _ *http.Request) (*mcpauth.TokenInfo, error) {
		id, err := v.Verify(ctx, token)
		if err != nil {
			log.WarnContext(ctx, "not authenticated", "err", err)
			return nil, fmt.Errorf("authenticating: %w", mcpauth.ErrInvalidToken)
		}
		info := &mcpauth.TokenInfo{UserID: id.User, Expiration: id.Expires}
		if id.Allowed {
			info.Scopes = []string{scope}
		} else {
			log.WarnContext(ctx, "not on the allow-list", "user", id.Name)
		}
		return info, nil
	}
	return mcpauth.RequireBearerToken(verify, &mcpauth.RequireBearerTokenOptions{
		Scopes: []string{scope},
		// Static tokens have none; Google's always do, which their verifier checks.
		AllowMissingExpiration: true,
	})
}
