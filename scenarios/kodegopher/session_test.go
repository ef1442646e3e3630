// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/conformance/witness"
	"github.com/stockade-dev/stockade/workloads/gateway"
	"github.com/stockade-dev/stockade/workloads/gateway/auth"
	"github.com/stockade-dev/stockade/workloads/gateway/fake"
	"github.com/stockade-dev/stockade/workloads/gateway/sandboxes"
	"github.com/stockade-dev/stockade/workloads/metadata"
	"github.com/stockade-dev/stockade/workloads/router"
	"github.com/stockade-dev/stockade/workloads/runner/wire"
)

const testNonce = "0123456789abcdef0123456789abcdef"

var silent = slog.New(slog.DiscardHandler)

// weak says in which way the target of a test is weaker than it should be, or
// what its sandboxes lie about.
type weak struct {
	noAuth, noIdentity                   bool
	foreignSigner, foreignDomain         bool
	most                                 int
	grace                                time.Duration
	namespaces                           []string // of the router, besides its own
	noWipe, sharedPersist, oneBox, leaks bool
	keepsLocked                          bool // what is in a folder that nobody may enter
	lingers, noSweep                     bool
	lie                                  func(tasks []task, a *account) // of the sandbox, about what it did
	answer                               string                         // of a sandbox, instead of an account
}

// stage is a target in this process: the server, its authentication, the router
// and the metadata server are the real ones, and so is the client. The cluster is
// played, and so are the sandboxes, which do what the agent would.
type stage struct {
	t       *testing.T
	w       weak
	cluster *fake.Cluster
	tokens  *metadata.Server
	env     *suite.APIEnv

	mu      sync.Mutex
	boxes   map[string]*box
	persist map[string]string // where all have one
	ended   time.Time         // the last run
}

// box is the inside of a sandbox.
type box struct {
	host, ip string
	files    map[string]string
	locked   string // a folder
	replants *task  // of a process that was left behind
}

func newStage(t *testing.T, w weak) *stage {
	t.Helper()
	s := &stage{t: t, w: w, cluster: fake.New(t), boxes: map[string]*box{}, persist: map[string]string{}}
	s.cluster.Start = func(name string) fake.Box { return fake.Box{Handler: s.inside(name)} }
	s.cluster.Gone = 5 * time.Millisecond
	front, err := router.New(router.Options{
		Resolver: router.Kube{Client: s.cluster.Client()}, Namespaces: append([]string{fake.Namespace}, w.namespaces...), Port: 8888, Dial: s.cluster.Dial,
	})
	require.NoError(t, err)
	proxy := httptest.NewServer(front)
	t.Cleanup(proxy.Close)
	s.tokens, err = metadata.New(metadata.Options{Source: metadata.Random{}, Account: "s@p.iam.gserviceaccount.com", Scopes: []string{"s"}, Grace: w.grace})
	require.NoError(t, err)
	control := httptest.NewServer(metadata.Control(s.tokens))
	t.Cleanup(control.Close)

	pool, err := sandboxes.New(sandboxes.Options{
		Client: s.cluster.Client(), Namespace: fake.Namespace, Pool: "pool", Holder: "a", MaxPerUser: w.most,
		Timeouts: sandboxes.Timeouts{Poll: 2 * time.Millisecond},
	})
	require.NoError(t, err)
	o := gateway.Options{Pool: pool, Runner: gateway.Router{URL: proxy.URL, Namespace: fake.Namespace, Port: 8888}}
	if !w.noIdentity {
		o.Identities = metadata.Client{URL: control.URL}
	}
	g, err := gateway.New(context.Background(), o)
	require.NoError(t, err)
	callers := map[string]string{}
	var file strings.Builder
	for i := range 5 {
		name := fmt.Sprintf("user%d", i+1)
		callers[name] = "TOKENOF" + strings.ToUpper(name)
		fmt.Fprintf(&file, "%s sha256:%x\n", name, sha256.Sum256([]byte(callers[name])))
	}
	static, err := auth.ParseStatic(strings.NewReader(file.String()))
	require.NoError(t, err)
	google, signer := signIns(t, w)
	guard := auth.Middleware(auth.Any(static, google), silent)
	if w.noAuth {
		guard = nil
	}
	server := httptest.NewServer(g.Handler(guard))
	t.Cleanup(server.Close)
	t.Cleanup(func() { assert.NoError(t, g.Close(context.Background())) })

	own, err := pool.Take(t.Context(), "the suite")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, pool.Release(context.Background(), own)) })
	way := func(to string) func(context.Context) (net.Conn, error) {
		return func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(to, "http://"))
		}
	}
	metadataServer := httptest.NewServer(s.tokens)
	t.Cleanup(metadataServer.Close)
	services := map[string]string{"kode-gopher/mcp": server.URL, routerService + "/" + routerPort: proxy.URL,
		tokenService + "/" + tokenPort: metadataServer.URL, controlService + "/" + controlPort: control.URL}
	s.env = &suite.APIEnv{
		Nonce: testNonce, Namespace: fake.Namespace, Live: own.Name,
		Site: probe.Site{Own: "10.99.0.2"},
		SessionServer: suite.SessionServer{
			Gateway: "kode-gopher",
			Callers: slices.Sorted(maps.Keys(callers)),
			Token:   func(caller string) string { return callers[caller] },
			SignIn:  signer,
			Held:    s.held,
			Open: func(ctx context.Context, caller string) (suite.Session, error) {
				token, ok := callers[caller]
				if !ok {
					token = caller
				}
				got, err := target.MCP{Dial: way(server.URL), Token: token}.Open(ctx)
				if err != nil {
					return nil, err
				}
				t.Cleanup(func() { _ = got.Close() })
				return client{got}, nil
			},
			Send: func(ctx context.Context, service, port string, m suite.Message) (suite.Reply, error) {
				to, ok := services[service+"/"+port]
				if !ok {
					return suite.Reply{}, fmt.Errorf("there is no Service %s", service)
				}
				r, err := message(ctx, m)
				if err != nil {
					return suite.Reply{}, err
				}
				return reply(target.Send(ctx, way(to), r))
			},
		},
		Do: func(_ context.Context, _ suite.Identity, r suite.Request) (suite.Answer, error) {
			if strings.Contains(r.Path, "/services/") {
				return suite.Answer{Code: 200, Object: suite.Object{"spec": suite.Object{"clusterIP": "10.96.0.9", "ports": []any{suite.Object{"port": float64(8081)}}}}}, nil
			}
			return suite.Answer{Code: 200, Object: suite.Object{"items": []any{suite.Object{"metadata": suite.Object{"name": own.Name, "uid": own.UID}}}}}, nil
		},
	}
	return s
}

