// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stockade-dev/stockade/workloads/gateway"
	"github.com/stockade-dev/stockade/workloads/gateway/auth"
	"github.com/stockade-dev/stockade/workloads/gateway/fake"
	"github.com/stockade-dev/stockade/workloads/gateway/sandboxes"
	"github.com/stockade-dev/stockade/workloads/metadata"
	"github.com/stockade-dev/stockade/workloads/router"
	"github.com/stockade-dev/stockade/workloads/runner"
	"github.com/stockade-dev/stockade/workloads/runner/wire"
)

var goCache = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	return strings.TrimSpace(string(out)), err
})

// system is everything between an MCP client and a sandbox, in this process:
// gateway, router, metadata server and runner are the real ones, and only the
// cluster is played.
type system struct {
	t       *testing.T
	cluster *fake.Cluster
	url     string // the router's
	tokens  *metadata.Server
	control metadata.Client
	// identities are what replicas ask for; the control where nothing stands here.
	identities gateway.Identities
	// pool replaces what gives replicas their sandboxes; nil leaves it.
	pool func(gateway.Pool) gateway.Pool
	// sessions are a user's bound, silence is what ends one of them; 0 leaves them.
	sessions int
	silence  time.Duration
	log      *safeBuffer

	mu   sync.Mutex
	seen []http.Header // what reached the router
}

// safeBuffer is a log that several write to.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// realRunner makes a sandbox of a folder on this machine.
func realRunner(t *testing.T) func(string) fake.Box {
	root := t.TempDir()
	cache, err := goCache()
	require.NoError(t, err)
	return func(name string) fake.Box {
		r, err := runner.New(runner.Options{
			App: filepath.Join(root, name, "app"), Scratch: filepath.Join(root, name, "tmp"), BuildCache: cache,
			Timeouts: runner.Timeouts{Pipes: 100 * time.Millisecond},
		})
		if err != nil {
			panic(err) // of the fake's goroutine
		}
		return fake.Box{Handler: r}
	}
}

func newSystem(t *testing.T, start func(string) fake.Box) *system {
	t.Helper()
	s := &system{t: t, cluster: fake.New(t), log: &safeBuffer{}}
	s.cluster.Start = start
	front, err := router.New(router.Options{
		Resolver: router.Kube{Client: s.cluster.Client()}, Namespaces: []string{fake.Namespace}, Port: 8888, Dial: s.cluster.Dial,
	})
	require.NoError(t, err)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r.Header.Clone())
		s.mu.Unlock()
		front.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	s.url = proxy.URL
	s.tokens, err = metadata.New(metadata.Options{Source: metadata.Random{}, Account: "s@p.iam.gserviceaccount.com", Scopes: []string{"s"}})
	require.NoError(t, err)
	control := httptest.NewServer(metadata.Control(s.tokens))
	t.Cleanup(control.Close)
	s.control = metadata.Client{URL: control.URL}
	return s
}

// replica starts a server and returns its URL. It is stopped with the test.
func (s *system) replica(name string, users ...string) (string, *gateway.Gateway) {
	s.t.Helper()
	log := slog.New(slog.NewTextHandler(s.log, nil))
	pool, err := sandboxes.New(sandboxes.Options{
		Client: s.cluster.Client(), Namespace: fake.Namespace, Pool: "pool", Holder: name,
		Timeouts: sandboxes.Timeouts{Poll: 2 * time.Millisecond}, Log: log,
	})
	require.NoError(s.t, err)
	from := gateway.Pool(pool)
	if s.pool != nil {
		from = s.pool(from)
	}
	identities := s.identities
	if identities == nil {
		identities = s.control
	}
	g, err := gateway.New(context.Background(), gateway.Options{
		Pool: from, Runner: gateway.Router{URL: s.url, Namespace: fake.Namespace, Port: 8888}, Identities: identities, Log: log,
		MaxSessions: s.sessions, SessionTimeout: s.silence,
	})
	require.NoError(s.t, err)
	var guard func(http.Handler) http.Handler
	if len(users) > 0 {
		var file strings.Builder
		for _, u := range users {
			fmt.Fprintf(&file, "%s sha256:%x\n", u, sha256.Sum256([]byte("token-of-"+u)))
		}
		static, err := auth.ParseStatic(strings.NewReader(file.String()))
		require.NoError(s.t, err)
		guard = auth.Middleware(static, log)
	}
	server := httptest.NewServer(g.Handler(guard))
	s.t.Cleanup(server.Close)
	s.t.Cleanup(func() { require.NoError(s.t, g.Close(context.Background())) })
	return server.URL + gateway.MCPPath, g
}

