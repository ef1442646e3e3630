// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// The two scenarios of sign-in are apart because of what they accept. A token that
// proves nothing has to be answered with 401: with 403 the server would have taken
// it, and only the allow-list would stand there. Somebody who is not on the list has
// to be answered with 403: with 401 their token may have been refused for a fault of
// its own, and the list was not asked.

func signInToken() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.sign-in-token",
		Title: "Sign in with an ID token that was not made for this server",
		About: "Takes what an ID token of somebody on the allow-list says, and tries to begin a session with it signed by another key (also under the name of the right one, and with the key or its " +
			"address in the token), by nobody, or with the public key as a shared secret; and with the right signature on a token for another application, for two, of another issuer, that is over, " +
			"has no end or no subject, or is for later; and with a right signature under other claims. The controls begin a session with a right token of somebody whose address is listed, and of " +
			"somebody whose domain is. Where Google is played, as on a laptop, the suite holds the signer's key and the server reads its public part from a file, as it can of Google's keys; everything " +
			"that verifies is the server's own.",
		Claims: []string{"KG-14"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1190", "T1606.002", "T1550.001"},
		Refs: []string{"https://www.rfc-editor.org/rfc/rfc8725", "https://openid.net/specs/openid-connect-core-1_0.html#IDTokenValidation",
			"https://developers.google.com/identity/gsi/web/guides/verify-google-id-token"},
		Ask:        signInWith(worthless),
		AskControl: signIn,
		Server:     true,
		Accept:     []verdict.Class{verdict.HTTP401},
		Timeout:    60 * time.Second,
		Mutants:    []string{"kode-gopher-shared-foreign-signer", "kode-gopher-shared-no-auth"},
	}
}

func signInList() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.sign-in-list",
		Title: "Sign in as somebody who is not on the allow-list",
		About: "Tries to begin a session with ID tokens that are right in everything and belong to somebody else: an account of another domain, of one below, above or beside a listed one or that only looks like it; " +
			"an account with an address in a listed domain that the domain does not manage, which anybody can open; an address that is not verified; a listed address for which nobody speaks, or with " +
			"something before or behind it. The controls are those of the sign-in with other tokens.",
		Claims: []string{"KG-14"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1190", "T1078"},
		Refs:       []string{"https://developers.google.com/identity/openid-connect/openid-connect#an-id-tokens-payload"},
		Ask:        signInWith(strangers),
		AskControl: signIn,
		Server:     true,
		Accept:     []verdict.Class{verdict.HTTP403},
		Timeout:    60 * time.Second,
		Mutants:    []string{"kode-gopher-shared-foreign-domain", "kode-gopher-shared-no-auth"},
	}
}

// idClaims are what an ID token says.
type idClaims map[string]any

// but returns the claims with others in the place of some; nil removes one.
func (c idClaims) but(others idClaims) idClaims {
	out := maps.Clone(c)
	for k, v := range others {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = v
		}
	}
	return out
}

// listed are right claims of those whom the server lets in: somebody of a listed
// domain, and somebody whose address is listed, as far as there are such; at least one.
// Both have an account that a Workspace manages. The nonce tells their runs apart.
func listed(s *suite.SignIn, nonce string) []idClaims {
	of := func(who, address string) idClaims {
		_, domain, _ := strings.Cut(address, "@")
		now := time.Now()
		return idClaims{
			"iss": s.Issuer, "aud": s.ClientID, "azp": s.ClientID, "sub": "stockade" + who + nonce, "email": address, "email_verified": true, "hd": domain,
			"iat": now.Add(-time.Minute).Unix(), "exp": now.Add(10 * time.Minute).Unix(),
		}
	}
	var all []idClaims
	for _, d := range s.Domains[:min(1, len(s.Domains))] {
		all = append(all, of("member", "member@"+d))
	}
	for _, e := range s.Emails[:min(1, len(s.Emails))] {
		all = append(all, of("guest", e))
	}
	return all
}

// joseHeader is the part of a token that says how it is signed.
type joseHeader map[string]any

// signed is a token by the server's own signer.
func signed(s *suite.SignIn, c idClaims) (string, error) {
	return compact(ownHeader(s), c, s.Sign)
}

// ownHeader is that of the server's own signer.
func ownHeader(s *suite.SignIn) joseHeader {
	return joseHeader{"alg": "ES256", "kid": s.KeyID, "typ": "JWT"}
}

// compact writes a JSON Web Signature in its compact form.
func compact(h joseHeader, c idClaims, sign func(input string) (string, error)) (string, error) {
	head, err := json.Marshal(h)
	if err != nil {
		return "", fmt.Errorf("writing a token: %w", err)
	}
	body, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("writing a token: %w", err)
	}
	return idToken(string(head), string(body), sign)
}