// signIns are the server's verifier of ID tokens, and the signer whom it trusts.
func signIns(t *testing.T, w weak) (*auth.Google, *suite.SignIn) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	signer := &suite.SignIn{
		Issuer: auth.GoogleIssuer, ClientID: "kode-gopher.stockade.test", KeyID: "k", Public: &key.PublicKey,
		Emails: []string{"guest@partner.stockade.test"}, Domains: []string{"team.stockade.test"},
		Sign: func(input string) (string, error) { return suite.SignES256(key, input) },
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "k"}}})
	require.NoError(t, err)
	sets, domains := []io.Reader{bytes.NewReader(set)}, signer.Domains
	if w.foreignSigner {
		sets = append(sets, strings.NewReader(foreignKeys(t)))
	}
	if w.foreignDomain {
		domains = []string{domains[0], "elsewhere.stockade.test"}
	}
	keys, err := auth.ParseKeys(sets...)
	require.NoError(t, err)
	google, err := auth.NewGoogle(auth.GoogleOptions{ClientID: signer.ClientID, Keys: keys, Emails: signer.Emails, Domains: domains})
	require.NoError(t, err)
	return google, signer
}

// foreignKeys is the key set that the mutant's server trusts.
func foreignKeys(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../overlays/mutants/scaffold-kode-gopher-shared-server/foreign.yaml")
	require.NoError(t, err)
	var published corev1.ConfigMap
	require.NoError(t, yaml.UnmarshalStrict(text, &published))
	return published.Data["keys.json"]
}

// client is a session as the runner hands it out.
type client struct{ *target.MCPSession }

func (c client) Run(ctx context.Context, p suite.Program) (suite.Execution, error) {
	r, err := c.MCPSession.Run(ctx, target.MCPProgram{Source: p.Source, Stdin: p.Stdin, Header: p.Header})
	x := suite.Execution{Status: "ok", ExitCode: r.ExitCode, Stdout: r.Stdout, Stderr: r.Stderr}
	if r.Refused {
		x.Status, x.Stderr = suite.Refused, r.Message
	}
	return x, err
}

func (c client) Send(ctx context.Context, m suite.Message) (suite.Reply, error) {
	r, err := message(ctx, m)
	if err != nil {
		return suite.Reply{}, err
	}
	return reply(c.MCPSession.Send(ctx, r))
}

func message(ctx context.Context, m suite.Message) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, m.Method, "http://localhost"+m.Path, strings.NewReader(m.Body))
	if err == nil {
		maps.Copy(r.Header, m.Header)
	}
	return r, err
}

func reply(answer *http.Response, body []byte, err error) (suite.Reply, error) {
	if err != nil {
		return suite.Reply{}, err
	}
	return suite.Reply{Code: answer.StatusCode, Header: answer.Header, Body: string(body)}, nil
}

func (s *stage) held(ctx context.Context, caller string) ([]suite.Holding, error) {
	list, err := s.cluster.Client().Resource(sandboxes.Claims).Namespace(fake.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: sandboxes.UserLabel + "=" + sandboxes.Digest("static:"+caller)})
	if err != nil {
		return nil, err
	}
	var out []suite.Holding
	for _, c := range list.Items {
		h := suite.Holding{Claim: string(c.GetUID())}
		h.Sandbox, _, _ = unstructured.NestedString(c.Object, "status", "sandbox", "name")
		h.Addresses, _, _ = unstructured.NestedStringSlice(c.Object, "status", "sandbox", "podIPs")
		h.UID = "uid-" + h.Sandbox
		out = append(out, h)
	}
	return out, nil
}

// box returns the inside of a sandbox; its address is the one that the fake
// cluster gave it, by its number.
func (s *stage) box(name string) *box {
	if s.w.oneBox {
		name = "pool-sandbox-999"
	}
	b := s.boxes[name]
	if b == nil {
		var n int
		_, err := fmt.Sscanf(name, "pool-sandbox-%d", &n)
		require.NoError(s.t, err)
		b = &box{host: name, ip: fmt.Sprintf("10.99.%d.%d", n/250, n%250+1), files: map[string]string{}}
		s.boxes[name] = b
	}
	return b
}

// inside serves a sandbox's port.
func (s *stage) inside(name string) http.Handler {
	return fake.Runner(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			return
		}
		q, err := wire.ReadRequest(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		res := wire.Result{Run: q.Run, Build: wire.Build{OK: true}, Started: true}
		if q.Files[0].Content == small {
			<-time.After(300 * time.Millisecond)
		} else {
			res.Stdout = s.run(name, q.Stdin)
		}
		_ = json.NewEncoder(w).Encode(res)
	})
}

// run does what the agent would.
func (s *stage) run(name, stdin string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.w.answer != "" {
		return s.w.answer
	}
	var tasks []task
	if err := json.Unmarshal([]byte(stdin), &tasks); err != nil {
		return ""
	}
	b := s.box(name)
	for path := range b.files {
		kept := s.w.noWipe || s.w.keepsLocked && b.locked != "" && strings.HasPrefix(path, b.locked)
		if strings.HasPrefix(path, "/app/") && !strings.HasPrefix(path, "/app/persist/") && !kept {
			delete(b.files, path)
		}
	}
	if s.w.noSweep && b.replants != nil {
		b.files[b.replants.Path] = b.replants.Text
	}
	a := account{Host: b.host, Addresses: []string{b.ip}}
	for _, o := range tasks {
		a.Did = append(a.Did, s.do(b, o))
	}
	if s.w.lie != nil {
		s.w.lie(tasks, &a)
	}
	text, err := json.Marshal(a)
	require.NoError(s.t, err)
	s.ended = time.Now()
	return string(text)
}