// bearer sends a token, and whatever else a client may think of.
type bearer struct {
	token string
	extra http.Header
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	maps.Copy(r.Header, b.extra)
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// connect opens a session as an MCP client does.
func (s *system) connect(url, user string, extra http.Header) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	b := bearer{extra: extra}
	if user != "" {
		b.token = "token-of-" + user
	}
	return client.Connect(s.t.Context(), &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: b}, DisableStandaloneSSE: true,
	}, nil)
}

func (s *system) mustConnect(url, user string) *mcp.ClientSession {
	s.t.Helper()
	session, err := s.connect(url, user, nil)
	require.NoError(s.t, err)
	return session
}

// call runs a program. An error of the tool is an error.
func call(ctx context.Context, session *mcp.ClientSession, in gateway.Input) (wire.Result, error) {
	var res wire.Result
	got, err := session.CallTool(ctx, &mcp.CallToolParams{Name: gateway.ToolName, Arguments: in})
	if err != nil {
		return res, err
	}
	if got.IsError {
		text, _ := json.Marshal(got.Content)
		return res, errors.New(string(text))
	}
	text, err := json.Marshal(got.StructuredContent)
	if err != nil {
		return res, err
	}
	err = json.Unmarshal(text, &res)
	return res, err
}

func (s *system) run(session *mcp.ClientSession, code string) wire.Result {
	s.t.Helper()
	res, err := call(s.t.Context(), session, gateway.Input{Code: code})
	require.NoError(s.t, err)
	require.True(s.t, res.Build.OK, res.Build.Output)
	return res
}

func (s *system) empty() {
	s.t.Helper()
	assert.Eventually(s.t, func() bool { return len(s.cluster.Claims()) == 0 && len(s.cluster.Pods()) == 0 }, 30*time.Second, time.Millisecond)
}

func TestAnHonestClientWorks(t *testing.T) {
	s := newSystem(t, realRunner(t))
	url, _ := s.replica("a", "alice")
	session := s.mustConnect(url, "alice")
	tools, err := session.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, tools.Tools, 1)
	assert.Empty(t, s.cluster.Claims(), "a session that runs nothing needs no sandbox")

	// Three programs: a snippet, a program with input and arguments, and one of
	// several files.
	res := s.run(session, `fmt.Println("hello", 6*7)`)
	assert.Equal(t, "hello 42\n", res.Stdout)
	res, err = call(t.Context(), session, gateway.Input{
		Code:  "package main\nimport (\"io\"; \"os\")\nfunc main() { io.Copy(os.Stdout, os.Stdin); os.Exit(len(os.Args)) }\n",
		Stdin: "through", Args: []string{"x", "y"},
	})
	require.NoError(t, err)
	assert.Equal(t, "through", res.Stdout)
	assert.Equal(t, 3, res.ExitCode)
	res, err = call(t.Context(), session, gateway.Input{Files: []wire.File{
		{Path: "go.mod", Content: "module example.com/app\n\ngo 1.26\n"},
		{Path: "main.go", Content: "package main\nimport \"example.com/app/greet\"\nfunc main() { print(greet.Word) }\n"},
		{Path: "greet/greet.go", Content: "package greet\nconst Word = \"hi\"\n"},
	}})
	require.NoError(t, err)
	assert.Equal(t, "hi", res.Stderr)

	// One file is kept and one is lost.
	s.run(session, `for _, f := range []string{"persist/kept", "lost"} { if err := os.WriteFile(f, []byte("x"), 0o600); err != nil { panic(err) } }`)
	const look = `for _, f := range []string{"persist/kept", "lost"} { _, err := os.Stat(f); fmt.Println(f, err == nil) }`
	assert.Equal(t, "persist/kept true\nlost false\n", s.run(session, look).Stdout)
	assert.Len(t, s.cluster.Pods(), 1, "all in one sandbox")

	// After release there is nothing.
	require.NoError(t, session.Close())
	s.empty()
	next := s.mustConnect(url, "alice")
	assert.Equal(t, "persist/kept false\nlost false\n", s.run(next, look).Stdout)
	require.NoError(t, next.Close())
	s.empty()
}

