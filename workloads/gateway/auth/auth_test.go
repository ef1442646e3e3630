// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	mcpauth "github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const client = "stockade-client"

// signer plays Google.
type signer struct {
	rsa   *rsa.PrivateKey
	ecdsa *ecdsa.PrivateKey
}

var google = sync.OnceValue(func() signer {
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return signer{r, e}
})

func (s signer) keys() KeySet {
	return &oidc.StaticKeySet{PublicKeys: []crypto.PublicKey{s.rsa.Public(), s.ecdsa.Public()}}
}

func sign(t *testing.T, alg jose.SignatureAlgorithm, key any, claims map[string]any) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, nil)
	require.NoError(t, err)
	text, err := json.Marshal(claims)
	require.NoError(t, err)
	jws, err := s.Sign(text)
	require.NoError(t, err)
	token, err := jws.CompactSerialize()
	require.NoError(t, err)
	return token
}

func claims(change func(map[string]any)) map[string]any {
	c := map[string]any{
		"iss": GoogleIssuer, "aud": client, "sub": "1234", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(),
		"email": "Alice@example.com", "email_verified": true, "hd": "example.com",
	}
	if change != nil {
		change(c)
	}
	return c
}

func newGoogle(t *testing.T, emails, domains []string) *Google {
	t.Helper()
	g, err := NewGoogle(GoogleOptions{ClientID: client, Keys: google().keys(), Emails: emails, Domains: domains})
	require.NoError(t, err)
	return g
}

func TestASignedInUserIsKnownByTheSubject(t *testing.T) {
	g := newGoogle(t, []string{"alice@Example.com"}, nil)
	for alg, key := range map[jose.SignatureAlgorithm]any{jose.RS256: google().rsa, jose.ES256: google().ecdsa} {
		id, err := g.Verify(t.Context(), sign(t, alg, key, claims(nil)))
		require.NoError(t, err)
		assert.True(t, id.Allowed)
		assert.Equal(t, "oidc:https://accounts.google.com:1234", id.User)
		assert.False(t, id.Expires.IsZero())
	}
}

func TestATokenThatProvesNothingIsRefused(t *testing.T) {
	g := newGoogle(t, []string{"alice@example.com"}, nil)
	k := google()
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	good := sign(t, jose.RS256, k.rsa, claims(nil))
	parts := strings.Split(good, ".")
	encode := base64.RawURLEncoding.EncodeToString
	none := encode([]byte(`{"alg":"none"}`)) + "." + parts[1] + "."
	admin, err := json.Marshal(claims(func(c map[string]any) { c["sub"] = "1" }))
	require.NoError(t, err)
	public := x509.MarshalPKCS1PublicKey(&k.rsa.PublicKey)
	with := func(name string, value any) string {
		return sign(t, jose.RS256, k.rsa, claims(func(c map[string]any) {
			if value == nil {
				delete(c, name)
			} else {
				c[name] = value
			}
		}))
	}
	for what, token := range map[string]string{
		"empty":                        "",
		"no token":                     "a.b.c",
		"too long":                     good + strings.Repeat("A", maxToken),
		"signed by a stranger":         sign(t, jose.RS256, stranger, claims(nil)),
		"not signed":                   none,
		"signature taken off":          parts[0] + "." + parts[1] + ".",
		"other claims under it":        parts[0] + "." + encode(admin) + "." + parts[2],
		"signed with the public key":   sign(t, jose.HS256, public, claims(nil)),
		"another algorithm":            sign(t, jose.PS256, k.rsa, claims(nil)),
		"a weaker algorithm":           sign(t, jose.RS384, k.rsa, claims(nil)),
		"for another application":      with("aud", "another-client"),
		"for another application too":  with("aud", []string{client, "another-client"}),
		"for nobody":                   with("aud", nil),
		"by another issuer":            with("iss", "https://accounts.google.com.evil.example.com"),
		"by no issuer":                 with("iss", nil),
		"expired":                      with("exp", time.Now().Add(-time.Minute).Unix()),
		"without end":                  with("exp", nil),
		"of tomorrow":                  with("nbf", time.Now().Add(24*time.Hour).Unix()),
		"about nobody":                 with("sub", nil),
		"with a text for verification": with("email_verified", "true"),
	} {
		_, err := g.Verify(t.Context(), token)
		assert.ErrorIs(t, err, ErrInvalid, what)
		if len(token) > 100 {
			assert.NotContains(t, err.Error(), token[:50], what)
		}
	}
}

// gmail makes an account without a Workspace of its address.
func gmail(c map[string]any, address string) {
	c["email"] = address
	delete(c, "hd")
}

