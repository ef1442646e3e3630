// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/workloads/gateway/sandboxes"
)

// serverPort is the name of a server's port, in its Service.
const serverPort = "mcp"

// server is the target's own server, which keeps sessions. It makes and ends the
// sandboxes of its sessions; a run ends its sessions, and looks whether the
// sandboxes go with them.
//
// After a kill -9 of a run the server ends the sessions, once it has heard nothing
// of them for its timeout. Until then their caller may have fewer new ones. No
// cleanup of ours shortens that: the claims are the server's.
type server struct {
	k       *Kube
	service string
	tokens  map[string]string // by caller; empty where nobody authenticates

	before map[string]bool // the claims that callers had when the run began

	mu     sync.Mutex
	ways   []func(context.Context) (net.Conn, error)
	next   int
	others map[string]func(context.Context) (net.Conn, error) // ways to other Services
}

// serverWays is how many tunnels to the server there are, each to one of its
// processes, chosen by chance. Sessions share them, because each takes a connection
// to the API server.
const serverWays = 6

func newServer(k *Kube) *server {
	s := &server{k: k, service: k.o.Gateway, tokens: k.o.Callers, others: map[string]func(context.Context) (net.Conn, error){}}
	for range serverWays {
		s.ways = append(s.ways, s.way(s.service, serverPort))
	}
	return s
}

// wayTo returns the way to a Service.
func (s *server) wayTo(service, port string) func(context.Context) (net.Conn, error) {
	if service == s.service && port == serverPort {
		return s.anyWay()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := service + ":" + port
	if s.others[name] == nil {
		s.others[name] = s.way(service, port)
	}
	return s.others[name]
}

// anyWay returns the next way to the server.
func (s *server) anyWay() func(context.Context) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return s.ways[s.next%len(s.ways)]
}

func (s *server) callers() []string { return slices.Sorted(maps.Keys(s.tokens)) }

// users are those whose sandboxes a run's sessions have.
func (s *server) users() []string {
	if len(s.tokens) == 0 {
		return []string{""}
	}
	return s.callers()
}

func (s *server) furnish(ctx context.Context, f *Field) error {
	f.AwaitRelease = s.awaitRelease
	f.SessionServer = suite.SessionServer{
		Gateway: s.service, Callers: s.callers(), Token: func(caller string) string { return s.tokens[caller] },
		SignIn: s.k.o.SignIn, Open: s.open, Send: s.send, Held: s.held,
	}
	s.before = map[string]bool{}
	for _, u := range s.users() {
		held, err := s.held(ctx, u)
		if err != nil {
			return err
		}
		for _, h := range held {
			s.before[h.Claim] = true
		}
	}
	return nil
}

// open begins a session with one of the server's processes.
func (s *server) open(ctx context.Context, caller string) (suite.Session, error) {
	token, known := s.tokens[caller]
	if !known {
		token = caller
	}
	got, err := target.MCP{Dial: s.anyWay(), Token: token}.Open(ctx)
	if err != nil {
		return nil, err
	}
	return session{got}, nil
}

func (s *server) way(service, port string) func(context.Context) (net.Conn, error) {
	return target.ForwardTo(s.k.o.Client.Config, s.k.o.Client.Clientset, s.k.o.Namespace, service, port)
}

func (s *server) send(ctx context.Context, service, port string, m suite.Message) (suite.Reply, error) {
	r, err := request(ctx, m)
	if err != nil {
		return suite.Reply{}, err
	}
	return reply(target.Send(ctx, s.wayTo(service, port), r)) //nolint:bodyclose // Send has read it and closed it
}

// request is a message as the client wants it. The host is this one to whoever
// is reached through its own loopback.
func request(ctx context.Context, m suite.Message) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, m.Method, "http://localhost"+m.Path, strings.NewReader(m.Body))
	if err != nil {
		return nil, fmt.Errorf("sending a request: %w", err)
	}
	for name, values := range m.Header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	return r, nil
}