func (s *stage) files(b *box, path string) map[string]string {
	if s.w.sharedPersist && strings.HasPrefix(path, "/app/persist/") {
		return s.persist
	}
	return b.files
}

func (s *stage) do(b *box, o task) did {
	switch o.Do {
	case "plant":
		s.files(b, o.Path)[o.Path] = o.Text
		return did{OK: true}
	case "replant":
		b.files[o.Path], b.replants = o.Text, &o
		return did{OK: true}
	case "pause":
		return did{OK: true}
	case "lock":
		b.locked = o.Path
		return did{OK: true}
	case "find":
		b.locked = "" // as the agent does
		var places []string
		for _, files := range []map[string]string{b.files, s.persist} {
			for path, text := range files {
				if strings.Contains(path, o.Text) || strings.Contains(text, o.Text) {
					places = append(places, path)
				}
			}
		}
		if len(places) == 0 {
			return did{Denial: "absent", Text: "nowhere"}
		}
		return did{OK: true, Text: strings.Join(places, ", ")}
	case "read":
		text, ok := s.files(b, o.Path)[o.Path]
		if o.Path == latePath {
			ok = true
			text = fmt.Sprintf("%d 200\n", s.ended.Add(-time.Second).UnixMilli())
			if s.w.lingers {
				text += fmt.Sprintf("%d 200\n", s.ended.Add(2*pause/3).UnixMilli())
			}
		}
		if !ok {
			return did{Denial: "absent"}
		}
		return did{OK: true, Text: text}
	case "dial":
		return did{Denial: "dropped", Text: "timeout"}
	case "linger":
		return did{OK: true}
	case "secrets":
		var places []string
		for path, text := range b.files {
			if text == decoy {
				places = append(places, path, path) // by two ways
			}
		}
		if s.w.leaks {
			places = append(places, "/var/run/google/token")
		}
		if len(places) == 0 {
			return did{Denial: "absent", Text: "none"}
		}
		return did{OK: true, Text: strings.Join(places, ", ")}
	case "ask":
		return s.ask(b, o)
	}
	return did{Text: "nobody knows how"}
}

func (s *stage) ask(b *box, o task) did {
	method := o.Method
	if method == "" {
		method = http.MethodGet
	}
	r := httptest.NewRequest(method, o.Path, nil)
	r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(b.ip), 4711).String()
	for _, line := range o.Header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	s.tokens.ServeHTTP(w, r)
	text, err := io.ReadAll(w.Body)
	require.NoError(s.t, err)
	return did{OK: w.Code == http.StatusOK, Code: w.Code, Text: string(text)}
}

// judge makes a scenario's control and its attack, and decides.
func (s *stage) judge(sc suite.Scenario) (verdict.Result, []verdict.Step) {
	attempt := func(act suite.APIAction) verdict.Attempt {
		a := verdict.Attempt{Nonce: testNonce, Start: time.Now()}
		a.Steps = act(s.t.Context(), s.env)
		a.Complete, a.End = true, time.Now()
		return a
	}
	e := verdict.Evidence{Accept: sc.Accept, Controls: []verdict.Attempt{attempt(sc.AskControl)}, Attempts: []verdict.Attempt{attempt(sc.Ask)}}
	if sc.Kind == suite.Limit {
		e.Core = verdict.Disclosed
	}
	for _, a := range slices.Concat(e.Controls, e.Attempts) {
		for _, step := range a.Steps {
			for _, token := range []string{"TOKENOF", "stockade."} {
				assert.NotContains(s.t, step.Detail, token, "%s shows a token", step.Name)
			}
		}
	}
	return verdict.Decide(e), slices.Concat(e.Controls[0].Steps, e.Attempts[0].Steps)
}

func asked() (out []suite.Scenario) {
	for _, sc := range sessions() {
		if sc.Ask != nil {
			out = append(out, sc)
		}
	}
	return out
}

func TestSessionScenariosHoldOnTheRealThing(t *testing.T) {
	for _, sc := range asked() {
		t.Run(sc.ID, func(t *testing.T) {
			t.Parallel()
			r, steps := newStage(t, weak{}).judge(sc)
			assert.Equal(t, verdict.Held, r.Verdict(), "%s: %s %+v", r.Reason(), r.Detail(), steps)
		})
	}
}

func TestSessionScenariosNoticeWhatIsWeak(t *testing.T) {
	for name, c := range map[string]struct {
		w    weak
		s    suite.Scenario
		step string // that must have reached its aim
	}{
		"all in one sandbox":                 {weak{oneBox: true}, sessionSeparation(), "share a sandbox"},
		"a run elsewhere than in the user's": {weak{oneBox: true}, sessionSeparation(), "not the user's"},
		"one folder for all":                 {weak{sharedPersist: true}, sessionSeparation(), "find the canary as a session of another user"},
		"nobody asks who calls":              {weak{noAuth: true}, sessionTakeover(), "list the tools as another user"},
		"nobody asks who ends":               {weak{noAuth: true}, sessionTakeover(), "list the tools as nobody"},
		"a router of every namespace":        {weak{namespaces: []string{"kube-system"}}, routerHeaders(), "name a system namespace"},
		"nothing is wiped":                   {weak{noWipe: true}, appWipe(), "find in /app what the call before left"},
		"a process that plants it again":     {weak{noSweep: true}, appWipe(), "find in /app what the call before left"},
		"a lock that stops the wipe":         {weak{keepsLocked: true}, appWipe(), "find in /app what the call before left"},
		"a folder that outlives":             {weak{sharedPersist: true}, appWipe(), "find something of the session before"},
		"a token that outlives its run":      {weak{grace: time.Minute}, runToken(), "use the token after its run"},
		"a process that outlives its run":    {weak{lingers: true}, runToken(), "left behind"},
		"a key in a file":                    {weak{leaks: true}, runToken(), "outlives the run"},
		"an identity that outlives its run":  {weak{grace: time.Minute}, runIdentity(), "keep the identity"},
		"no token is asked for":              {weak{noAuth: true}, authentication(), "no token"},
		"a signer whom nobody should trust":  {weak{foreignSigner: true}, signInToken(), "an ID token of another signer"},
		"an ID token is not asked for":       {weak{noAuth: true}, signInToken(), "an ID token that nobody signed"},
		"a domain too many on the list":      {weak{foreignDomain: true}, signInList(), "an account of another domain"},
		"nobody looks at the list":           {weak{noAuth: true}, signInList(), "a listed address and another"},
		"three sandboxes a user":             {weak{most: 3}, sandboxCap(), "have a third sandbox"},
		"three, as the API server sees it":   {weak{most: 3}, sandboxCap(), "by the API server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, steps := newStage(t, c.w).judge(c.s)
			assert.Equal(t, verdict.Breached, r.Verdict(), "%s: %s", r.Reason(), r.Detail())
			assert.True(t, slices.ContainsFunc(steps, func(s verdict.Step) bool { return s.OK && strings.Contains(s.Name, c.step) }), "%+v", steps)
		})
	}
}

