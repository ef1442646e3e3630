// SPDX-License-Identifier: Apache-2.0

package metadata

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Where [Control] serves what.
const (
	RunsPath       = "/v1/runs"
	IntrospectPath = "/v1/introspect"
)

const maxControl = 64 << 10 // a request's body, in bytes

// Control returns the gateway's side of a server, for a port of its own that a
// network policy opens to the gateway alone: POST /v1/runs begins a run, DELETE
// /v1/runs/{id} ends it, and POST /v1/introspect tells, as RFC 7662 does, whether
// a token is that of a run that goes on.
func Control(s *Server) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+RunsPath, func(w http.ResponseWriter, req *http.Request) {
		var r Run
		dec := json.NewDecoder(http.MaxBytesReader(w, req.Body, maxControl))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&r); err != nil {
			http.Error(w, "reading the run: "+err.Error(), http.StatusBadRequest)
			return
		}
		if err := s.Begin(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	mux.HandleFunc("DELETE "+RunsPath+"/{id}", func(w http.ResponseWriter, req *http.Request) {
		s.End(req.PathValue("id"))
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST "+IntrospectPath, func(w http.ResponseWriter, req *http.Request) {
		req.Body = http.MaxBytesReader(w, req.Body, maxControl)
		// Of the body only: a token in a URL ends up in logs.
		if err := req.ParseForm(); err != nil {
			http.Error(w, "reading the form", http.StatusBadRequest)
			return
		}
		object(w, map[string]any{"active": s.Active(Secret(req.PostForm.Get("token")))})
	})
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	return mux
}

// Client speaks to [Control].
type Client struct {
	URL  string       // of Control, without a path
	HTTP *http.Client // nil means one of its own
}

const controlTimeout = 10 * time.Second

// Begin begins a run.
func (c Client) Begin(ctx context.Context, r Run) error {
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("beginning a run: %w", err)
	}
	if err := c.do(ctx, http.MethodPost, RunsPath, "application/json", bytes.NewReader(body), http.StatusCreated, nil); err != nil {
		return fmt.Errorf("beginning a run: %w", err)
	}
	return nil
}

// End ends a run. It should be given a context that outlives the run's own.
func (c Client) End(ctx context.Context, id string) error {
	if err := c.do(ctx, http.MethodDelete, RunsPath+"/"+url.PathEscape(id), "", http.NoBody, http.StatusNoContent, nil); err != nil {
		return fmt.Errorf("ending a run: %w", err)
	}
	return nil
}

// Active tells whether a token is that of a run that goes on.
func (c Client) Active(ctx context.Context, value Secret) (bool, error) {
	form := url.Values{"token": {string(value)}}.Encode()
	var got struct {
		Active bool `json:"active"`
	}
	err := c.do(ctx, http.MethodPost, IntrospectPath, "application/x-www-form-urlencoded", strings.NewReader(form), http.StatusOK, &got)
	if err != nil {
		return false, fmt.Errorf("asking about a token: %w", err)
	}
	return got.Active, nil
}

func (c Client) do(ctx context.Context, method, path, contentType string, body io.Reader, want int, into any) error {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, body)
	if err != nil {
		return err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	client := c.HTTP
	if client == nil {
		client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != want {
		return errors.New("the metadata server answered " + res.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(io.LimitReader(res.Body, maxControl)).Decode(into)
}
