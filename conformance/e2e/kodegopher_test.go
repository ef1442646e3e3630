// SPDX-License-Identifier: Apache-2.0

//go:build cluster && linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stockade-dev/stockade/conformance/descriptor"
	"github.com/stockade-dev/stockade/conformance/report"
	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/workloads/gateway/sandboxes"
)

// gopher is a deployment of kode-gopher, as its users and its administrator see
// it: through the gate of the place, and from there by the API server's
// port-forward.
type gopher struct {
	t       *testing.T
	kube    *kube.Client
	target  descriptor.Target
	callers map[string]string

	mu   sync.Mutex
	ways []func(context.Context) (net.Conn, error)
	next int
}

// serverWays is how many ways to the server there are, each to a replica chosen
// by chance: a hundred sessions with a tunnel each would be an attack on the API
// server.
const serverWays = 6

func newGopher(t *testing.T, name string) *gopher {
	t.Helper()
	r := call(t, nil, "place")
	require.Zero(t, r.code, r.stderr)
	place := decode[struct {
		Kubeconfig string                 `json:"kubeconfig"`
		Descriptor *descriptor.Descriptor `json:"descriptor"`
	}](t, r.stdout)
	require.NotNil(t, place.Descriptor, "`stockade up` has not ended")
	g := &gopher{t: t}
	var ok bool
	g.target, ok = place.Descriptor.Targets[name]
	require.True(t, ok, "there is no target %s", name)
	require.NotEmpty(t, g.target.Gateway)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, []byte(place.Kubeconfig), 0o600))
	var err error
	g.kube, err = kube.New(file)
	require.NoError(t, err)
	if g.target.Callers != "" {
		g.callers, err = descriptor.ReadCallers(g.target.Callers)
		require.NoError(t, err)
	}
	for range serverWays {
		g.ways = append(g.ways, target.ForwardTo(g.kube.Config, g.kube.Clientset, g.target.Namespace, g.target.Gateway, "mcp"))
	}
	return g
}

// open begins a session with one of the server's replicas.
func (g *gopher) open(ctx context.Context, caller string) (*target.MCPSession, error) {
	g.mu.Lock()
	g.next++
	way := g.ways[g.next%len(g.ways)]
	g.mu.Unlock()
	return target.MCP{Dial: way, Token: g.callers[caller]}.Open(ctx)
}

func (g *gopher) mustOpen(caller string) *target.MCPSession {
	g.t.Helper()
	s, err := g.open(g.t.Context(), caller)
	require.NoError(g.t, err)
	g.t.Cleanup(func() { _ = s.Close() })
	return s
}

// held are the numbers of claims that users have now, by their digests.
func (g *gopher) held(ctx context.Context) (map[string]int, error) {
	list, err := g.kube.Dynamic.Resource(sandboxes.Claims).Namespace(g.target.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: sandboxes.ManagedByLabel + "=" + sandboxes.ManagedBy})
	if err != nil {
		return nil, err
	}
	n := map[string]int{}
	for _, c := range list.Items {
		n[c.GetLabels()[sandboxes.UserLabel]]++
	}
	return n, nil
}

// released waits until nobody has a sandbox.
func (g *gopher) released() {
	g.t.Helper()
	eventually(g.t, "sandboxes are left whose sessions have ended", func() bool {
		n, err := g.held(g.t.Context())
		return err == nil && len(n) == 0
	})
}

func (g *gopher) run(s *target.MCPSession, p target.MCPProgram) target.MCPResult {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), 2*time.Minute)
	defer cancel()
	r, err := s.Run(ctx, p)
	require.NoError(g.t, err)
	require.False(g.t, r.Refused, r.Message)
	require.True(g.t, r.Built, r.Stderr)
	return r
}