// What the mutants of a deployment cannot weaken, for it is no setting of the server.
func TestEachIDTokenIsRefusedForItsOwnReason(t *testing.T) {
	_, signer := signIns(t, weak{})
	for name, tokens := range map[string]func(*suite.SignIn, string) ([]idAttempt, error){"worthless": worthless, "strangers": strangers} {
		all, err := tokens(signer, testNonce)
		require.NoError(t, err)
		seen := map[string]bool{}
		for _, a := range all {
			assert.False(t, seen[a.token], "%s: %s is tried twice", name, a.name)
			assert.NotContains(t, a.name, a.token)
			seen[a.token] = true
		}
	}
	honest, err := signed(signer, listed(signer, testNonce)[0])
	require.NoError(t, err)
	all, err := worthless(signer, testNonce)
	require.NoError(t, err)
	for _, a := range all {
		assert.NotEqual(t, honest, a.token, a.name)
	}
}

func TestSignInIsTriedAsFarAsThereIsAList(t *testing.T) {
	_, signer := signIns(t, weak{})
	for name, c := range map[string]struct{ emails, domains []string }{
		"domains alone":   {nil, signer.Domains},
		"addresses alone": {signer.Emails, nil},
		// Somebody of the domain above is no stranger here.
		"nested domains": {nil, []string{"eng.example.com", "example.com"}},
	} {
		s := *signer
		s.Emails, s.Domains = c.emails, c.domains
		require.NotEmpty(t, listed(&s, testNonce), name)
		all, err := strangers(&s, testNonce)
		require.NoError(t, err, name)
		assert.Greater(t, len(all), 5, name)
		google, err := auth.NewGoogle(auth.GoogleOptions{ClientID: s.ClientID, Keys: &oidc.StaticKeySet{PublicKeys: []crypto.PublicKey{s.Public}}, Emails: s.Emails, Domains: s.Domains})
		require.NoError(t, err, name)
		for _, a := range all {
			id, err := google.Verify(t.Context(), a.token)
			require.NoError(t, err, "%s: %s", name, a.name)
			assert.False(t, id.Allowed, "%s: %s", name, a.name)
		}
		for _, c := range listed(&s, testNonce) {
			token, err := signed(&s, c)
			require.NoError(t, err)
			id, err := google.Verify(t.Context(), token)
			require.NoError(t, err)
			assert.True(t, id.Allowed, "%s: %v", name, c["email"])
		}
	}
}

func TestWithoutASignerNothingIsSaidOfSignIn(t *testing.T) {
	for _, sc := range []suite.Scenario{signInToken(), signInList()} {
		s := newStage(t, weak{})
		s.env.SignIn = nil
		r, _ := s.judge(sc)
		assert.Equal(t, verdict.Inconclusive, r.Verdict(), sc.ID)
	}
}

// A server that takes no ID token at all refuses each of them.
func TestAServerWithoutSignInHoldsNothingOfIt(t *testing.T) {
	for _, sc := range []suite.Scenario{signInToken(), signInList()} {
		s, other := newStage(t, weak{}), newStage(t, weak{})
		s.env.SignIn = other.env.SignIn // of another signer
		r, steps := s.judge(sc)
		assert.Equal(t, verdict.Inconclusive, r.Verdict(), "%s: %+v", sc.ID, steps)
	}
}

// What a run gets too little of breaks a claim as well.
func TestARunWithoutItsTokenIsABreach(t *testing.T) {
	r, _ := newStage(t, weak{noIdentity: true}).judge(runToken())
	assert.Equal(t, verdict.Breached, r.Verdict(), r.Detail())
	assert.Contains(t, r.Detail(), "get a token for the run did not work")
	r, _ = newStage(t, weak{noIdentity: true}).judge(runIdentity())
	assert.Equal(t, verdict.Inconclusive, r.Verdict(), "an exposure that is not there was not shown: %s", r.Detail())
}

// A sandbox that has just begun may have no network for a moment.
func TestATokenThatNobodyWasAskedForIsNoneThatWasRefused(t *testing.T) {
	refused := given("get a token", did{Code: http.StatusForbidden})
	assert.True(t, !refused.OK && refused.Class == verdict.HTTP403, refused.Class)
	silent := given("get a token", did{Denial: string(verdict.Dropped), Text: "i/o timeout"})
	assert.True(t, !silent.OK && silent.Class == verdict.Unknown, silent.Class)
	assert.True(t, given("get a token", did{Code: http.StatusOK}).OK)
}

// A server that gives tokens, and leaves every other question without an answer.
func TestAQuestionThatNobodyAnsweredWasNotRefused(t *testing.T) {
	silent := weak{lie: func(tasks []task, a *account) {
		for i, o := range tasks {
			if o.Do == "ask" && (o.Path != tokenPath || len(o.Header) != 1 || o.Header[0] != flavor || o.Method != "") {
				a.Did[i] = did{Denial: "dropped", Text: "i/o timeout"}
			}
		}
	}}
	r, steps := newStage(t, silent).judge(runToken())
	assert.Equal(t, verdict.NoEvidenceClass, r.Reason(), "%s: %s %+v", r.Verdict(), r.Detail(), steps)
}