func TestABuildThatFailsIsAResult(t *testing.T) {
	s := newSystem(t, realRunner(t))
	url, _ := s.replica("a")
	session := s.mustConnect(url, "")
	res, err := call(t.Context(), session, gateway.Input{Code: "nonsense()"})
	require.NoError(t, err)
	assert.False(t, res.Build.OK)
	assert.Contains(t, res.Build.Output, "undefined: nonsense")
	_, err = call(t.Context(), session, gateway.Input{Files: []wire.File{{Path: "../../etc/passwd", Content: "x"}}})
	require.ErrorContains(t, err, "relative path")
	require.NoError(t, session.Close())
}

// canned is a sandbox that builds nothing and does what a test wants.
type canned struct {
	name  string
	delay time.Duration
	did   func(name string, q wire.Request) (int, string)
}

func (c canned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := wire.ReadRequest(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case <-time.After(c.delay):
	case <-r.Context().Done():
		return
	}
	if c.did != nil {
		code, body := c.did(c.name, q)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
		return
	}
	_ = json.NewEncoder(w).Encode(wire.Result{Run: q.Run, Build: wire.Build{OK: true}, Started: true, Stdout: c.name})
}

func cannedRunner(delay time.Duration, did func(string, wire.Request) (int, string)) func(string) fake.Box {
	return func(name string) fake.Box { return fake.Box{Handler: fake.Runner(canned{name, delay, did}.ServeHTTP)} }
}

func TestAHundredSessionsOfFiveUsersShareNothing(t *testing.T) {
	// Each sandbox remembers who was in it.
	var mu sync.Mutex
	canary := map[string]string{}
	var leaked atomic.Int32
	s := newSystem(t, cannedRunner(2*time.Millisecond, func(name string, q wire.Request) (int, string) {
		mu.Lock()
		defer mu.Unlock()
		if was, ok := canary[name]; ok && was != q.Stdin {
			leaked.Add(1)
		}
		canary[name] = q.Stdin
		text, _ := json.Marshal(wire.Result{Run: q.Run, Build: wire.Build{OK: true}, Started: true, Stdout: name})
		return http.StatusOK, string(text)
	}))
	s.cluster.Bind, s.cluster.Gone = 3*time.Millisecond, 3*time.Millisecond
	users := []string{"u0", "u1", "u2", "u3", "u4"}
	var urls []string
	for _, name := range []string{"a", "b"} {
		url, _ := s.replica(name, users...)
		urls = append(urls, url)
	}
	var served, refused atomic.Int32
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			session, err := s.connect(urls[i%2], users[i%5], nil)
			if err != nil {
				t.Error(err)
				return
			}
			first := ""
			for range 3 {
				res, err := call(t.Context(), session, gateway.Input{Code: "x", Stdin: fmt.Sprint("session ", i)})
				switch {
				case err == nil && (first == "" || first == res.Stdout):
					first = res.Stdout
					served.Add(1)
				case err == nil:
					t.Errorf("session %d was in %s and then in %s", i, first, res.Stdout)
				case strings.Contains(err.Error(), "as many as a user may have"):
					refused.Add(1)
				default:
					t.Error(err)
				}
			}
			if err := session.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	assert.Zero(t, leaked.Load())
	assert.Equal(t, int32(300), served.Load()+refused.Load())
	assert.GreaterOrEqual(t, served.Load(), int32(30), "each user has two at least")
	most := s.cluster.Most()
	assert.Len(t, most, len(users))
	for user, n := range most {
		assert.LessOrEqual(t, n, sandboxes.MaxPerUser, user)
	}
	s.empty()
	t.Logf("%d calls were served and %d refused", served.Load(), refused.Load())
}