func TestAnHonestClientOfKodeGopher(t *testing.T) {
	for name, caller := range map[string]string{"kode-gopher-local": "", "kode-gopher-shared": "user1"} {
		t.Run(name, func(t *testing.T) {
			g := newGopher(t, name)
			s := g.mustOpen(caller)

			// Three programs: a snippet, one with input, and one of parts.
			assert.Equal(t, "hello 42\n", g.run(s, target.MCPProgram{Source: `fmt.Println("hello", 6*7)`}).Stdout)
			r := g.run(s, target.MCPProgram{Stdin: "through", Source: "package main\n\nimport (\n\t\"io\"\n\t\"os\"\n)\n\nfunc main() {\n\tio.Copy(os.Stdout, os.Stdin)\n\tos.Exit(3)\n}\n"})
			assert.Equal(t, "through", r.Stdout)
			assert.Equal(t, 3, r.ExitCode)
			r = g.run(s, target.MCPProgram{Source: "type point struct{ X, Y int }\nb, err := json.Marshal([]point{{1, 2}, {3, 4}})\nfmt.Println(string(b), err)\n" +
				"words := strings.Fields(\"c a b\")\nsort.Strings(words)\nfmt.Println(words)"})
			if r.Built && r.ExitCode == 0 {
				assert.Equal(t, "[{\"X\":1,\"Y\":2},{\"X\":3,\"Y\":4}] <nil>\n[a b c]\n", r.Stdout)
			} else {
				assert.Fail(t, "the third program failed", "%+v", r)
			}

			// One file is kept, one is lost.
			g.run(s, target.MCPProgram{Source: `for _, f := range []string{"/app/persist/kept", "/app/lost"} { if err := os.WriteFile(f, []byte("x"), 0o600); err != nil { panic(err) } }`})
			look := target.MCPProgram{Source: `for _, f := range []string{"/app/persist/kept", "/app/lost"} { _, err := os.Stat(f); fmt.Println(f, err == nil) }`}
			assert.Equal(t, "/app/persist/kept true\n/app/lost false\n", g.run(s, look).Stdout)

			// After release there is nothing.
			require.NoError(t, s.Close())
			g.released()
			next := g.mustOpen(caller)
			assert.Equal(t, "/app/persist/kept false\n/app/lost false\n", g.run(next, look).Stdout)
			require.NoError(t, next.Close())
			g.released()
		})
	}
}

// What the crowd may take. Each sandbox builds a program, and two cores build
// perhaps one in three seconds: not everybody is served in the time, and nobody
// has to be.
const (
	crowd     = 100
	crowdTime = 2 * time.Minute
	mark      = "stockade-e2e-canary"
)

// visit is what the agent of the scenarios says of one run.
type visit struct {
	Host      string   `json:"host"`
	Addresses []string `json:"addresses"`
	Did       []struct {
		OK   bool   `json:"ok"`
		Code int    `json:"code"`
		Text string `json:"text"`
	} `json:"did"`
}

// maxLost bounds how often one session may lose its way to the server.
const maxLost = 2

// askedFor is the place of the first of the orders that ask for a token.
const askedFor = 3

// token is the answer of the metadata server. A Pod that has just begun may have to
// ask again: its policy is written while it starts.
func (v visit) token() (text string, ok bool) {
	for _, d := range v.Did[askedFor:] {
		if d.Code == http.StatusOK {
			return d.Text, true
		}
	}
	return "", false
}