func TestALyingSandboxHoldsNothing(t *testing.T) {
	for name, w := range map[string]weak{
		"it says nothing":       {answer: "-"},
		"it says too little":    {answer: `{"host":"h","addresses":["10.99.0.1"],"did":[]}`},
		"it is nowhere":         {answer: `{"host":"","addresses":[],"did":[{}]}`},
		"it talks in another":   {answer: `[[[[[[`},
		"it makes up a class":   {lie: func(_ []task, a *account) { everyDid(a, did{Denial: "held", Text: "trust me"}) }},
		"everything is unknown": {lie: func(_ []task, a *account) { everyDid(a, did{Text: "out of time"}) }},
		"everything timed out":  {lie: func(_ []task, a *account) { everyDid(a, did{Denial: "dropped", Text: "timeout"}) }},
		"everything is absent":  {lie: func(_ []task, a *account) { everyDid(a, did{Denial: "absent"}) }},
	} {
		for _, sc := range []suite.Scenario{sessionSeparation(), appWipe(), runToken(), runIdentity()} {
			t.Run(name+"/"+sc.ID, func(t *testing.T) {
				t.Parallel()
				r, steps := newStage(t, w).judge(sc)
				assert.NotEqual(t, verdict.Held, r.Verdict(), "%+v", steps)
			})
		}
	}
}

func everyDid(a *account, d did) {
	for i := range a.Did {
		a.Did[i] = d
	}
}

func TestASandboxThatLiesAboutItsFilesIsFoundOut(t *testing.T) {
	// The search finds nothing, although the canary is there.
	blind := func(tasks []task, a *account) {
		for i, o := range tasks {
			if o.Do == "find" {
				a.Did[i] = did{Denial: "absent", Text: "nowhere"}
			}
		}
	}
	for _, sc := range []suite.Scenario{sessionSeparation(), appWipe()} {
		r, _ := newStage(t, weak{lie: blind}).judge(sc)
		assert.NotEqual(t, verdict.Held, r.Verdict(), sc.ID)
	}
	missed := func(tasks []task, a *account) {
		for i, o := range tasks {
			if o.Do == "secrets" {
				a.Did[i] = did{Denial: "absent", Text: "none"}
			}
		}
	}
	r, steps := newStage(t, weak{lie: missed}).judge(runToken())
	assert.Equal(t, verdict.Inconclusive, r.Verdict(), "a search that finds no key where one lies: %+v", steps)
	// It says that it is in another sandbox.
	moved := func(_ []task, a *account) { a.Host, a.Addresses = "elsewhere", []string{"10.99.200.1"} }
	r, _ = newStage(t, weak{lie: moved}).judge(sessionSeparation())
	assert.Equal(t, verdict.Breached, r.Verdict(), r.Detail())
	// What a sandbox lost that was replaced between two calls, nobody wiped.
	replaced := func(tasks []task, a *account) {
		if len(tasks) == 2 && tasks[1].Do == "read" {
			a.Host = "elsewhere"
		}
	}
	r, _ = newStage(t, weak{lie: replaced}).judge(appWipe())
	assert.Equal(t, verdict.Inconclusive, r.Verdict(), r.Detail())
}

func TestATargetWithoutAServerGivesNoEvidence(t *testing.T) {
	for _, sc := range asked() {
		env := &suite.APIEnv{Nonce: testNonce, SessionServer: suite.SessionServer{Callers: []string{"user1"}}}
		for _, steps := range [][]verdict.Step{sc.Ask(t.Context(), env), sc.AskControl(t.Context(), env)} {
			require.NotEmpty(t, steps, sc.ID)
			for _, s := range steps {
				assert.False(t, s.OK, "%s: %s", sc.ID, s.Name)
				assert.False(t, s.Class.IsEvidence(), "%s: %s: %s", sc.ID, s.Name, s.Class)
			}
		}
	}
}

func TestAServerThatDoesNotAnswerGivesNoEvidence(t *testing.T) {
	lost := errors.New("reset")
	env := &suite.APIEnv{
		Nonce: testNonce,
		SessionServer: suite.SessionServer{
			Callers: []string{"user1"}, Token: func(string) string { return "t" }, Gateway: "g",
			Open: func(context.Context, string) (suite.Session, error) { return nil, lost },
			Send: func(context.Context, string, string, suite.Message) (suite.Reply, error) { return suite.Reply{}, lost },
			Held: func(context.Context, string) ([]suite.Holding, error) { return nil, nil },
		},
		Do: func(context.Context, suite.Identity, suite.Request) (suite.Answer, error) {
			return suite.Answer{}, lost
		},
	}
	for _, sc := range asked() {
		for _, s := range slices.Concat(sc.Ask(t.Context(), env), sc.AskControl(t.Context(), env)) {
			assert.False(t, s.OK, "%s: %s", sc.ID, s.Name)
			assert.False(t, s.Class.IsEvidence(), "%s: %s: %s", sc.ID, s.Name, s.Class)
		}
	}
}

func TestASessionThatStaysIsNoticed(t *testing.T) {
	s := newStage(t, weak{})
	claims := []string{"uid-1"}
	s.env.Held = func(context.Context, string) ([]suite.Holding, error) {
		return []suite.Holding{{Claim: "uid-1", Sandbox: "b"}}, nil
	}
	left, err := awaitGone(t.Context(), s.env, "user3", claims, 10*time.Millisecond)
	require.NoError(t, err)
	assert.Equal(t, []string{"b"}, left)
	// An attempt that is cut off has seen nothing.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	left, err = awaitGone(ctx, s.env, "user3", claims, time.Hour)
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, left)
	s.env.Held = func(context.Context, string) ([]suite.Holding, error) { return nil, errors.New("away") }
	_, err = awaitGone(t.Context(), s.env, "user3", claims, 10*time.Millisecond)
	assert.Error(t, err, "nothing to be seen is not nothing there")
}