func TestNothingThatAClientSendsDecidesWhereARequestGoes(t *testing.T) {
	s := newSystem(t, cannedRunner(0, nil))
	url, _ := s.replica("a", "alice", "mallory")
	victim := s.mustConnect(url, "alice")
	victimsBox, err := call(t.Context(), victim, gateway.Input{Code: "x"})
	require.NoError(t, err)

	attacker, err := s.connect(url, "mallory", http.Header{
		router.IDHeader: {victimsBox.Stdout}, router.NamespaceHeader: {"kube-system"}, router.PortHeader: {"22"},
		router.PodIPHeader: {"169.254.169.254"}, router.UIDHeader: {"uid-" + victimsBox.Stdout}, "X-Forwarded-For": {"10.0.0.1"},
		"Cookie": {"a=b"},
	})
	require.NoError(t, err)
	res, err := call(t.Context(), attacker, gateway.Input{Code: "x"})
	require.NoError(t, err)
	assert.NotEqual(t, victimsBox.Stdout, res.Stdout)
	s.mu.Lock()
	last := s.seen[len(s.seen)-1]
	s.mu.Unlock()
	assert.Equal(t, []string{res.Stdout}, last[router.IDHeader])
	assert.Equal(t, []string{fake.Namespace}, last[router.NamespaceHeader])
	assert.Equal(t, []string{"8888"}, last[router.PortHeader])
	for _, name := range []string{router.PodIPHeader, "Authorization", "X-Forwarded-For", "Cookie", "Mcp-Session-Id"} {
		assert.Empty(t, last.Values(name), name)
	}
	for _, session := range []*mcp.ClientSession{victim, attacker} {
		require.NoError(t, session.Close())
	}
}

func TestAnothersSessionIsNobodysToUse(t *testing.T) {
	s := newSystem(t, cannedRunner(0, nil))
	url, _ := s.replica("a", "alice", "mallory")
	victim := s.mustConnect(url, "alice")
	_, err := call(t.Context(), victim, gateway.Input{Code: "x"})
	require.NoError(t, err)
	post := func(token, method, body string) int {
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Mcp-Session-Id", victim.ID())
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	const body = `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"run_go","arguments":{"code":"x"}}}`
	assert.Equal(t, http.StatusUnauthorized, post("", http.MethodPost, body))
	assert.Equal(t, http.StatusUnauthorized, post("token-of-nobody", http.MethodPost, body))
	assert.Equal(t, http.StatusForbidden, post("token-of-mallory", http.MethodPost, body))
	assert.Equal(t, http.StatusForbidden, post("token-of-mallory", http.MethodDelete, ""))
	assert.Equal(t, http.StatusOK, post("token-of-alice", http.MethodPost, body))
	assert.Len(t, s.cluster.Pods(), 1)
	require.NoError(t, victim.Close())
}

func TestARunsTokenIsGoneWithTheRun(t *testing.T) {
	// The program asks for its token, as a client library of Google's does.
	var s *system
	var mu sync.Mutex
	var stolen []metadata.Secret
	ask := func(ip string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(http.MethodGet, "/computeMetadata/v1/instance/service-accounts/default/token", nil)
		req.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(ip), 4711).String()
		req.Header.Set("Metadata-Flavor", "Google")
		w := httptest.NewRecorder()
		s.tokens.ServeHTTP(w, req)
		return w
	}
	s = newSystem(t, cannedRunner(0, func(_ string, q wire.Request) (int, string) {
		w := ask("10.99.0.3")
		var got struct {
			AccessToken string `json:"access_token"`
		}
		_ = json.Unmarshal(w.Body.Bytes(), &got)
		mu.Lock()
		defer mu.Unlock()
		stolen = append(stolen, metadata.Secret(got.AccessToken))
		text, _ := json.Marshal(wire.Result{Run: q.Run, Build: wire.Build{OK: true}, Started: true, Stdout: fmt.Sprint(w.Code, s.tokens.Active(stolen[len(stolen)-1]))})
		return http.StatusOK, string(text)
	}))
	url, _ := s.replica("a")
	session := s.mustConnect(url, "")
	for range 2 {
		res, err := call(t.Context(), session, gateway.Input{Code: "x"})
		require.NoError(t, err)
		assert.Equal(t, "200 true", res.Stdout)
		assert.Equal(t, http.StatusForbidden, ask("10.99.0.3").Code, "the run is over")
	}
	require.Len(t, stolen, 2)
	assert.NotEqual(t, string(stolen[0]), string(stolen[1]))
	for _, value := range stolen {
		assert.False(t, s.tokens.Active(value))
		assert.NotContains(t, s.log.String(), string(value))
	}
	require.NoError(t, session.Close())
}