func TestAHundredSessionsOfFiveUsers(t *testing.T) {
	g := newGopher(t, "kode-gopher-shared")
	g.released()
	agent, err := os.ReadFile("../../scenarios/kodegopher/agent/main.go")
	require.NoError(t, err)
	users := []string{"user1", "user2", "user3", "user4", "user5"}

	watching, stop := context.WithCancel(t.Context())
	defer stop()
	most := map[string]int{}
	looks := 0
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			if n, err := g.held(watching); err == nil {
				looks++
				for u, k := range n {
					most[u] = max(most[u], k)
				}
			}
			select {
			case <-watching.Done():
				return
			case <-tick.C:
			}
		}
	})

	ctx, cancel := context.WithTimeout(t.Context(), crowdTime)
	defer cancel()
	var served [5]atomic.Int32
	var refused atomic.Int32
	var mu sync.Mutex
	tokens, hosts := map[string]int{}, map[string]int{}
	tokened := 0
	var all sync.WaitGroup
	// They have to be open at once, and not to be opened and closed at once.
	door := make(chan struct{}, 8)
	for i := range crowd {
		all.Go(func() {
			door <- struct{}{}
			s, err := g.open(t.Context(), users[i%5])
			<-door
			if !assert.NoError(t, err, "session %d", i) {
				return
			}
			defer func() {
				door <- struct{}{}
				assert.NoError(t, s.Close(), "session %d", i)
				<-door
			}()
			v, asked, ok := visitOnce(ctx, t, s, string(agent), i)
			refused.Add(int32(asked))
			if !ok {
				return
			}
			served[i%5].Add(1)
			assert.False(t, v.Did[0].OK, "session %d saw another's canary: %s", i, v.Did[0].Text)
			assert.True(t, v.Did[2].OK, "session %d finds its own: %s", i, v.Did[2].Text)
			mu.Lock()
			defer mu.Unlock()
			if token, ok := v.token(); ok {
				tokens[token]++
				tokened++
			} else {
				// Beside so many that start on two cores the first questions for a
				// name go unanswered at times. It has no token that could be wrong.
				t.Logf("session %d has no token: %+v", i, v.Did[askedFor:])
			}
			// A sandbox that was started for a claim has the name of the one before.
			hosts[fmt.Sprint(v.Host, v.Addresses)]++
		})
	}
	all.Wait()
	stop()
	watch.Wait()

	total := 0
	for i := range served {
		assert.GreaterOrEqual(t, served[i].Load(), int32(2), "each user has two at least: %s", users[i])
		total += int(served[i].Load())
	}
	assert.Positive(t, refused.Load(), "a hundred are more than ten")
	assert.Greater(t, looks, 50, "the API server was asked all the while")
	assert.Len(t, most, len(users))
	for u, n := range most {
		assert.LessOrEqual(t, n, sandboxes.MaxPerUser, u)
	}
	assert.Len(t, hosts, total, "each session had a sandbox of its own: %v", hosts)
	assert.Len(t, tokens, tokened, "each run had a token of its own")
	assert.GreaterOrEqual(t, 5*tokened, 4*total, "a run without a token says nothing of them")
	for text := range tokens {
		assert.False(t, g.active(text), "a token is valid after its run")
	}
	g.released()
	t.Logf("%d of %d sessions were served, %d calls were refused, the API server was asked %d times", total, crowd, refused.Load(), looks)
}

// visitOnce asks for one run until it is given one or the time is over, and tells
// how often it was refused for the number of the user's sandboxes.
func visitOnce(ctx context.Context, t *testing.T, s *target.MCPSession, agent string, i int) (v visit, refused int, ok bool) {
	t.Helper()
	own := fmt.Sprintf("%s-%d", mark, i)
	ask := map[string]any{"do": "ask", "address": "$GCE_METADATA_HOST", "path": "/computeMetadata/v1/instance/service-accounts/default/token", "header": []string{"Metadata-Flavor: Google"}}
	orders, err := json.Marshal([]map[string]any{
		{"do": "find", "text": mark}, {"do": "plant", "path": "/app/persist/" + own, "text": own}, {"do": "find", "text": own}, ask, ask, ask,
	})
	if !assert.NoError(t, err) {
		return v, 0, false
	}
	// Each refusal costs the API server some requests.
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for lost := 0; ; {
		// A run that has begun is let to its end.
		r, err := s.Run(context.WithoutCancel(ctx), target.MCPProgram{Source: agent, Stdin: string(orders)})
		if err != nil && lost < maxLost {
			// A hundred share six ways through the kubelet, which drops one at times.
			lost++
			t.Logf("session %d asks again: %v", i, err)
			r.Refused, r.Message = true, "try again later"
		} else if !assert.NoError(t, err, "session %d", i) {
			return v, refused, false
		}
		if !r.Refused {
			ok := assert.NoError(t, json.Unmarshal([]byte(r.Stdout), &v), "session %d: %+v", i, r) && assert.Len(t, v.Did, askedFor+3)
			return v, refused, ok
		}
		// One who has a slot may wait in vain for a sandbox that has to be started
		// among all the others. It comes again, as it is told.
		if !strings.Contains(r.Message, "try again later") {
			assert.Contains(t, r.Message, "as many as a user may have", "session %d", i)
			refused++
		}
		select {
		case <-ctx.Done():
			return v, refused, false
		case <-tick.C:
		}
	}
}