func TestTheCrowdIsJudgedByWhatWasServed(t *testing.T) {
	for name, c := range map[string]struct {
		served, capped, most, looks int
		other                       []string
		want                        verdict.Verdict
	}{
		"two and no more":                {2, 98, 2, 20, nil, verdict.Held},
		"a third was served":             {3, 97, 2, 20, nil, verdict.Breached},
		"a third was seen":               {2, 98, 3, 20, nil, verdict.Breached},
		"some were refused for another":  {2, 90, 2, 20, []string{"lost"}, verdict.Inconclusive},
		"nobody was served":              {0, 100, 0, 20, nil, verdict.Inconclusive},
		"the API server saw one of two":  {2, 98, 1, 20, nil, verdict.Inconclusive},
		"the API server was hardly seen": {2, 98, 2, 1, nil, verdict.Inconclusive},
	} {
		steps := judgeCrowd(100, c.served, c.capped, c.other, c.most, c.looks)
		a := verdict.Attempt{Nonce: testNonce, Complete: true, Steps: steps}
		good := verdict.Attempt{Nonce: testNonce, Complete: true, Steps: []verdict.Step{{Name: "x", OK: true}}}
		r := verdict.Decide(verdict.Evidence{Accept: sandboxCap().Accept, Attempts: []verdict.Attempt{a}, Controls: []verdict.Attempt{good}})
		assert.Equal(t, c.want, r.Verdict(), "%s: %s", name, r.Detail())
	}
}

func TestAPersonIsOneUserWithEveryToken(t *testing.T) {
	for name, c := range map[string]struct {
		served, capped int
		ok             bool
		class          verdict.Class
	}{
		"two of six":             {2, 4, false, verdict.ResourceLimit},
		"each has its own":       {6, 0, true, ""},
		"three":                  {3, 3, true, ""},
		"one got another answer": {2, 3, false, verdict.Unknown},
		"all of them refused":    {0, 6, false, verdict.Unknown},
	} {
		got := judgePerson(6, c.served, c.capped, nil)
		assert.Equal(t, c.ok, got.OK, name)
		assert.Equal(t, c.class, got.Class, name)
	}
	_, signer := signIns(t, weak{})
	tokens, err := samePerson(signer, testNonce)
	require.NoError(t, err)
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(tokens))), manyTokens, "each is another")
	none, err := samePerson(nil, testNonce)
	require.NoError(t, err)
	assert.Empty(t, none)
}

func TestARefusalOfAnotherKindIsNoCap(t *testing.T) {
	var c tally
	c.add(suite.Execution{Status: suite.Refused, Stderr: "the program could not be run now"}, nil)
	c.add(suite.Execution{}, errors.New("lost"))
	c.add(suite.Execution{Status: "time-limit"}, nil)
	assert.Zero(t, c.served.Load()+c.capped.Load())
	assert.Len(t, c.other, 3)
}

func TestAnAnswerIsReadByItsCode(t *testing.T) {
	for code, want := range map[int]verdict.Class{401: verdict.HTTP401, 403: verdict.HTTP403, 404: verdict.Absent, 400: verdict.Unsupported,
		405: verdict.Unsupported, 500: verdict.Unknown, 429: verdict.Unknown, 302: verdict.Unknown, 0: verdict.Unknown} {
		assert.Equal(t, want, answered("x", code, "").Class, code)
	}
	assert.True(t, answered("x", 204, "secret").OK)
	assert.NotContains(t, answered("x", 200, "secret").Detail, "secret")
	headers, object := game{name: "x"}, game{name: "x", lookup: true}
	for _, code := range []int{502, 503, 504} {
		assert.True(t, headers.judge(suite.Reply{Code: code}, nil).OK, "%d: the router went to look", code)
	}
	assert.True(t, headers.judge(suite.Reply{Code: 404}, nil).OK, "it looked, and found nothing")
	assert.Equal(t, verdict.Absent, object.judge(suite.Reply{Code: 404}, nil).Class)
	assert.True(t, object.judge(suite.Reply{Code: 502}, nil).OK, "it connected to somebody")
	assert.Equal(t, verdict.Unknown, object.judge(suite.Reply{Code: 503}, nil).Class, "the API server may be away")
	assert.Equal(t, verdict.Unsupported, headers.judge(suite.Reply{Code: 400}, nil).Class)
	assert.Equal(t, verdict.TransportError, headers.judge(suite.Reply{Code: 502}, errors.New("lost")).Class)
}

func TestALateAnswerCountsFromTheEndOfItsRun(t *testing.T) {
	ended := time.UnixMilli(10_000)
	for name, c := range map[string]struct {
		text  string
		ok    bool
		class verdict.Class
	}{
		"ended with the run":       {"9900 200\n10100 200\n", false, verdict.Killed},
		"a token in between":       {"11000 200\n", true, ""},
		"refused in between":       {"9900 200\n11000 403\n11100 403\n", false, verdict.HTTP403},
		"a token of the next run":  {"9900 200\n11000 403\n12500 200\n", true, ""},
		"lost in between":          {"9900 200\n11000 0\n11100 403\n", false, verdict.Unknown},
		"lines that are no answer": {"9900 200\nx 200\n\n200\n", false, verdict.Killed},
		"it never began":           {"", false, verdict.Unknown},
		"it got none in the run":   {"9800 403\n9900 0\n", false, verdict.Unknown},
		"it ended by itself":       {"-31000 200\n9000 200\n", false, verdict.Unknown},
	} {
		s := judgeLate(did{OK: true, Text: c.text}, ended)
		assert.Equal(t, c.ok, s.OK, name)
		assert.Equal(t, c.class, s.Class, name)
	}
	assert.Equal(t, verdict.Unknown, judgeLate(did{Denial: "absent"}, ended).Class, "a file that is not there says nothing")
	assert.Contains(t, agent, fmt.Sprintf("lingerFor = %d * time.Second", int(lingers.Seconds())))
}

