// SPDX-License-Identifier: Apache-2.0

package metadata

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"
)

// Secret is a token's value. Printed or logged it is nothing.
type Secret string

// String hides the value from fmt.
func (Secret) String() string { return "[secret]" }

// GoString hides the value from fmt's %#v.
func (Secret) GoString() string { return "[secret]" }

// LogValue hides the value from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue("[secret]") }

// MarshalJSON hides the value from whoever writes a struct that it is in.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"[secret]"`), nil }

// Token is an access token and when it ends.
type Token struct {
	Value   Secret
	Expires time.Time
}

// Source mints tokens, a new one each time, that live about as long as asked.
type Source interface {
	Mint(ctx context.Context, lifetime time.Duration) (Token, error)
}

// Random mints tokens that mean nothing to Google: for clusters where something
// else plays it and asks [Control] which are good.
type Random struct{ Now func() time.Time }

// Mint implements [Source].
func (r Random) Mint(_ context.Context, lifetime time.Duration) (Token, error) {
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	return Token{Value: Secret("stockade." + rand.Text() + rand.Text()), Expires: now().Add(lifetime)}, nil
}

// IAM mints tokens of a service account at Google's IAM Credentials API, as the
// identity of the Pod that this runs in, which needs the role Service Account
// Token Creator on it. The metadata server's own token will not do: it is the
// same for everybody, for an hour.
type IAM struct {
	Account string   // the service account's e-mail address
	Scopes  []string // of the tokens
	Client  *http.Client
	// Endpoint and Metadata are where Google's servers are; empty means Google's.
	Endpoint, Metadata string
}

const (
	maxAnswer   = 1 << 20
	mintTimeout = 10 * time.Second
)

// Mint implements [Source].
func (s IAM) Mint(ctx context.Context, lifetime time.Duration) (Token, error) {
	own, err := s.own(ctx)
	if err != nil {
		return Token{}, fmt.Errorf("asking for the server's own token: %w", err)
	}
	body, err := json.Marshal(map[string]any{"scope": s.Scopes, "lifetime": fmt.Sprintf("%ds", int(lifetime.Seconds()))})
	if err != nil {
		return Token{}, fmt.Errorf("minting a token: %w", err)
	}
	endpoint := s.Endpoint
	if endpoint == "" {
		endpoint = "https://iamcredentials.googleapis.com"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		endpoint+"/v1/projects/-/serviceAccounts/"+url.PathEscape(s.Account)+":generateAccessToken", bytes.NewReader(body))
	if err != nil {
		return Token{}, fmt.Errorf("minting a token: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+string(own))
	req.Header.Set("Content-Type", "application/json")
	var got struct {
		AccessToken string    `json:"accessToken"`
		ExpireTime  time.Time `json:"expireTime"`
	}
	if err := s.ask(req, &got); err != nil {
		return Token{}, fmt.Errorf("minting a token: %w", err)
	}
	if got.AccessToken == "" || got.ExpireTime.IsZero() {
		return Token{}, errors.New("minting a token: the answer has none")
	}
	return Token{Value: Secret(got.AccessToken), Expires: got.ExpireTime}, nil
}

func (s IAM) own(ctx context.Context) (Secret, error) {
	server := s.Metadata
	if server == "" {
		server = "http://metadata.google.internal"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/computeMetadata/v1/instance/service-accounts/default/token", nil)
	if err != nil {
		return "", err
	}
	req.Header.Set(flavorHeader, flavor)
	var got struct {
		AccessToken string `json:"access_token"`
	}
	if err := s.ask(req, &got); err != nil {
		return "", err
	}
	if got.AccessToken == "" {
		return "", errors.New("the answer has none")
	}
	return Secret(got.AccessToken), nil
}

// ask decodes the answer to a request. Its errors have no body in them: one may
// echo what was sent.
func (s IAM) ask(req *http.Request, into any) error {
	client := s.Client
	if client == nil {
		// No redirect: it would carry a credential along.
		client = &http.Client{Timeout: mintTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	res, err := client.Do(req) //nolint:gosec // the address is the operator's
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", req.URL.Host, res.Status)
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(into); err != nil {
		// The decoder's errors quote at most a character of the text.
		return fmt.Errorf("reading the answer of %s: %w", req.URL.Host, err)
	}
	return nil
}