func TestTheAllowListDecides(t *testing.T) {
	k := google()
	for what, c := range map[string]struct {
		emails, domains []string
		change          func(map[string]any)
		want            bool
	}{
		"by address":                     {emails: []string{"alice@example.com"}, want: true},
		"by domain":                      {domains: []string{"Example.COM"}, want: true},
		"another address":                {emails: []string{"bob@example.com"}},
		"another domain":                 {domains: []string{"example.org"}},
		"an address that is not proved":  {emails: []string{"alice@example.com"}, change: func(c map[string]any) { c["email_verified"] = false }},
		"no word of it":                  {emails: []string{"alice@example.com"}, change: func(c map[string]any) { delete(c, "email_verified") }},
		"a domain, not proved":           {domains: []string{"example.com"}, change: func(c map[string]any) { c["email_verified"] = false }},
		"a private account of a domain":  {domains: []string{"example.com"}, change: func(c map[string]any) { delete(c, "hd") }},
		"the domain of somebody else":    {domains: []string{"example.com"}, change: func(c map[string]any) { c["hd"] = "evil.com" }},
		"an ending of the domain":        {domains: []string{"example.com"}, change: func(c map[string]any) { c["hd"] = "evil-example.com" }},
		"a domain below":                 {domains: []string{"example.com"}, change: func(c map[string]any) { c["hd"] = "sub.example.com" }},
		"a letter whose lower case is k": {emails: []string{"kim@example.com"}, change: func(c map[string]any) { c["email"] = "\u212aim@example.com" }},
		"a space after":                  {emails: []string{"alice@example.com"}, change: func(c map[string]any) { c["email"] = "alice@example.com " }},
		"a private account's address":    {emails: []string{"alice@example.com"}, change: func(c map[string]any) { delete(c, "hd") }},
		"an empty domain":                {emails: []string{"alice@example.com"}, change: func(c map[string]any) { c["hd"] = "" }},
		"a domain that is none":          {emails: []string{"alice@example.com"}, change: func(c map[string]any) { c["hd"] = " " }},
		"Gmail's own":                    {emails: []string{"alice@gmail.com"}, change: func(c map[string]any) { gmail(c, "Alice@Gmail.com") }, want: true},
		"Gmail's own, not proved":        {emails: []string{"alice@gmail.com"}, change: func(c map[string]any) { gmail(c, "alice@gmail.com"); c["email_verified"] = false }},
		"an ending like Gmail's":         {emails: []string{"alice@evilgmail.com"}, change: func(c map[string]any) { gmail(c, "alice@evilgmail.com") }},
		"another domain of the same":     {emails: []string{"alice@example.org"}, change: func(c map[string]any) { c["email"] = "alice@example.org" }, want: true},
		"a domain in the address alone":  {domains: []string{"example.com"}, change: func(c map[string]any) { c["hd"] = "example.net" }},
		"a domain in hd alone":           {domains: []string{"example.com"}, change: func(c map[string]any) { c["email"] = "alice@alias.example" }, want: true},
		"no address":                     {domains: []string{"example.com"}, change: func(c map[string]any) { delete(c, "email") }},
	} {
		id, err := newGoogle(t, c.emails, c.domains).Verify(t.Context(), sign(t, jose.RS256, k.rsa, claims(c.change)))
		require.NoError(t, err, what)
		assert.Equal(t, c.want, id.Allowed, what)
	}
}

func TestSignInIsNotSetUpForEverybody(t *testing.T) {
	ok := GoogleOptions{ClientID: client, Keys: google().keys(), Emails: []string{"a@b.c"}}
	for what, change := range map[string]func(*GoogleOptions){
		"no client": func(o *GoogleOptions) { o.ClientID = "" },
		"no keys":   func(o *GoogleOptions) { o.Keys = nil },
		"no list":   func(o *GoogleOptions) { o.Emails = nil },
		"no e-mail": func(o *GoogleOptions) { o.Emails = []string{"alice"} },
		"all":       func(o *GoogleOptions) { o.Domains = []string{"*"} },
		"a pattern": func(o *GoogleOptions) { o.Domains = []string{"*.example.com"} },
		"lookalike": func(o *GoogleOptions) { o.Domains = []string{"ex\u0430mple.com"} },
	} {
		o := ok
		change(&o)
		_, err := NewGoogle(o)
		assert.Error(t, err, what)
	}
}

func TestKeysAreReadFromAFile(t *testing.T) {
	k := google()
	write := func(keys ...jose.JSONWebKey) string {
		text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
		require.NoError(t, err)
		return string(text)
	}
	set, err := ParseKeys(strings.NewReader(write(
		jose.JSONWebKey{Key: k.ecdsa.Public(), KeyID: "e", Use: "sig"}, jose.JSONWebKey{Key: k.rsa.Public(), KeyID: "r", Use: "enc"})))
	require.NoError(t, err)
	g, err := NewGoogle(GoogleOptions{ClientID: client, Keys: set, Emails: []string{"alice@example.com"}})
	require.NoError(t, err)
	_, err = g.Verify(t.Context(), sign(t, jose.ES256, k.ecdsa, claims(nil)))
	require.NoError(t, err)
	_, err = g.Verify(t.Context(), sign(t, jose.RS256, k.rsa, claims(nil)))
	require.ErrorIs(t, err, ErrInvalid, "that key is not for signatures")

	for _, bad := range []string{"", "{}", `{"keys":[]}`, write(jose.JSONWebKey{Key: k.rsa}), write(jose.JSONWebKey{Key: []byte("symmetric")})} {
		_, err := ParseKeys(strings.NewReader(bad))
		assert.Error(t, err)
	}
}

