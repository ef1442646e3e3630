// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// Google's addresses.
const (
	GoogleIssuer = "https://accounts.google.com"
	GoogleKeys   = "https://www.googleapis.com/oauth2/v3/certs"
)

// GoogleOptions say whose sign-in is taken.
type GoogleOptions struct {
	// ClientID is the OAuth client that users sign in to: the audience of their
	// ID tokens. A token for another application proves nothing here, even
	// though Google signed it.
	ClientID string
	// Issuer is who signs; empty means Google.
	Issuer string
	Keys   KeySet
	// Emails and Domains are the allow-list: single addresses, and whole
	// Workspace domains. At least one must be named.
	Emails, Domains []string
	Now             func() time.Time // nil means time.Now
}

// Google verifies Google's ID tokens.
type Google struct {
	verifier        *oidc.IDTokenVerifier
	issuer          string
	emails, domains []string
}

// NewGoogle returns a verifier. It asks nobody yet.
func NewGoogle(o GoogleOptions) (*Google, error) {
	if o.ClientID == "" || o.Keys == nil {
		return nil, errors.New("setting up Google sign-in: it needs a client id and keys")
	}
	if len(o.Emails)+len(o.Domains) == 0 {
		return nil, errors.New("setting up Google sign-in: the allow-list is empty; everybody has a Google account")
	}
	if o.Issuer == "" {
		o.Issuer = GoogleIssuer
	}
	var algs []string
	for _, a := range algorithms {
		algs = append(algs, string(a))
	}
	g := &Google{issuer: o.Issuer, verifier: oidc.NewVerifier(o.Issuer, o.Keys, &oidc.Config{
		ClientID: o.ClientID, Now: o.Now, SupportedSigningAlgs: algs,
	})}
	for _, e := range o.Emails {
		folded, ok := fold(e)
		if !ok || strings.Count(folded, "@") != 1 {
			return nil, fmt.Errorf("setting up Google sign-in: %q is no e-mail address", e)
		}
		g.emails = append(g.emails, folded)
	}
	for _, d := range o.Domains {
		folded, ok := fold(d)
		if !ok || !strings.Contains(folded, ".") || strings.ContainsAny(folded, "@*") {
			return nil, fmt.Errorf("setting up Google sign-in: %q is no domain", d)
		}
		g.domains = append(g.domains, folded)
	}
	return g, nil
}

// fold returns an address or a domain in lower case. Outside of ASCII there are
// letters whose lower case is an ASCII one (the Kelvin sign becomes k), and
// letters that only look like one: none of either is taken.
func fold(s string) (string, bool) {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", false
	}
	return strings.ToLower(s), true
}

// maxToken is longer than any ID token of Google's, in bytes.
const maxToken = 8 << 10

// Verify implements [Verifier]. A token that Google signed for this client is
// valid whoever its bearer is; [Identity.Allowed] tells whether the list has them.
func (g *Google) Verify(ctx context.Context, token string) (Identity, error) {
	if len(token) > maxToken {
		return Identity{}, fmt.Errorf("%w: it is no ID token", ErrInvalid)
	}
	// Its form, and what it says it was signed with, before anybody is asked.
	if _, err := jose.ParseSignedCompact(token, algorithms); err != nil {
		return Identity{}, fmt.Errorf("%w: it is no ID token", ErrInvalid)
	}
	t, err := g.verifier.Verify(ctx, token)
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	var claims struct {
		Email string `json:"email"`
		// A boolean, not a text that may say "false".
		EmailVerified bool   `json:"email_verified"`
		HostedDomain  string `json:"hd"`
	}
	if err := t.Claims(&claims); err != nil {
		return Identity{}, fmt.Errorf("%w: reading its claims: %w", ErrInvalid, err)
	}
	if t.Subject == "" {
		return Identity{}, fmt.Errorf("%w: it has no subject", ErrInvalid)
	}
	// A token that others take as well, any of them could have passed on.
	if len(t.Audience) != 1 {
		return Identity{}, fmt.Errorf("%w: it is for %d applications", ErrInvalid, len(t.Audience))
	}
	return Identity{
		User: "oidc:" + g.issuer + ":" + t.Subject, Name: claims.Email,
		Allowed: g.allowed(claims.Email, claims.EmailVerified, claims.HostedDomain),
		Expires: t.Expiry,
	}, nil
}

// allowed consults the list. A domain is taken from hd, which Google sets for
// accounts that the domain's Workspace manages, and never from the address:
// anybody can open a Google account with an address of any domain. Such an
// account's address was verified once, and may be somebody else's by now: Google
// speaks for an address if it is Gmail's own, or hd is there.
func (g *Google) allowed(email string, verified bool, domain string) bool {
	address, ok := fold(email)
	if !ok || !verified {
		return false
	}
	hosted, managed := fold(domain)
	if slices.Contains(g.emails, address) && (managed || strings.HasSuffix(address, "@gmail.com")) {
		return true
	}
	return managed && slices.Contains(g.domains, hosted)
}