// deaf loses the answers to what it passes on, or the first requests.
type deaf struct {
	metadata.Client
	begins bool // whose answers are lost
	ends   int  // how many of which do not arrive
	began  []metadata.Run
}

func (d *deaf) Begin(ctx context.Context, r metadata.Run) error {
	d.began = append(d.began, r)
	err := d.Client.Begin(ctx, r)
	if d.begins {
		return errors.New("no answer")
	}
	return err
}

func (d *deaf) End(ctx context.Context, id string) error {
	if d.ends--; d.ends >= 0 {
		return errors.New("not sent")
	}
	return d.Client.End(ctx, id)
}

func TestNoIdentityStaysForAnAnswerThatWasLost(t *testing.T) {
	for name, d := range map[string]*deaf{"that a run began": {begins: true}, "that it ended": {ends: 2}} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, cannedRunner(0, func(_ string, q wire.Request) (int, string) {
				text, _ := json.Marshal(wire.Result{Run: q.Run, Build: wire.Build{OK: true}, Started: true})
				return http.StatusOK, string(text)
			}))
			d.Client, s.identities = s.control, d
			url, _ := s.replica("a")
			session := s.mustConnect(url, "")
			_, err := call(t.Context(), session, gateway.Input{Code: "x"})
			assert.Equal(t, d.begins, err != nil, err)
			require.Len(t, d.began, 1)
			// An id that goes on cannot begin again.
			assert.NoError(t, s.control.Begin(t.Context(), d.began[0]), "the identity outlived its run")
			require.NoError(t, session.Close())
		})
	}
}

// An identity is an address's: it must be the one that the sandbox has now, and none
// where its Pod has ended and the address may be another session's.
func TestAnIdentityIsGivenToWhereTheSandboxIsNow(t *testing.T) {
	var mu sync.Mutex
	last := ""
	s := newSystem(t, cannedRunner(0, func(name string, q wire.Request) (int, string) {
		mu.Lock()
		defer mu.Unlock()
		last = name
		text, _ := json.Marshal(wire.Result{Run: q.Run, Build: wire.Build{OK: true}, Started: true})
		return http.StatusOK, string(text)
	}))
	d := &deaf{Client: s.control}
	s.identities = d
	url, _ := s.replica("a")
	session := s.mustConnect(url, "")
	run := func() error {
		_, err := call(t.Context(), session, gateway.Input{Code: "x"})
		return err
	}
	require.NoError(t, run())
	require.Len(t, d.began, 1)
	first := last
	moved := map[string]any{"podIPs": []any{"10.98.0.1"}}
	s.cluster.ChangeBox(first, func(o *unstructured.Unstructured) { o.Object["status"] = moved })
	require.ErrorContains(t, run(), "sandbox was lost", "nobody is there in this test")
	require.Len(t, d.began, 2)
	assert.Equal(t, []netip.Addr{netip.MustParseAddr("10.98.0.1")}, d.began[1].Addrs)

	require.NoError(t, run(), "it has another one")
	require.Len(t, d.began, 3)
	assert.NotEqual(t, first, last)
	s.cluster.ChangeBox(last, func(o *unstructured.Unstructured) {
		o.Object["status"] = map[string]any{"podIPs": []any{"10.98.0.2"}, "conditions": []any{map[string]any{"type": "Finished", "status": "True"}}}
	})
	require.ErrorContains(t, run(), "sandbox was lost")
	assert.Len(t, d.began, 3, "no identity for an address that may be another's")
	require.NoError(t, run())
	require.NoError(t, session.Close())
}