const foreignKeyID = "foreign"

// foreignKey is that of a signer whom nobody should trust. It is no secret: anybody
// can make it out of its seed, as the mutant's overlay did, which publishes its
// public part to the server.
func foreignKey() (*ecdsa.PrivateKey, error) {
	seed := sha256.Sum256([]byte("stockade: a signer whom nobody should trust"))
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), seed[:])
	if err != nil {
		return nil, fmt.Errorf("making another signer's key: %w", err)
	}
	return key, nil
}

// idAttempt is one ID token.
type idAttempt struct {
	name  string
	token string
}

// forge collects tokens, and the first error.
type forge struct {
	all []idAttempt
	err error
}

func (f *forge) add(name, token string, err error) {
	if err != nil && f.err == nil {
		f.err = err
	}
	f.all = append(f.all, idAttempt{name, token})
}

// worthless are tokens that prove nothing, each for one reason.
func worthless(s *suite.SignIn, nonce string) ([]idAttempt, error) {
	honest := listed(s, nonce)[0]
	foreign, err := foreignKey()
	if err != nil {
		return nil, err
	}
	sign := func(input string) (string, error) { return suite.SignES256(foreign, input) }
	jwk, err := publicJWK(foreign)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(s.Public)
	if err != nil {
		return nil, fmt.Errorf("writing the signer's public key: %w", err)
	}
	public = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})

	f := &forge{}
	by := func(name string, h joseHeader, sign func(string) (string, error)) {
		token, err := compact(h, honest, sign)
		f.add(name, token, err)
	}
	by("an ID token of another signer", joseHeader{"alg": "ES256", "kid": foreignKeyID, "typ": "JWT"}, sign)
	by("an ID token of another signer, under the name of the right key", ownHeader(s), sign)
	by("an ID token of another signer, without the name of a key", joseHeader{"alg": "ES256", "typ": "JWT"}, sign)
	by("an ID token with the key that it is signed with", joseHeader{"alg": "ES256", "typ": "JWT", "jwk": jwk}, sign)
	by("an ID token with the address of its key", joseHeader{"alg": "ES256", "kid": foreignKeyID, "typ": "JWT", "jku": "https://attacker.stockade.test/keys"}, sign)
	by("an ID token that nobody signed", joseHeader{"alg": "none", "typ": "JWT"}, nobodySigns)
	by("an ID token that nobody signed, under the name of the right key", joseHeader{"alg": "none", "kid": s.KeyID, "typ": "JWT"}, nobodySigns)
	by("an ID token with the public key as a shared secret", joseHeader{"alg": "HS256", "kid": s.KeyID, "typ": "JWT"}, sharedSecret(public))

	but := func(name string, others idClaims) {
		token, err := signed(s, honest.but(others))
		f.add(name, token, err)
	}
	hour := func(n time.Duration) int64 { return time.Now().Add(n * time.Hour).Unix() }
	but("an ID token for another application", idClaims{"aud": "attacker.stockade.test"})
	but("an ID token for another application that this one may act for", idClaims{"aud": "attacker.stockade.test", "azp": s.ClientID})
	but("an ID token for this application and another", idClaims{"aud": []string{s.ClientID, "attacker.stockade.test"}})
	but("an ID token for no application", idClaims{"aud": nil})
	but("an ID token of another issuer", idClaims{"iss": "https://attacker.stockade.test"})
	but("an ID token of an issuer whose name begins with the right one", idClaims{"iss": s.Issuer + ".attacker.stockade.test"})
	but("an ID token that is over", idClaims{"iat": hour(-2), "exp": hour(-1)})
	but("an ID token without an end", idClaims{"exp": nil})
	but("an ID token for later", idClaims{"nbf": hour(1), "exp": hour(2)})
	but("an ID token about nobody", idClaims{"sub": nil})

	// What is signed of one token, and the signature of another, or none.
	by("a right signature under other claims", ownHeader(s), func(string) (string, error) {
		other, err := signed(s, honest.but(idClaims{"aud": "attacker.stockade.test"}))
		return other[strings.LastIndexByte(other, '.')+1:], err
	})
	by("an ID token without its signature", ownHeader(s), nobodySigns)
	return f.all, f.err
}