func reply(answer *http.Response, body []byte, err error) (suite.Reply, error) {
	if err != nil {
		return suite.Reply{}, err
	}
	return suite.Reply{Code: answer.StatusCode, Header: answer.Header, Body: string(body)}, nil
}

// held reads the claims that bear the caller's label. It is our own server's:
// another's would have to say who holds what in the same way.
func (s *server) held(ctx context.Context, caller string) ([]suite.Holding, error) {
	claims, err := s.claims(ctx, sandboxes.UserLabel+"="+sandboxes.Digest(user(caller)))
	if err != nil {
		return nil, err
	}
	out := make([]suite.Holding, 0, len(claims))
	for i := range claims {
		claim := &claims[i]
		h := suite.Holding{Claim: string(claim.GetUID())}
		h.Sandbox, _, _ = unstructured.NestedString(claim.Object, "status", "sandbox", "name")
		h.Addresses, _, _ = unstructured.NestedStringSlice(claim.Object, "status", "sandbox", "podIPs")
		if h.Sandbox != "" {
			box, err := s.k.get(ctx, sandboxKind, h.Sandbox)
			if err == nil && owns(claim.GetUID(), box.GetOwnerReferences()) {
				h.UID = string(box.GetUID())
			}
		}
		out = append(out, h)
	}
	return out, nil
}

// claims lists those that bear a label.
func (s *server) claims(ctx context.Context, selector string) ([]unstructured.Unstructured, error) {
	claims, err := s.k.resource(claimKind)
	if err != nil {
		return nil, err
	}
	list, err := claims.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing the callers' sandboxes: %w", err)
	}
	return list.Items, nil
}

// user is what the server calls a caller: by the way in which it authenticated,
// or the one that there is where nobody has to.
func user(caller string) string {
	if caller == "" {
		return "local"
	}
	return "static:" + caller
}

// awaitRelease waits until the sandboxes are gone that callers got in this run, whose
// sessions have ended, and tells of those that are not.
func (s *server) awaitRelease(ctx context.Context) (residue []string) {
	ctx, cancel := context.WithTimeout(ctx, s.k.t.Release)
	defer cancel()
	mine := map[string]string{}
	for _, u := range s.users() {
		mine[sandboxes.Digest(user(u))] = user(u)
	}
	var left []string
	err := until(ctx, poll, func() bool {
		claims, err := s.claims(ctx, sandboxes.UserLabel)
		if err != nil {
			if left == nil {
				left = []string{fmt.Sprintf("sandboxes of sessions that have ended, maybe: %v", err)}
			}
			return false // the last look that was a whole one counts
		}
		left = nil
		for _, c := range claims {
			if u, ok := mine[c.GetLabels()[sandboxes.UserLabel]]; ok && !s.before[string(c.GetUID())] {
				left = append(left, fmt.Sprintf("the claim %s of %s, whose session has ended; no cleanup removes it: its server does, or it ends by itself", c.GetName(), u))
			}
		}
		return len(left) == 0
	})
	if err == nil {
		return nil
	}
	return left
}

// survey adds to a field where the target's servers are.
func (s *server) survey(ctx context.Context, f *Field) error {
	services, err := s.k.o.Client.Clientset.CoreV1().Services(s.k.o.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the target's Services: %w", err)
	}
	f.Servers, f.Site.Server, f.Site.Inner = nil, "", nil // a field is looked at again after a restart
	for _, svc := range services.Items {
		if svc.Spec.ClusterIP == "" || svc.Spec.ClusterIP == corev1.ClusterIPNone {
			continue // a sandbox's own
		}
		for _, p := range svc.Spec.Ports {
			addr, err := s.k.service(ctx, f, s.k.o.Namespace, svc.Name, p.Port)
			if err != nil {
				return err
			}
			if svc.Name == s.service && p.Name == serverPort {
				f.Site.Server = addr
			} else {
				f.Site.Inner = append(f.Site.Inner, addr)
			}
		}
		if err := s.k.serverNodes(ctx, f, s.k.o.Namespace, svc.Name); err != nil {
			return err
		}
	}
	if f.Site.Server == "" {
		return fmt.Errorf("looking for the target's server: namespace %s has no Service %s with a port %s", s.k.o.Namespace, s.service, serverPort)
	}
	slices.Sort(f.Site.Inner)
	return nil
}