func TestTokensAreComparedAndNotShown(t *testing.T) {
	a, b := accessToken{Value: "secret-a", Expires: 300}, accessToken{Value: "secret-b", Expires: 100_000}
	for name, c := range map[string]struct {
		step  verdict.Step
		ok    bool
		class verdict.Class
	}{
		"short-lived":     {lifetime(a), false, verdict.Confined},
		"long-lived":      {lifetime(b), true, ""},
		"none":            {lifetime(accessToken{}), false, verdict.Unknown},
		"the same":        {another(a, a), false, verdict.Absent},
		"two":             {another(a, b), true, ""},
		"one of two":      {another(a, accessToken{}), false, verdict.Unknown},
		"inherited":       {inherited(a, a), true, ""},
		"a new one":       {inherited(a, b), false, verdict.Absent},
		"none to inherit": {inherited(accessToken{}, a), false, verdict.Unknown},
		"good":            {judgeActive("x", suite.Reply{Code: 200, Body: `{"active":true}`}, nil), true, ""},
		"over":            {judgeActive("x", suite.Reply{Code: 200, Body: `{"active":false}`}, nil), false, verdict.Absent},
		"no word":         {judgeActive("x", suite.Reply{Code: 200, Body: `{}`}, nil), false, verdict.Unknown},
		"an error page":   {judgeActive("x", suite.Reply{Code: 500, Body: `{"active":false}`}, nil), false, verdict.Unknown},
		"another account": {otherAccounts("a@b", did{OK: true, Text: "default/\na@b/\nroot@b/\n"}), true, ""},
		"no other":        {otherAccounts("a@b", did{OK: true, Text: "default/\na@b/\n"}), false, verdict.Absent},
		"no list":         {otherAccounts("a@b", did{Code: 403}), false, verdict.Unknown},
	} {
		assert.Equal(t, c.ok, c.step.OK, name)
		assert.Equal(t, c.class, c.step.Class, name)
		assert.NotContains(t, c.step.Detail, "secret", name)
	}
}

func TestOnlyWhatIsOutsideOfPersistIsLeft(t *testing.T) {
	all := append(slices.Clone(planted), replanted)
	assert.True(t, judgeSearch(did{OK: true, Text: strings.Join(all, ", ")}).OK)
	for i, path := range all {
		missed := slices.Delete(slices.Clone(all), i, i+1)
		assert.Equal(t, verdict.Unknown, judgeSearch(did{OK: true, Text: strings.Join(missed, ", ")}).Class, "a search that misses %s", path)
	}
	folders := []string{"/a/", "/b/"}
	assert.True(t, ownCanary(did{OK: true, Text: "/b/c, /a/c"}, folders, "c").OK)
	assert.Equal(t, verdict.Unknown, ownCanary(did{OK: true, Text: "/a/c, /a/c"}, folders, "c").Class)
	assert.Equal(t, verdict.Absent, judgeLeft(did{OK: true, Text: "/app/persist/kept, /app/persist/kept"}).Class)
	got := judgeLeft(did{OK: true, Text: "/app/persist/kept, /app/.hidden"})
	assert.True(t, got.OK)
	assert.Contains(t, got.Detail, ".hidden")
	assert.Equal(t, verdict.Unknown, judgeLeft(did{Text: "out of time"}).Class)
	assert.True(t, judgeKept("c", did{OK: true, Text: "c"}).OK)
	assert.Equal(t, verdict.Absent, judgeKept("c", did{OK: true, Text: "d"}).Class)
	assert.Equal(t, verdict.Absent, judgeKept("c", did{Denial: "absent"}).Class)
	assert.Equal(t, verdict.Unknown, judgeKept("c", did{Text: "too many open files"}).Class, "the file may be there")
	assert.Equal(t, verdict.Unknown, judgeKept("c", did{Denial: "permission"}).Class)
	assert.Equal(t, verdict.MustWork, judgeKept("c", did{}).Expect)
}

func TestCredentialsThatProveNothingAreNotTheToken(t *testing.T) {
	const token = "TOKENOFUSER1"
	seen := map[string]bool{}
	for _, c := range credentials(token, testNonce) {
		assert.NotEqual(t, []string{"Bearer " + token}, c.header["Authorization"], c.name)
		assert.False(t, seen[c.name], "%s stands there twice", c.name)
		seen[c.name] = true
		assert.NotContains(t, c.name, token)
	}
	assert.NotEmpty(t, credentials("", testNonce), "a caller without a token is no reason to panic")
}

// network makes a liar of the Pod from which the servers are attacked: it says
// dropped of everything, whatever it did.
func network(t *testing.T, sc suite.Scenario, site probe.Site, flows ...string) verdict.Result {
	t.Helper()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	lie := verdict.Attempt{Nonce: "a", Complete: true, Steps: []verdict.Step{{Name: "connect", Class: verdict.Dropped}}, Start: now, End: now}
	honest := verdict.Attempt{Nonce: "c", Complete: true, Steps: []verdict.Step{{Name: "call", OK: true}}, Start: now, End: now}
	var to [][]string
	for _, p := range sc.Witnesses[0].Flow.To(site) {
		to = append(to, []string{p})
	}
	got, strange, err := witness.ParseFlows(strings.NewReader(strings.Join(flows, "\n")))
	require.NoError(t, err)
	require.Zero(t, strange)
	st := witness.JudgeFlows(got, witness.FlowQuery{From: []string{"10.244.1.9"}, Control: []string{"10.244.1.2"}, To: to,
		Guarded: []string{"10.244.0.4", "10.244.0.5"}, Begin: now, Until: now})
	return verdict.Decide(verdict.Evidence{Accept: sc.Accept, MinAttempts: 2, Attempts: []verdict.Attempt{lie, lie}, Controls: []verdict.Attempt{honest},
		Require: []string{suite.Flows}, Statements: []verdict.Statement{st}})
}

func flow(from, to string, port int, how string) string {
	return fmt.Sprintf(`{"flow":{"time":"2026-11-29T12:00:00Z",%s,"IP":{"source":%q,"destination":%q},"l4":{"TCP":{"destination_port":%d}}}}`, how, from, to, port)
}