// active asks the metadata server whether a token, as it was handed out, is that
// of a run that goes on.
func (g *gopher) active(answer string) bool {
	g.t.Helper()
	token := decode[struct {
		Value string `json:"access_token"`
	}](g.t, answer)
	require.NotEmpty(g.t, token.Value)
	r, err := http.NewRequestWithContext(g.t.Context(), http.MethodPost, "http://localhost/v1/introspect",
		strings.NewReader(url.Values{"token": {token.Value}}.Encode()))
	require.NoError(g.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	way := target.ForwardTo(g.kube.Config, g.kube.Clientset, g.target.Namespace, "kode-gopher-metadata-control", "control")
	got, body, err := target.Send(g.t.Context(), way, r)
	require.NoError(g.t, err)
	require.Equal(g.t, http.StatusOK, got.StatusCode)
	return decode[struct{ Active bool }](g.t, string(body)).Active
}

// restart ends the API server's container, which the kubelet starts again. The
// way there is the engine's, not the API server's own.
func restartAPIServer(t *testing.T) {
	t.Helper()
	r := kubectl(t, nil, "get", "nodes", "-l", "node-role.kubernetes.io/control-plane", "-o", "jsonpath={.items[0].metadata.name}")
	require.Zero(t, r.code, r.stderr)
	node := strings.TrimSpace(r.stdout)
	crictl := func(args ...string) string {
		r := call(t, nil, append([]string{"exec", "--", "docker", "exec", node, "crictl"}, args...)...)
		require.Zero(t, r.code, r.stderr)
		return strings.TrimSpace(r.stdout)
	}
	id := crictl("ps", "--name", "^kube-apiserver$", "--state", "Running", "--quiet")
	require.NotEmpty(t, id, "the API server does not run")
	crictl("stop", "--timeout", "1", id)
	t.Cleanup(func() { back(t) })
}

// back waits until the cluster is as it was: what the API server's absence has
// ended is started again by the kubelet, not at once.
func back(t *testing.T) {
	t.Helper()
	eventually(t, "the cluster did not come back", func() bool {
		if kubectl(t, nil, "get", "--raw", "/readyz").code != 0 {
			return false
		}
		return kubectl(t, nil, "wait", "--for=condition=Ready", "pods", "--all", "-n", "kube-system", "--timeout=5s").code == 0 &&
			kubectl(t, nil, "wait", "--for=condition=Available", "deployments", "--all", "-n", "agent-sandbox-system", "--timeout=5s").code == 0
	})
}

func restartController(t *testing.T) {
	t.Helper()
	r := kubectl(t, nil, "delete", "pod", "-n", "agent-sandbox-system", "-l", "app=agent-sandbox-controller", "--wait=false")
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stdout, "deleted", "the controller has no Pod")
	t.Cleanup(func() { back(t) })
}

const (
	keep = `if err := os.WriteFile("/app/persist/kept", []byte("x"), 0o600); err != nil { panic(err) }; fmt.Println("kept")`
	see  = `_, err := os.Stat("/app/persist/kept"); fmt.Println(err == nil)`
)

// keeping opens a user's session, with nobody else's beside it, and leaves a file in it.
func (g *gopher) keeping(user string) *target.MCPSession {
	g.t.Helper()
	g.released()
	s := g.mustOpen(user)
	assert.Equal(g.t, "kept\n", g.run(s, target.MCPProgram{Source: keep}).Stdout)
	return s
}

