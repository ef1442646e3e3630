// SPDX-License-Identifier: Apache-2.0

package metadata

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	flavorHeader = "Metadata-Flavor"
	flavor       = "Google"
	prefix       = "/computeMetadata/v1/"
)

// MaxLifetime is the longest that a run, and with it its token, may live.
const MaxLifetime = 10 * time.Minute

// Options say whose tokens the server hands out.
type Options struct {
	Source Source
	// Account is the e-mail address of the identity that runs have, Project the
	// project that they are told, Scopes those of the tokens.
	Account, Project string
	Scopes           []string
	// Grace is how long a run's identity outlives it: time for what a program
	// sent last to arrive. Whoever has the token has that time too; 0 is none.
	Grace time.Duration
	Now   func() time.Time // nil means time.Now
	Log   *slog.Logger     // nil is silent
}

// Server is the metadata server. It is safe for concurrent use.
type Server struct {
	o Options

	mu   sync.Mutex
	runs map[string]*run
}

// run is one program's time, during which its sandbox has an identity.
type run struct {
	id    string
	addrs []netip.Addr
	ends  time.Time // guarded by the server's mu

	// minting guards token: the first request mints it, all others have the same.
	minting sync.Mutex
	token   *Token
	digest  [sha256.Size]byte
}

// New returns a server without runs.
func New(o Options) (*Server, error) {
	if o.Source == nil || !strings.Contains(o.Account, "@") || len(o.Scopes) == 0 {
		return nil, errors.New("setting up the metadata server: it needs a source of tokens, a service account and scopes")
	}
	if o.Grace < 0 || o.Grace > MaxLifetime {
		return nil, fmt.Errorf("setting up the metadata server: a run's identity cannot outlive it by %s", o.Grace)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{o: o, runs: map[string]*run{}}, nil
}

// Run is what the gateway says of a run.
type Run struct {
	ID string `json:"id"`
	// Addrs are the sandbox's: requests from there are the run's.
	Addrs []netip.Addr `json:"addrs"`
	// Seconds is how long it may take.
	Seconds int `json:"seconds"`
}

// Begin gives a sandbox an identity. An earlier run of the same sandbox that
// nobody ended is over with it.
func (s *Server) Begin(r Run) error {
	lifetime := time.Duration(r.Seconds) * time.Second
	if r.ID == "" || len(r.ID) > 63 || len(r.Addrs) == 0 || len(r.Addrs) > 8 || lifetime <= 0 || lifetime > MaxLifetime {
		return fmt.Errorf("beginning a run: it needs an id, up to 8 addresses and up to %d seconds", int(MaxLifetime.Seconds()))
	}
	n := &run{id: r.ID, ends: s.o.Now().Add(lifetime)}
	for _, a := range r.Addrs {
		if !a.IsValid() || a.Zone() != "" || a.IsUnspecified() {
			return errors.New("beginning a run: an address is none")
		}
		n.addrs = append(n.addrs, a.Unmap())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[r.ID] != nil {
		return errors.New("beginning a run: there is one of that id")
	}
	now := s.o.Now()
	for id, old := range s.runs {
		same := slices.ContainsFunc(old.addrs, func(a netip.Addr) bool { return slices.Contains(n.addrs, a) })
		if same || now.After(old.ends) {
			delete(s.runs, id)
		}
	}
	s.runs[r.ID] = n
	s.o.Log.Info("a run begins", "run", r.ID)
	return nil
}

// End takes the identity away, at once or after the grace. A run that there is
// not has ended.
func (s *Server) End(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, until := s.runs[id], s.o.Now().Add(s.o.Grace); r != nil && s.o.Grace > 0 {
		if r.ends.After(until) {
			r.ends = until
		}
	} else {
		delete(s.runs, id)
	}
	s.o.Log.Info("a run ended", "run", id)
}

// at returns the run of a sandbox, if there is one now.
func (s *Server) at(addr netip.Addr) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		if slices.Contains(r.addrs, addr) && !s.o.Now().After(r.ends) {
			return r
		}
	}
	return nil
}

// active tells whether a run goes on.
func (s *Server) active(r *run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[r.id] == r && !s.o.Now().After(r.ends)
}

var (
	errOver  = errors.New("handing out a token: the run is over")
	errLives = errors.New("handing out a token: it would outlive what a run may take")
)

