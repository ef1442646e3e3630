// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	mcpauth "github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stockade-dev/stockade/workloads/runner/wire"
)

// MaxSessions is how many sessions a user may have in one server at a time by
// default. It is more than anybody needs with so few sandboxes, and more than the
// suite opens at once when it counts them.
const MaxSessions = 128

// Bounds of what a server keeps for its users, together a part of the memory
// that its Pod may have: reading a request takes some eight times its size.
const (
	maxBody = 2 * wire.MaxRequest // the files of the largest program, as JSON
	// A value of three bytes takes a hundred once it is read. A program of as many
	// files as are taken has less than half of these.
	maxValues = 8 * wire.MaxFiles

	// Bytes of the requests that are under way, and of the calls: a call goes on
	// when whoever made it has hung up.
	userBytes = 3 * wire.MaxRequest
	allBytes  = 2 * userBytes

	allSessions = 8 // times what one user may have
)

// retryAfter is when it may be worth trying again. A session ends by itself when
// it is silent, and a call when its time is over.
const retryAfter = 10 * time.Second

// budget bounds what users may have of something at a time: each user, and all of
// them together.
type budget struct {
	each, all int64

	mu    sync.Mutex
	total int64
	of    map[string]int64
}

func newBudget(each, all int64) *budget { return &budget{each: each, all: all, of: map[string]int64{}} }

// take gives a user n of it, or nothing, at once: a request that waited for memory
// would hold some meanwhile.
func (b *budget) take(user string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of[user]+n > b.each || b.total+n > b.all {
		return false
	}
	b.of[user] += n
	b.total += n
	return true
}

func (b *budget) give(user string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total -= n
	if b.of[user] -= n; b.of[user] == 0 {
		delete(b.of, user)
	}
}

// seat is a session's place among those of its user. It is given back once: by
// the request that asked for the session if there was none in the end, or when
// the session is over.
type seat struct {
	once sync.Once
	give func()
}

type seatKey struct{}

// bounded lets a request through if its user has room for it.
func (g *Gateway) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost { // no other brings anything or begins a session
			next.ServeHTTP(w, r)
			return
		}
		user := g.userOf(mcpauth.TokenInfoFromContext(r.Context()))
		// What has come counts, and not what is announced: that costs nobody anything.
		body := &sparse{ReadCloser: r.Body, left: maxValues, take: func(n int64) bool { return g.bodies.take(user, n) }}
		// Not when it has been read: what was made of it stays until the answer.
		defer func() { g.bodies.give(user, body.taken) }()
		if r.Header.Get("Mcp-Session-Id") == "" {
			if !g.seats.take(user, 1) {
				tryLater(w, "too many sessions are open: end one, or wait until a silent one ends")
				return
			}
			s := &seat{give: func() { g.seats.give(user, 1) }}
			defer s.once.Do(s.give)
			r = r.WithContext(context.WithValue(r.Context(), seatKey{}, s))
		}
		r.Body = body
		next.ServeHTTP(&answer{ResponseWriter: w, body: body}, r)
	})
}

// sparse is a body of JSON without many values, all but their strings, that its
// user has room for.
type sparse struct {
	io.ReadCloser
	left            int
	quoted, escaped bool

	take    func(int64) bool
	taken   int64
	refused bool // there was no room
}

var (
	errDense = errors.New("reading a request: it has too many values")
	errRoom  = errors.New("reading a request: too many bytes of requests are under way")
)

// Read implements [io.Reader].
func (s *sparse) Read(p []byte) (int, error) {
	if s.refused {
		return 0, errRoom
	}
	n, err := s.ReadCloser.Read(p)
	if !s.take(int64(n)) {
		s.refused = true
		return 0, errRoom
	}
	s.taken += int64(n)
	for _, c := range p[:n] {
		switch {
		case s.escaped:
			s.escaped = false
		case c == '"':
			s.quoted = !s.quoted
		case s.quoted:
			s.escaped = c == '\\'
		case c == ',', c == '[', c == '{':
			s.left--
		}
	}
	if s.left < 0 {
		return 0, errDense
	}
	return n, err
}

// answer asks to try again later where the body was not read for want of room. To
// the library every body that cannot be read is a bad request.
type answer struct {
	http.ResponseWriter
	body *sparse
	said bool
}

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(code int) {
	switch {
	case !a.body.refused:
		a.ResponseWriter.WriteHeader(code)
	case !a.said:
		a.said = true
		tryLater(a.ResponseWriter, "too many bytes of requests are under way")
	}
}

// Write implements [http.ResponseWriter].
func (a *answer) Write(p []byte) (int, error) {
	if a.body.refused {
		a.WriteHeader(http.StatusTooManyRequests)
		return len(p), nil
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap is for [http.ResponseController], which has to flush.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// seated keeps the seat of a session that hears something for as long as the
// session lasts. The library closes one that was not initialized with the
// request that asked for it.
func seated(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		s, ok := ctx.Value(seatKey{}).(*seat)
		if ss, is := req.GetSession().(*mcp.ServerSession); ok && is {
			s.once.Do(func() {
				go func() {
					_ = ss.Wait() // why it ended makes no difference
					s.give()
				}()
			})
		}
		return next(ctx, method, req)
	}
}

func tryLater(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	http.Error(w, why+"; try again later", http.StatusTooManyRequests)
}