// publicJWK is a public key as a JSON Web Key (RFC 7517).
func publicJWK(key *ecdsa.PrivateKey) (map[string]any, error) {
	point, err := key.PublicKey.Bytes() // 0x04, x and y
	if err != nil {
		return nil, fmt.Errorf("writing another signer's key: %w", err)
	}
	half := len(point) / 2
	number := base64.RawURLEncoding.EncodeToString
	return map[string]any{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": foreignKeyID, "x": number(point[1 : 1+half]), "y": number(point[1+half:])}, nil
}

// strangers are right tokens of those who are not on the list.
func strangers(s *suite.SignIn, nonce string) ([]idAttempt, error) {
	const elsewhere = "elsewhere.stockade.test"
	honest := listed(s, nonce)[0]
	f := &forge{}
	but := func(name string, others idClaims) {
		c := honest.but(others)
		address, _ := c["email"].(string)
		domain, _ := c["hd"].(string)
		if c["email_verified"] == true && address != "" && (slices.Contains(s.Domains, domain) || domain != "" && slices.Contains(s.Emails, address)) {
			return // no stranger here
		}
		token, err := signed(s, c)
		f.add(name, token, err)
	}
	but("an account of another domain", idClaims{"email": "mallory@" + elsewhere, "hd": elsewhere})
	but("an account of no domain", idClaims{"email": "mallory@gmail.com", "hd": nil})
	but("an account whose address is not verified", idClaims{"email_verified": false})
	but("an account of which is not said whether its address is verified", idClaims{"email_verified": nil})
	but("an account without an address", idClaims{"email": nil})
	for _, domain := range s.Domains[:min(1, len(s.Domains))] {
		_, above, _ := strings.Cut(domain, ".")
		but("an address in a listed domain, of an account that it does not manage", idClaims{"email": "member@" + domain, "hd": nil})
		but("an address in a listed domain, of an account that another manages", idClaims{"email": "member@" + domain, "hd": elsewhere})
		but("an account of a domain below a listed one", idClaims{"email": "mallory@below." + domain, "hd": "below." + domain})
		but("an account of the domain above a listed one", idClaims{"email": "mallory@" + above, "hd": above})
		but("an account of a domain that ends as a listed one does", idClaims{"email": "mallory@not" + domain, "hd": "not" + domain})
		but("an account of a domain that begins as a listed one does", idClaims{"email": "mallory@" + domain + ".attacker.test", "hd": domain + ".attacker.test"})
		// The long s is a letter whose upper case is an ASCII one.
		if alike := strings.Replace(domain, "s", "\u017f", 1); alike != domain {
			but("an account of a domain that looks like a listed one", idClaims{"email": "mallory@" + alike, "hd": alike})
		}
		but("an account of two domains", idClaims{"hd": elsewhere + "," + domain})
	}
	for _, address := range s.Emails[:min(1, len(s.Emails))] {
		user, partner, _ := strings.Cut(address, "@")
		if partner != "gmail.com" { // for whose addresses Google speaks itself
			but("a listed address, of an account that nobody manages", idClaims{"email": address, "hd": nil})
		}
		but("a listed address with something before it", idClaims{"email": "x" + address, "hd": elsewhere})
		but("a listed address with something behind it", idClaims{"email": address + ".attacker.test", "hd": elsewhere})
		but("a listed address with a tag", idClaims{"email": user + "+tag@" + partner, "hd": elsewhere})
		but("a listed address and another", idClaims{"email": "mallory@" + elsewhere + "," + address, "hd": elsewhere})
	}
	return f.all, f.err
}

const noSignIn = "the target names nobody who signs ID tokens for its server (signIn in its descriptor)"

// signInWith tries to begin a session with each of the tokens.
func signInWith(tokens func(s *suite.SignIn, nonce string) ([]idAttempt, error)) suite.APIAction {
	return func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
		if env.SignIn == nil {
			return []verdict.Step{probe.Failed("sign in", verdict.ToolMissing, noSignIn)}
		}
		all, err := tokens(env.SignIn, env.Nonce)
		if err != nil {
			return []verdict.Step{probe.Failed("make the ID tokens", verdict.ToolMissing, "%v", err)}
		}
		steps := make([]verdict.Step, 0, len(all))
		for _, a := range all {
			steps = append(steps, begin(ctx, env, credential{name: a.name, header: http.Header{"Authorization": {"Bearer " + a.token}}}))
		}
		return steps
	}
}

// signIn begins sessions with right tokens, with a real client.
func signIn(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	if env.SignIn == nil {
		return []verdict.Step{probe.Failed("sign in", verdict.ToolMissing, noSignIn)}
	}
	var steps []verdict.Step
	for _, who := range listed(env.SignIn, env.Nonce) {
		name := "open a session and end it as somebody of a listed domain"
		if slices.Contains(env.SignIn.Emails, fmt.Sprint(who["email"])) {
			name = "open a session and end it as somebody whose address is listed"
		}
		token, err := signed(env.SignIn, who)
		if err != nil {
			steps = append(steps, probe.Failed(name, verdict.ToolMissing, "%v", err))
			continue
		}
		s, err := env.Open(ctx, token)
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			steps = append(steps, probe.Failed(name, verdict.TransportError, "%v", err))
			continue
		}
		steps = append(steps, probe.Reached(name, "with an ID token"))
	}
	return steps
}