// tokenOf returns the run's one token.
func (s *Server) tokenOf(ctx context.Context, r *run) (Token, error) {
	r.minting.Lock()
	defer r.minting.Unlock()
	if r.token == nil {
		s.mu.Lock()
		lifetime := r.ends.Sub(s.o.Now()).Round(time.Second)
		s.mu.Unlock()
		t, err := s.o.Source.Mint(ctx, lifetime)
		if err != nil {
			return Token{}, err
		}
		// A source that takes no notice of how long was asked for makes
		// long-lived ones.
		if t.Expires.After(s.o.Now().Add(MaxLifetime + time.Minute)) {
			return Token{}, errLives
		}
		s.mu.Lock()
		r.token, r.digest = &t, sha256.Sum256([]byte(t.Value))
		s.mu.Unlock()
		s.o.Log.Info("a token was minted", "run", r.id, "expires", t.Expires)
	}
	// Looked at last: minting takes time, in which the run may have ended.
	if !s.active(r) {
		return Token{}, errOver
	}
	return *r.token, nil
}

// Active tells whether a token is that of a run that goes on.
func (s *Server) Active(value Secret) bool {
	digest := sha256.Sum256([]byte(value))
	now := s.o.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		if r.token != nil && r.digest == digest {
			return !now.After(r.ends) && now.Before(r.token.Expires)
		}
	}
	return false
}

// ServeHTTP answers sandboxes, as Google's server answers virtual machines, but
// only what a run needs: 403 for a request that no client library of Google's
// makes, or from where no run is; 404 for everything that is not there, other
// identities first of all.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set(flavorHeader, flavor)
	w.Header().Set("Cache-Control", "no-store")
	from, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil {
		s.refuse(w, "the caller has no address", nil)
		return
	}
	addr := from.Addr().Unmap()
	switch {
	case req.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
		return
	case !slices.Equal(req.Header.Values(flavorHeader), []string{flavor}):
		s.refuse(w, "missing Metadata-Flavor: Google", &addr)
		return
	// A request that somebody else passed on: a proxy that a program talked
	// into it. Google's server refuses it for the same reason.
	case len(req.Header.Values("X-Forwarded-For")) > 0:
		s.refuse(w, "X-Forwarded-For is not taken", &addr)
		return
	}
	r := s.at(addr)
	if r == nil {
		s.refuse(w, "no run of yours goes on", &addr)
		return
	}
	s.answer(w, req, r)
}

// refuse says no. The address is for the log only.
func (s *Server) refuse(w http.ResponseWriter, why string, addr *netip.Addr) {
	s.o.Log.Warn("refused", "why", why, "addr", addr)
	http.Error(w, why, http.StatusForbidden)
}

func (s *Server) answer(w http.ResponseWriter, req *http.Request, r *run) {
	path, ok := strings.CutPrefix(req.URL.Path, prefix)
	if req.URL.Path == "/" {
		// How client libraries find out that there is a metadata server.
		text(w, "computeMetadata/\n")
		return
	}
	account := "instance/service-accounts/"
	for _, name := range []string{"default/", s.o.Account + "/"} {
		if rest, found := strings.CutPrefix(path, account+name); ok && found {
			s.identity(w, req, r, rest)
			return
		}
	}
	switch {
	case ok && path == account:
		text(w, "default/\n"+s.o.Account+"/\n")
	case ok && path == "project/project-id" && s.o.Project != "":
		text(w, s.o.Project)
	case ok && path == "universe/universe-domain":
		text(w, "googleapis.com")
	default:
		s.o.Log.Warn("not found", "run", r.id, "path", req.URL.Path)
		http.NotFound(w, req)
	}
}

// identity answers what is asked of the run's own service account. Identity
// tokens (identity?audience=…) are not among it: they would prove to anybody
// that a snippet is the service account.
func (s *Server) identity(w http.ResponseWriter, req *http.Request, r *run, what string) {
	switch what {
	case "":
		if req.URL.Query().Get("recursive") == "true" {
			object(w, map[string]any{"aliases": []string{"default"}, "email": s.o.Account, "scopes": s.o.Scopes})
			return
		}
		text(w, "aliases\nemail\nscopes\ntoken\n")
	case "aliases":
		text(w, "default\n")
	case "email":
		text(w, s.o.Account)
	case "scopes":
		text(w, strings.Join(s.o.Scopes, "\n")+"\n")
	case "token":
		t, err := s.tokenOf(req.Context(), r)
		if errors.Is(err, errOver) {
			http.Error(w, "the run is over", http.StatusForbidden)
			return
		}
		if err != nil {
			s.o.Log.Error("no token", "run", r.id, "err", err)
			http.Error(w, "there is no token now", http.StatusServiceUnavailable)
			return
		}
		object(w, map[string]any{
			"access_token": string(t.Value), "token_type": "Bearer",
			"expires_in": max(0, int(t.Expires.Sub(s.o.Now()).Seconds())),
		})
	default:
		http.NotFound(w, req)
	}
}

func text(w http.ResponseWriter, s string) {
	w.Header().Set("Content-Type", "application/text")
	_, _ = io.WriteString(w, s)
}

func object(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