func TestTheServersNodesAreBelievedAndThePodIsNot(t *testing.T) {
	const (
		drop      = `"verdict":"DROPPED","drop_reason_desc":"POLICY_DENIED"`
		leave     = `"verdict":"FORWARDED","trace_observation_point":"TO_OVERLAY"`
		delivered = `"verdict":"FORWARDED","trace_observation_point":"TO_ENDPOINT"`
	)
	site := probe.Site{Server: "10.244.0.4:8080", Inner: []string{"10.244.0.5:8081"}}
	client := flow("10.244.1.2", "10.244.0.4", 8080, delivered)
	for _, sc := range []suite.Scenario{serverFromStranger(), innerFromClient()} {
		assert.True(t, sc.Witnesses[0].Flow.Servers, sc.ID)
		assert.NotEqual(t, sc.From, sc.Control.At, "%s: the flow log has to see somebody else", sc.ID)
		assert.Equal(t, verdict.Inconclusive, network(t, sc, site, client).Verdict(), "%s: nothing was sent", sc.ID)
		// A packet leaves the attacker's node, and is dropped at the server's.
		held := []string{client, flow("10.244.1.9", "10.244.0.5", 8081, leave), flow("10.244.1.9", "10.244.0.5", 8081, drop)}
		if sc.ID == serverFromStranger().ID {
			assert.Equal(t, verdict.Inconclusive, network(t, sc, site, held...).Verdict(), "the server itself was not tried")
			held = append(held, flow("10.244.1.9", "10.244.0.4", 8080, drop))
		}
		r := network(t, sc, site, held...)
		assert.Equal(t, verdict.Held, r.Verdict(), "%s: %s", sc.ID, r.Detail())
		r = network(t, sc, site, append(held, flow("10.244.1.9", "10.244.0.5", 8081, delivered))...)
		assert.Equal(t, verdict.Breached, r.Verdict(), "%s: %s", sc.ID, r.Detail())
		assert.NotEmpty(t, sc.Attack(t.Context(), &probe.Env{Nonce: testNonce}), sc.ID)
	}
	up := httptest.NewServer(http.NotFoundHandler())
	defer up.Close()
	open := strings.TrimPrefix(up.URL, "http://")
	steps := callInner(t.Context(), &probe.Env{Site: probe.Site{Inner: []string{"127.0.0.1:1", open}}})
	require.Len(t, steps, 1)
	assert.True(t, steps[0].OK, "one of them is open")
	assert.False(t, callInner(t.Context(), &probe.Env{Site: probe.Site{Inner: []string{"127.0.0.1:1"}}})[0].OK)
}

// A Pod that was made for the same claim's name has the name of the one before it,
// and is another one.
func TestASandboxIsToldFromTheOneBeforeItByMoreThanItsName(t *testing.T) {
	was := account{Host: "kg-0", Addresses: []string{"10.0.0.1", "fd00::1"}}
	for name, c := range map[string]struct {
		now   account
		class verdict.Class
	}{
		"the same":                     {was, ""},
		"the same, by one family":      {account{Host: "kg-0", Addresses: []string{"fd00::1"}}, ""},
		"a namesake elsewhere":         {account{Host: "kg-0", Addresses: []string{"10.0.0.2"}}, verdict.Absent},
		"another at its address":       {account{Host: "kg-1", Addresses: []string{"10.0.0.1"}}, verdict.Absent},
		"another at an address of its": {account{Host: "kg-1", Addresses: []string{"10.0.0.2"}}, verdict.Absent},
	} {
		s := shared("x", []account{was}, c.now)
		assert.Equal(t, c.class, s.Class, name)
		assert.Equal(t, c.class == "", s.OK, name)
	}
	had := []suite.Holding{{Claim: "c1", Sandbox: "kg-0", UID: "u1"}}
	untold := []suite.Holding{{Claim: "c1", Sandbox: "kg-0"}}
	other := []suite.Holding{{Claim: "c2", Sandbox: "kg-0", UID: "u2"}}
	for name, c := range map[string]struct {
		before, now []suite.Holding
		class       verdict.Class
	}{
		"its own, under a new claim":    {had, []suite.Holding{{Claim: "c2", Sandbox: "kg-0", UID: "u1"}}, ""},
		"its own, beside an unknown":    {had, []suite.Holding{{Claim: "c3"}, {Claim: "c2", Sandbox: "kg-0", UID: "u1"}}, ""},
		"a namesake":                    {had, other, verdict.Absent},
		"a namesake, beside an unknown": {had, append(slices.Clone(other), suite.Holding{Claim: "c3", Sandbox: "kg-1"}), verdict.Unknown},
		"the one before is not told":    {untold, other, verdict.Unknown},
		"one of those before is not":    {slices.Concat(had, untold), other, verdict.Unknown},
		"nothing is known of before":    {nil, other, verdict.Unknown},
		"none that is known":            {had, []suite.Holding{{Claim: "c2"}}, verdict.Unknown},
		"none at all":                   {had, nil, verdict.Unknown},
	} {
		s := sameBox("x", c.before, c.now)
		assert.Equal(t, c.class, s.Class, name)
		assert.Equal(t, c.class == "", s.OK, name)
	}
}

// oneAnswer is a session at a server that says the same to everybody.
type oneAnswer struct {
	suite.Session
	code int
}

func (oneAnswer) ID() string { return "x" }

func (o oneAnswer) Send(context.Context, suite.Message) (suite.Reply, error) {
	return suite.Reply{Code: o.code}, nil
}

func TestASessionThatIsRefusedToItsUserShowsNothing(t *testing.T) {
	env := newStage(t, weak{}).env
	for _, code := range []int{http.StatusNotFound, http.StatusUnauthorized} {
		steps := takeOver(t.Context(), env, oneAnswer{code: code})
		for _, s := range steps[:len(steps)-1] {
			assert.False(t, s.OK, s.Name)
		}
		assert.Equal(t, verdict.Unknown, steps[len(steps)-1].Class)
	}
	s, step := enter(t.Context(), env, "user1")
	require.Nil(t, step)
	defer s.Close()
	steps := takeOver(t.Context(), env, s)
	assert.True(t, steps[len(steps)-1].OK, steps[len(steps)-1].Detail)
}