func line(name, token string) string {
	return fmt.Sprintf("%s sha256:%x\n", name, sha256.Sum256([]byte(token)))
}

func TestStaticTokensAreKnownByTheirDigests(t *testing.T) {
	s, err := ParseStatic(strings.NewReader("# users\n\n" + line("alice", "one") + line("bob", "two") + line("alice", "three")))
	require.NoError(t, err)
	for token, user := range map[string]string{"one": "static:alice", "two": "static:bob", "three": "static:alice"} {
		id, err := s.Verify(t.Context(), token)
		require.NoError(t, err)
		assert.Equal(t, user, id.User)
		assert.True(t, id.Allowed)
	}
	for _, token := range []string{"", "One", "one ", "onee", fmt.Sprintf("%x", sha256.Sum256([]byte("one")))} {
		_, err := s.Verify(t.Context(), token)
		assert.ErrorIs(t, err, ErrInvalid, token)
	}
}

func TestAFileOfTokensIsChecked(t *testing.T) {
	const secret = "hunter2hunter2"
	for _, text := range []string{
		"", "# nobody\n", "alice " + secret, "alice sha256:" + secret, "alice sha256:00", line("a b", "x"), line("", "x"),
		line("alice", "x") + line("bob", "x"), line("../alice", "x"),
	} {
		_, err := ParseStatic(strings.NewReader(text))
		require.Error(t, err, text)
		assert.NotContains(t, err.Error(), secret)
	}
}

func TestTheFirstThatKnowsATokenDecides(t *testing.T) {
	s, err := ParseStatic(strings.NewReader(line("alice", "one")))
	require.NoError(t, err)
	v := Any(s, newGoogle(t, []string{"alice@example.com"}, nil))
	for token, user := range map[string]string{
		"one": "static:alice", sign(t, jose.RS256, google().rsa, claims(nil)): "oidc:https://accounts.google.com:1234",
	} {
		id, err := v.Verify(t.Context(), token)
		require.NoError(t, err)
		assert.Equal(t, user, id.User)
	}
	_, err = v.Verify(t.Context(), "neither")
	require.ErrorIs(t, err, ErrInvalid)
	_, err = Any().Verify(t.Context(), "x")
	require.ErrorIs(t, err, ErrInvalid, "nobody is not everybody")
}

func TestTheMiddlewareLetsAllowedUsersThroughAndTellsOthersLittle(t *testing.T) {
	s, err := ParseStatic(strings.NewReader(line("alice", "one")))
	require.NoError(t, err)
	var log bytes.Buffer
	h := Middleware(Any(s, newGoogle(t, []string{"alice@example.com"}, nil)), slog.New(slog.NewTextHandler(&log, nil)))(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprint(w, mcpauth.TokenInfoFromContext(r.Context()).UserID)
		}))
	ask := func(header string) (int, string) {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Authorization", header)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	bob := sign(t, jose.RS256, google().rsa, claims(func(c map[string]any) { maps.Copy(c, map[string]any{"email": "bob@example.com", "sub": "5"}) }))
	expired := sign(t, jose.RS256, google().rsa, claims(func(c map[string]any) { c["exp"] = 1 }))
	for header, want := range map[string]int{
		"Bearer one": 200, "": 401, "Basic one": 401, "Bearer": 401, "Bearer secret-guess": 401, "Bearer one two": 401,
		"Bearer " + bob: 403, "Bearer " + expired: 401,
	} {
		code, body := ask(header)
		assert.Equal(t, want, code, header)
		if want != 200 {
			assert.NotContains(t, body, "expired", "the caller is told no reason")
		}
	}
	_, body := ask("Bearer one")
	assert.Equal(t, "static:alice", body)
	assert.NotContains(t, log.String(), "secret-guess")
	assert.NotContains(t, log.String(), expired[:60])
	assert.Contains(t, log.String(), "bob@example.com")
}

func FuzzGoogle(f *testing.F) {
	g, err := NewGoogle(GoogleOptions{ClientID: client, Keys: google().keys(), Emails: []string{"alice@example.com"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2FjY291bnRzLmdvb2dsZS5jb20ifQ.")
	f.Fuzz(func(t *testing.T, token string) {
		if id, err := g.Verify(context.Background(), token); err == nil {
			t.Fatalf("%q was taken for %+v without a signature", token, id)
		}
	})
}

func FuzzParseStatic(f *testing.F) {
	f.Add(line("alice", "one"))
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseStatic(strings.NewReader(text))
		if err == nil && len(s.tokens) == 0 {
			t.Fatal("nobody was taken")
		}
	})
}
