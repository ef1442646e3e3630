// SPDX-License-Identifier: Apache-2.0

package metadata

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	here      = "10.0.0.7:4711"
	elsewhere = "10.0.0.8:4711"
	account   = "snippets@p.iam.gserviceaccount.com"
	tokenPath = "/computeMetadata/v1/instance/service-accounts/default/token"
)

// clock is a time that tests move.
type clock struct{ atomic.Int64 }

func (c *clock) Now() time.Time          { return time.Unix(c.Load(), 0) }
func (c *clock) advance(d time.Duration) { c.Add(int64(d.Seconds())) }

func server(t *testing.T, change func(*Options)) (*Server, *clock) {
	t.Helper()
	c := &clock{}
	c.Store(1_000_000)
	o := Options{Source: Random{Now: c.Now}, Account: account, Project: "p", Scopes: []string{"https://www.googleapis.com/auth/cloud-platform"}, Now: c.Now}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	require.NoError(t, err)
	return s, c
}

func begin(t *testing.T, s *Server, id string) {
	t.Helper()
	require.NoError(t, s.Begin(Run{ID: id, Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::7")}, Seconds: 60}))
}

func get(s *Server, from, path string, change func(*http.Request)) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, path, nil)
	req.RemoteAddr = from
	req.Header.Set(flavorHeader, flavor)
	if change != nil {
		change(req)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, req)
	return w
}

func tokenAt(t *testing.T, s *Server, from string) Secret {
	t.Helper()
	w := get(s, from, tokenPath, nil)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	var got struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int    `json:"expires_in"`
		TokenType   string `json:"token_type"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	assert.Equal(t, "Bearer", got.TokenType)
	assert.Positive(t, got.ExpiresIn)
	assert.LessOrEqual(t, got.ExpiresIn, 60)
	return Secret(got.AccessToken)
}

func TestARunHasOneTokenAndTheNextRunAnother(t *testing.T) {
	s, _ := server(t, nil)
	begin(t, s, "one")
	first := tokenAt(t, s, here)
	assert.Equal(t, string(first), string(tokenAt(t, s, here)))
	assert.Equal(t, string(first), string(tokenAt(t, s, "[fd00::7]:1")), "the same Pod's other address")
	assert.Equal(t, string(first), string(tokenAt(t, s, "[::ffff:10.0.0.7]:1")))
	assert.True(t, s.Active(first))
	s.End("one")
	assert.False(t, s.Active(first))
	begin(t, s, "two")
	assert.NotEqual(t, string(first), string(tokenAt(t, s, here)))
	assert.False(t, s.Active(first), "a stolen token is no good in the next run")
}

func TestWhoeverAsksAtOnceGetsTheSame(t *testing.T) {
	s, _ := server(t, nil)
	begin(t, s, "one")
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]bool{}
	for range 50 {
		wg.Go(func() {
			body := get(s, here, tokenPath, nil).Body.String()
			mu.Lock()
			defer mu.Unlock()
			seen[body] = true
		})
	}
	wg.Wait()
	assert.Len(t, seen, 1)
}

func TestWithoutARunThereIsNothing(t *testing.T) {
	s, c := server(t, nil)
	paths := []string{"/", "/computeMetadata/v1/", tokenPath, "/computeMetadata/v1/project/project-id"}
	for _, path := range paths {
		assert.Equal(t, http.StatusForbidden, get(s, here, path, nil).Code, "before: %s", path)
	}
	begin(t, s, "one")
	value := tokenAt(t, s, here)
	for _, path := range paths {
		assert.Equal(t, http.StatusForbidden, get(s, elsewhere, path, nil).Code, "another sandbox: %s", path)
	}
	c.advance(61 * time.Second)
	assert.Equal(t, http.StatusForbidden, get(s, here, tokenPath, nil).Code, "its time is over")
	assert.False(t, s.Active(value))
	begin(t, s, "two")
	s.End("two")
	for _, path := range paths {
		assert.Equal(t, http.StatusForbidden, get(s, here, path, nil).Code, "after: %s", path)
	}
}

func TestARequestThatNoLibraryMakesIsRefused(t *testing.T) {
	s, _ := server(t, nil)
	begin(t, s, "one")
	for what, change := range map[string]func(*http.Request){
		"no flavor":    func(r *http.Request) { r.Header.Del(flavorHeader) },
		"other flavor": func(r *http.Request) { r.Header.Set(flavorHeader, "google") },
		"two flavors":  func(r *http.Request) { r.Header.Add(flavorHeader, flavor) },
		"passed on":    func(r *http.Request) { r.Header.Set("X-Forwarded-For", "10.0.0.7") },
		"no address":   func(r *http.Request) { r.RemoteAddr = "@" },
	} {
		w := get(s, here, tokenPath, change)
		assert.Equal(t, http.StatusForbidden, w.Code, what)
		assert.NotContains(t, w.Body.String(), "access_token", what)
	}
	assert.Equal(t, http.StatusMethodNotAllowed, get(s, here, tokenPath, func(r *http.Request) { r.Method = http.MethodPost }).Code)
}

func TestThereIsNoOtherIdentity(t *testing.T) {
	s, _ := server(t, nil)
	begin(t, s, "one")
	const accounts = "/computeMetadata/v1/instance/service-accounts/"
	for _, path := range []string{
		accounts + "owner@p.iam.gserviceaccount.com/token", accounts + "default/identity?audience=x", accounts + account + "/identity?audience=x",
		accounts + "default/../owner/token", accounts + "?recursive=true&x=1x", "/computeMetadata/v1/instance/attributes/kube-env",
		"/computeMetadata/v1beta1/instance/service-accounts/default/token", "/0.1/meta-data/service-accounts/default/acquire",
		"/computeMetadata/v1/?recursive=true",
	} {
		w := get(s, here, path, nil)
		assert.NotContains(t, w.Body.String(), "access_token", path)
		if !strings.Contains(path, "recursive") || path == "/computeMetadata/v1/?recursive=true" {
			assert.Equal(t, http.StatusNotFound, w.Code, path)
		}
	}
	for path, want := range map[string]string{
		accounts: "default/\n" + account + "/\n", accounts + "default/email": account, accounts + account + "/aliases": "default\n",
		"/computeMetadata/v1/project/project-id": "p",
	} {
		assert.Equal(t, want, get(s, here, path, nil).Body.String(), path)
	}
	assert.Contains(t, get(s, here, accounts+"default/?recursive=true", nil).Body.String(), account)
}

// slow ends the run while its token is minted.
type slow struct{ mint func() }

func (s slow) Mint(context.Context, time.Duration) (Token, error) {
	s.mint()
	return Token{Value: "late", Expires: time.Unix(1_000_060, 0)}, nil
}

func TestARunThatEndsWhileItsTokenIsMintedGetsNone(t *testing.T) {
	var s *Server
	s, _ = server(t, func(o *Options) { o.Source = slow{func() { s.End("one") }} })
	begin(t, s, "one")
	w := get(s, here, tokenPath, nil)
	assert.Equal(t, http.StatusForbidden, w.Code)
	assert.False(t, s.Active("late"))
}

type long struct{}

func (long) Mint(context.Context, time.Duration) (Token, error) {
	return Token{Value: "long", Expires: time.Unix(1_000_000, 0).Add(time.Hour)}, nil
}

type broken struct{}

func (broken) Mint(context.Context, time.Duration) (Token, error) { return Token{}, errors.New("no") }

func TestALongLivedTokenIsNotHandedOut(t *testing.T) {
	for _, source := range []Source{long{}, broken{}} {
		s, _ := server(t, func(o *Options) { o.Source = source })
		begin(t, s, "one")
		w := get(s, here, tokenPath, nil)
		assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		assert.NotContains(t, w.Body.String(), "long")
	}
}

func TestNoTokenIsLogged(t *testing.T) {
	var log bytes.Buffer
	s, _ := server(t, func(o *Options) { o.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	begin(t, s, "one")
	value := tokenAt(t, s, here)
	get(s, elsewhere, tokenPath, nil)
	s.o.Log.Info("by mistake", "token", Token{Value: value}, "value", value)
	_, _ = fmt.Fprintf(&log, "%v %+v %#v %s", Token{Value: value}, value, Token{Value: value}, value)
	s.End("one")
	require.NotEmpty(t, log.String())
	assert.NotContains(t, log.String(), string(value))
}

func TestARunIsChecked(t *testing.T) {
	s, _ := server(t, nil)
	ok := netip.MustParseAddr("10.0.0.7")
	for _, r := range []Run{
		{}, {ID: "x", Seconds: 1}, {ID: "x", Addrs: []netip.Addr{ok}}, {ID: "x", Addrs: []netip.Addr{ok}, Seconds: 601},
		{ID: "x", Addrs: []netip.Addr{{}}, Seconds: 1}, {ID: "x", Addrs: []netip.Addr{netip.IPv4Unspecified()}, Seconds: 1},
	} {
		assert.Error(t, s.Begin(r))
	}
	begin(t, s, "one")
	assert.Error(t, s.Begin(Run{ID: "one", Addrs: []netip.Addr{ok}, Seconds: 1}), "nobody takes over another's run")
	_, err := New(Options{})
	assert.Error(t, err)
}

func TestALaterRunOfTheSameSandboxEndsTheEarlier(t *testing.T) {
	s, _ := server(t, nil)
	begin(t, s, "one")
	value := tokenAt(t, s, here)
	begin(t, s, "two")
	assert.False(t, s.Active(value))
}

func TestAGraceKeepsTheIdentityForAsLongAndNoLonger(t *testing.T) {
	s, c := server(t, func(o *Options) { o.Grace = 20 * time.Second })
	begin(t, s, "one")
	value := tokenAt(t, s, here)
	s.End("one")
	assert.True(t, s.Active(value))
	assert.Equal(t, value, tokenAt(t, s, here))
	c.advance(21 * time.Second)
	assert.False(t, s.Active(value))
	assert.Equal(t, http.StatusForbidden, get(s, here, tokenPath, nil).Code)

	// A run that has less time left than the grace gets no more.
	begin(t, s, "two")
	c.advance(55 * time.Second)
	s.End("two")
	c.advance(6 * time.Second)
	assert.Equal(t, http.StatusForbidden, get(s, here, tokenPath, nil).Code)
	_, err := New(Options{Source: Random{}, Account: account, Scopes: []string{"s"}, Grace: time.Hour})
	assert.ErrorContains(t, err, "outlive")
}

func TestTheGatewaysSideWorksOverHTTP(t *testing.T) {
	s, _ := server(t, nil)
	front := httptest.NewServer(Control(s))
	defer front.Close()
	c := Client{URL: front.URL}
	r := Run{ID: "one", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.7")}, Seconds: 60}
	require.NoError(t, c.Begin(t.Context(), r))
	require.Error(t, c.Begin(t.Context(), r))
	value := tokenAt(t, s, here)
	active, err := c.Active(t.Context(), value)
	require.NoError(t, err)
	assert.True(t, active)
	require.NoError(t, c.End(t.Context(), "one"))
	active, err = c.Active(t.Context(), value)
	require.NoError(t, err)
	assert.False(t, active)
	require.NoError(t, c.End(t.Context(), "one"), "it has ended")

	res, err := http.Post(front.URL+RunsPath, "application/json", strings.NewReader(`{"id":"x","admin":true}`))
	require.NoError(t, err)
	defer res.Body.Close()
	assert.Equal(t, http.StatusBadRequest, res.StatusCode)
	// A token in a URL is no question.
	res, err = http.Post(front.URL+IntrospectPath+"?token=x", "application/x-www-form-urlencoded", nil)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.JSONEq(t, `{"active":false}`, string(text))
}

func TestGoogleIsAskedForAFreshShortLivedToken(t *testing.T) {
	google := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case tokenPath:
			assert.Equal(t, flavor, r.Header.Get(flavorHeader))
			_, _ = io.WriteString(w, `{"access_token":"own"}`)
		case "/v1/projects/-/serviceAccounts/" + account + ":generateAccessToken":
			body, _ := io.ReadAll(r.Body)
			assert.Equal(t, "Bearer own", r.Header.Get("Authorization"))
			assert.JSONEq(t, `{"scope":["s"],"lifetime":"60s"}`, string(body))
			_, _ = io.WriteString(w, `{"accessToken":"fresh","expireTime":"2026-01-02T03:04:05Z"}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer google.Close()
	s := IAM{Account: account, Scopes: []string{"s"}, Endpoint: google.URL, Metadata: google.URL}
	got, err := s.Mint(t.Context(), time.Minute)
	require.NoError(t, err)
	assert.Equal(t, "fresh", string(got.Value))
	assert.Equal(t, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), got.Expires)

	s.Account = "other@p.iam.gserviceaccount.com"
	_, err = s.Mint(t.Context(), time.Minute)
	assert.ErrorContains(t, err, "404")
	s.Metadata = google.URL + "/x"
	_, err = s.Mint(t.Context(), time.Minute)
	assert.ErrorContains(t, err, "own token")
}