func TestASandboxThatIsLostIsReplaced(t *testing.T) {
	for what, answer := range map[string]func(wire.Request) (int, string){
		"it could not be cleaned": func(wire.Request) (int, string) { return http.StatusGone, `{"error":"x"}` },
		"it answers nonsense":     func(wire.Request) (int, string) { return http.StatusOK, "\x1b[2Jnonsense" },
		"it answers another run": func(wire.Request) (int, string) {
			return http.StatusOK, `{"run":"other","build":{"ok":true,"durationMillis":0},"started":true,"exitCode":0,"durationMillis":0}`
		},
		"it redirects": func(wire.Request) (int, string) { return http.StatusFound, "" },
	} {
		t.Run(what, func(t *testing.T) {
			var mu sync.Mutex
			bad := ""
			s := newSystem(t, cannedRunner(0, func(name string, q wire.Request) (int, string) {
				mu.Lock()
				defer mu.Unlock()
				if bad == "" {
					bad = name
				}
				if bad == name {
					return answer(q)
				}
				text, _ := json.Marshal(wire.Result{Run: q.Run, Build: wire.Build{OK: true}, Started: true, Stdout: name})
				return http.StatusOK, string(text)
			}))
			url, _ := s.replica("a")
			session := s.mustConnect(url, "")
			_, err := call(t.Context(), session, gateway.Input{Code: "x"})
			require.ErrorContains(t, err, "sandbox was lost")
			assert.NotContains(t, err.Error(), "\x1b")
			res, err := call(t.Context(), session, gateway.Input{Code: "x"})
			require.NoError(t, err)
			assert.NotEqual(t, bad, res.Stdout)
			require.NoError(t, session.Close())
			s.empty()
		})
	}
}

// ending is a pool whose first sandbox's claim ends at the first renewal after it is due.
type ending struct {
	gateway.Pool
	due  atomic.Bool
	once sync.Once
}

func (*ending) TTL() time.Duration { return 30 * time.Millisecond }

func (e *ending) Renew(ctx context.Context, b *sandboxes.Sandbox) (err error) {
	if e.due.Load() {
		e.once.Do(func() { err = sandboxes.ErrLost })
	}
	if err != nil {
		return err
	}
	return e.Pool.Renew(ctx, b)
}

func TestASandboxThatEndsBetweenTwoCallsIsToldOf(t *testing.T) {
	s := newSystem(t, cannedRunner(0, func(_ string, q wire.Request) (int, string) {
		text, _ := json.Marshal(wire.Result{Run: q.Run, Build: wire.Build{OK: true}, Started: true})
		return http.StatusOK, string(text)
	}))
	pool := &ending{}
	s.pool = func(p gateway.Pool) gateway.Pool { pool.Pool = p; return pool }
	url, _ := s.replica("a")
	session := s.mustConnect(url, "")
	_, err := call(t.Context(), session, gateway.Input{Code: "x"})
	require.NoError(t, err)
	pool.due.Store(true) // not while the first call goes on
	s.empty()
	_, err = call(t.Context(), session, gateway.Input{Code: "x"})
	require.ErrorContains(t, err, "without the files of this one")
	_, err = call(t.Context(), session, gateway.Input{Code: "x"})
	require.NoError(t, err)
	require.NoError(t, session.Close())
	s.empty()
}