// session is a session as scenarios see it.
type session struct{ *target.MCPSession }

// Run implements [suite.Session].
func (s session) Run(ctx context.Context, p suite.Program) (suite.Execution, error) {
	if p.Language != "go" {
		return suite.Execution{}, fmt.Errorf("running a program through MCP: nobody there takes the language %q", p.Language)
	}
	r, err := s.MCPSession.Run(ctx, target.MCPProgram{Source: p.Source, Stdin: p.Stdin, Header: p.Header})
	if err != nil {
		return suite.Execution{}, err
	}
	return executionOf(r), nil
}

// executionOf puts a result into the suite's words.
func executionOf(r target.MCPResult) suite.Execution {
	x := suite.Execution{Status: "ok", ExitCode: r.ExitCode, Stdout: r.Stdout, Stderr: r.Stderr, UID: -1}
	switch {
	case r.Refused:
		x.Status, x.Stderr, x.ExitCode = suite.Refused, r.Message, -1
	case slices.Contains(r.Limits, "time-limit"), slices.Contains(r.Limits, "build-time-limit"):
		x.Status = "time-limit"
	case slices.Contains(r.Limits, "killed"):
		x.Status = "killed"
	case slices.Contains(r.Limits, "output-limit"):
		x.Status = "output-limit"
	case !r.Built, r.ExitCode != 0, r.Signal != "":
		x.Status = "error"
	}
	return x
}

// Send implements [suite.Session].
func (s session) Send(ctx context.Context, m suite.Message) (suite.Reply, error) {
	r, err := request(ctx, m)
	if err != nil {
		return suite.Reply{}, err
	}
	return reply(s.MCPSession.Send(ctx, r)) //nolint:bodyclose // Send has read it and closed it
}

// openedSessions are the sessions that one action has opened.
type openedSessions struct {
	open func(context.Context, string) (suite.Session, error)

	mu  sync.Mutex
	all []suite.Session
}

// Open implements [suite.APIEnv]'s.
func (l *openedSessions) Open(ctx context.Context, caller string) (suite.Session, error) {
	s, err := l.open(ctx, caller)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, s)
	return s, nil
}

// closeAtOnce is how many sessions are closed at a time: a hundred goodbyes at
// once would not all be heard in time.
const closeAtOnce = 8

// Close closes all of them, whatever became of the action. That one was closed
// before is no error, and one that cannot be is the settling's to find.
func (l *openedSessions) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(closeAtOnce)
	for _, s := range l.all {
		g.Go(func() error {
			_ = s.Close() // see above
			return nil
		})
	}
	_ = g.Wait() // always nil
	l.all = nil
}

// callerLocks let one scenario after the other be the same caller.
type callerLocks struct {
	mu  sync.Mutex
	all map[string]*sync.Mutex
}

// take waits for every caller of a scenario, in the same order as all others
// do, and returns what gives them back.
func (t *callerLocks) take(as, callers []string) (give func()) {
	if len(as) > 0 && len(callers) == 0 {
		as = []string{""}
	}
	as = slices.Compact(slices.Sorted(slices.Values(as)))
	var held []*sync.Mutex
	for _, name := range as {
		t.mu.Lock()
		if t.all == nil {
			t.all = map[string]*sync.Mutex{}
		}
		m := t.all[name]
		if m == nil {
			m = &sync.Mutex{}
			t.all[name] = m
		}
		t.mu.Unlock()
		m.Lock()
		held = append(held, m)
	}
	return func() {
		for _, m := range held {
			m.Unlock()
		}
	}
}

// hosts are those of addresses with a port and, maybe, a protocol.
func hosts(all [][]string) []string {
	var out []string
	for _, spellings := range all {
		for _, s := range spellings {
			addr, _, _ := strings.Cut(s, "/")
			if host, _, err := net.SplitHostPort(addr); err == nil {
				out = append(out, host)
			}
		}
	}
	return out
}