// goesOn asks a session again until it answers as if nothing had happened. What
// it says until then has to be an error, or a refusal that says what to do.
func goesOn(t *testing.T, s *target.MCPSession) {
	t.Helper()
	eventually(t, "the session did not go on", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err := s.Run(ctx, target.MCPProgram{Source: see})
		switch {
		case err != nil:
			t.Logf("meanwhile: %v", err)
			return false
		case r.Refused:
			assert.Contains(t, r.Message, "try again later")
			return false
		}
		assert.Equal(t, "true\n", r.Stdout, "it is the same sandbox")
		return true
	})
}

func TestSessionsOutliveARestartOfTheController(t *testing.T) {
	g := newGopher(t, "kode-gopher-shared")
	s := g.keeping("user1")
	restartController(t)
	goesOn(t, s)
	// A new one waits for the controller, or is told to come again.
	eventually(t, "no new session is served", func() bool {
		next, err := g.open(t.Context(), "user2")
		if err != nil {
			return false
		}
		defer next.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
		defer cancel()
		r, err := next.Run(ctx, target.MCPProgram{Source: see})
		if err == nil && r.Refused {
			assert.Contains(t, r.Message, "try again later")
		}
		return err == nil && !r.Refused && r.Stdout == "false\n"
	})
	require.NoError(t, s.Close())
	g.released()
}

func TestSessionsOutliveARestartOfTheAPIServer(t *testing.T) {
	g := newGopher(t, "kode-gopher-shared")
	s := g.keeping("user1")
	restartAPIServer(t)
	goesOn(t, s)
	require.NoError(t, s.Close())
	g.released()
}

// Nothing that a restart takes away may be counted as a control at work: a claim
// that is broken must not look as if it held, and one that holds must not look
// broken.
func TestARunIsHonestWhateverIsRestartedInIt(t *testing.T) {
	g := newGopher(t, "kode-gopher-shared")
	// A run of one short attack has its claim for a few seconds.
	claimed := func() bool {
		list, err := g.kube.Dynamic.Resource(sandboxes.Claims).List(t.Context(), metav1.ListOptions{LabelSelector: runner.RunLabel})
		return err == nil && len(list.Items) > 0
	}
	for name, restart := range map[string]func(*testing.T){"the API server": restartAPIServer, "the controller": restartController} {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				args     []string
				never    verdict.Verdict
				outcomes int
			}{
				{[]string{"run", "--json", "--target", "seed", "filesystem.tmp-size"}, verdict.Held, 1},
				{[]string{"run", "--json", "--profile", "kode-gopher-shared", "kode-gopher.session-separation", "kode-gopher.app-wipe", "kode-gopher.run-token"}, verdict.Breached, 3},
			} {
				cmd := command(t.Context(), c.args...)
				var out bytes.Buffer
				var errs lines
				cmd.Stdout, cmd.Stderr = &out, &errs
				require.NoError(t, cmd.Start())
				require.Eventually(t, claimed, quick, 50*time.Millisecond, "the run never claimed a sandbox")
				restart(t)
				_ = cmd.Wait() // the report is what counts
				rep, err := report.Read(bytes.NewReader(out.Bytes()))
				require.NoError(t, err, "%s\n%s", out.String(), errs.String())
				assert.GreaterOrEqual(t, len(rep.Results), c.outcomes)
				for _, x := range rep.Results {
					assert.NotEqual(t, c.never, x.Verdict, "%s: %s: %s", x.ID, x.Reason, x.Detail)
				}
				back(t)
				if code := cmd.ProcessState.ExitCode(); code == verdict.ExitResidue || len(claims(t)) > 0 {
					r := call(t, nil, "cleanup", "--json")
					assert.Zero(t, r.code, "what a run could not remove, a cleanup can: %s", r.stderr)
				}
			}
		})
	}
}