func TestASandboxThatDiesIsReplaced(t *testing.T) {
	s := newSystem(t, cannedRunner(0, nil))
	url, _ := s.replica("a")
	session := s.mustConnect(url, "")
	first, err := call(t.Context(), session, gateway.Input{Code: "x"})
	require.NoError(t, err)
	s.cluster.Kill(first.Stdout)
	_, err = call(t.Context(), session, gateway.Input{Code: "x"})
	require.ErrorContains(t, err, "sandbox was lost")
	second, err := call(t.Context(), session, gateway.Input{Code: "x"})
	require.NoError(t, err)
	assert.NotEqual(t, first.Stdout, second.Stdout)
	require.NoError(t, session.Close())
	s.empty()
}

func TestAnAPIServerThatRestartsCostsNoSession(t *testing.T) {
	s := newSystem(t, cannedRunner(0, nil))
	url, _ := s.replica("a")
	session := s.mustConnect(url, "")
	first, err := call(t.Context(), session, gateway.Input{Code: "x"})
	require.NoError(t, err)
	s.cluster.SetDown(true)
	_, err = call(t.Context(), session, gateway.Input{Code: "x"})
	require.ErrorContains(t, err, "try again later")
	assert.NotContains(t, err.Error(), "127.0.0.1", "nothing of the inside is shown")
	s.cluster.SetDown(false)
	again, err := call(t.Context(), session, gateway.Input{Code: "x"})
	require.NoError(t, err)
	assert.Equal(t, first.Stdout, again.Stdout)
	require.NoError(t, session.Close())
	s.empty()
}

func TestAServerThatIsStoppedGivesEverythingBack(t *testing.T) {
	s := newSystem(t, cannedRunner(time.Hour, nil))
	url, g := s.replica("a", "alice", "bob")
	var wg sync.WaitGroup
	for _, user := range []string{"alice", "alice", "bob"} {
		session := s.mustConnect(url, user)
		wg.Go(func() {
			_, err := call(t.Context(), session, gateway.Input{Code: "x"})
			assert.Error(t, err)
		})
	}
	require.Eventually(t, func() bool { return len(s.cluster.Pods()) == 3 }, 30*time.Second, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, g.Close(ctx))
	s.empty()
	wg.Wait()
}

func TestAServerThatCrashedLeavesNothingForItsSuccessor(t *testing.T) {
	s := newSystem(t, cannedRunner(0, nil))
	url, _ := s.replica("a")
	_, err := call(t.Context(), s.mustConnect(url, ""), gateway.Input{Code: "x"})
	require.NoError(t, err)
	require.Len(t, s.cluster.Claims(), 1)
	// The successor has the name, and none of the memory.
	_, successor := s.replica("a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { assert.NoError(t, successor.Maintain(ctx)) })
	s.empty()
	cancel()
	wg.Wait()
}

func TestCallsOfASessionWaitForEachOther(t *testing.T) {
	s := newSystem(t, cannedRunner(20*time.Millisecond, nil))
	url, _ := s.replica("a")
	session := s.mustConnect(url, "")
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			_, err := call(t.Context(), session, gateway.Input{Code: "x"})
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	assert.Len(t, s.cluster.Pods(), 1)
	require.NoError(t, session.Close())
}

func TestASessionOverStandardStreams(t *testing.T) {
	s := newSystem(t, cannedRunner(0, nil))
	_, g := s.replica("a")
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() { assert.NoError(t, g.ServeIO(t.Context(), toServer, fromServer)) })
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: toClient, Writer: fromClient}, nil)
	require.NoError(t, err)
	res, err := call(t.Context(), session, gateway.Input{Code: "x"})
	require.NoError(t, err)
	assert.Equal(t, []string{res.Stdout}, s.cluster.Pods())
	require.NoError(t, session.Close())
	wg.Wait()
	s.empty()
}

func TestAPageInABrowserCannotSpeakForItsReader(t *testing.T) {
	s := newSystem(t, cannedRunner(0, nil))
	url, _ := s.replica("a")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	assert.Equal(t, http.StatusForbidden, res.StatusCode)
}
