// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/conformance/witness"
	"github.com/stockade-dev/stockade/workloads/gateway/sandboxes"
)

// played is a session without a server.
type played struct {
	caller string
	closed atomic.Int32
}

func (p *played) ID() string { return p.caller }
func (p *played) Run(context.Context, suite.Program) (suite.Execution, error) {
	return suite.Execution{Status: "ok"}, nil
}
func (p *played) Send(context.Context, suite.Message) (suite.Reply, error) { return suite.Reply{}, nil }
func (p *played) Close() error {
	p.closed.Add(1)
	return nil
}

// asking is a scenario of the API.
func asking(id string, as []string, act suite.APIAction) suite.Scenario {
	s := scenario(id, nil)
	s.Attack, s.Control = nil, suite.ControlSpec{}
	s.Ask, s.As = act, as
	s.AskControl = func(context.Context, *suite.APIEnv) []verdict.Step { return []verdict.Step{{Name: "try", OK: true}} }
	s.Timeout = 5 * time.Second
	return s
}

func TestWhatAnActionLeavesOpenIsClosed(t *testing.T) {
	var opened []*played
	f := setup(t, asking("door.knock", []string{"user1"}, func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
		for _, caller := range []string{"user1", "user1"} {
			_, err := env.Open(ctx, caller)
			require.NoError(t, err)
		}
		return []verdict.Step{{Name: "try", Class: verdict.Dropped}}
	}))
	f.ground.furnish = func(f *Field) {
		f.Callers = []string{"user1"}
		f.Open = func(_ context.Context, caller string) (suite.Session, error) {
			p := &played{caller: caller}
			opened = append(opened, p)
			return p, nil
		}
		f.AwaitRelease = func(context.Context) []string {
			for _, p := range opened {
				assert.Equal(t, int32(1), p.closed.Load(), "sessions end before the sandboxes are looked for")
			}
			return []string{"sandbox x of user1"}
		}
	}
	run := f.run(t)
	assert.Equal(t, verdict.Held, only(t, run).Result.Verdict(), said(only(t, run)))
	assert.Len(t, opened, 2)
	assert.Equal(t, []string{"sandbox x of user1"}, run.Residue, "what the server has not given back is told")
}

func TestATargetWithoutAServerHasNoSessions(t *testing.T) {
	f := setup(t, asking("door.knock", nil, func(_ context.Context, env *suite.APIEnv) []verdict.Step {
		assert.Nil(t, env.Open)
		assert.Empty(t, env.Callers)
		return []verdict.Step{{Name: "try", Class: verdict.Dropped}}
	}))
	assert.Equal(t, verdict.Held, only(t, f.run(t)).Result.Verdict())
}

func TestNoTwoScenariosAreTheSameCaller(t *testing.T) {
	for name, c := range map[string]struct {
		callers []string
		most    int32 // at a time
	}{
		"callers who authenticate": {[]string{"user1", "user2", "user3"}, 2},
		"one user for all":         {nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var now, most atomic.Int32
			act := func(context.Context, *suite.APIEnv) []verdict.Step {
				n := now.Add(1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				<-time.After(50 * time.Millisecond)
				now.Add(-1)
				return []verdict.Step{{Name: "try", Class: verdict.Dropped}}
			}
			f := setup(t, asking("a.one", []string{"user1"}, act), asking("a.two", []string{"user2", "user1"}, act), asking("a.three", []string{"user3"}, act))
			f.ground.furnish = func(f *Field) { f.Callers = c.callers }
			for _, o := range f.run(t).Outcomes {
				assert.Equal(t, verdict.Held, o.Result.Verdict(), said(o))
			}
			assert.LessOrEqual(t, most.Load(), c.most)
		})
	}
}

func TestADropAtTheServersNodeCounts(t *testing.T) {
	s := scenario("net.server", denied)
	s.From, s.Control.At = suite.Control, suite.Router
	s.Attempts = 2
	s.Witnesses = []suite.Witness{{Name: suite.Flows, Flow: &suite.Flow{Servers: true,
		To: func(probe.Site) []string { return []string{"10.96.0.7:80"} }}}}
	line := func(from, to string, port int, how string) string {
		return fmt.Sprintf(`{"flow":{"time":"T",%s,"IP":{"source":%q,"destination":%q},"l4":{"TCP":{"destination_port":%d}}}}`, how, from, to, port)
	}
	const (
		dropped   = `"verdict":"DROPPED","drop_reason_desc":"POLICY_DENIED","traffic_direction":"INGRESS"`
		kept      = `"verdict":"DROPPED","drop_reason_desc":"POLICY_DENIED","traffic_direction":"EGRESS"`
		leaves    = `"verdict":"FORWARDED","trace_observation_point":"TO_OVERLAY"`
		delivered = `"verdict":"FORWARDED","trace_observation_point":"TO_ENDPOINT"`
	)
	for name, c := range map[string]struct {
		how  string // at the server's node
		want verdict.Verdict
	}{
		"dropped there":   {dropped, verdict.Held},
		"delivered there": {delivered, verdict.Breached},
		"not seen there":  {"", verdict.Inconclusive},
		// By a policy on what the attacker's Pod sends: the server may have none.
		"dropped on the way out": {kept, verdict.Inconclusive},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, s)
			f.ground.furnish = func(fd *Field) {
				fd.Servers = []string{"system"}
				fd.Aliases = map[string][]string{"10.96.0.7:80": {"10.0.9.1:8080"}}
			}
			at := time.Now().Add(time.Second)
			f.ground.flows = append(f.ground.flows, flow(t, line("10.0.0.3", "10.0.9.1", 8080, leaves), at))
			here := f.ground
			here.elsewhere = map[string][]witness.Flow{"system": {flow(t, line("10.0.0.4", "10.0.9.1", 8080, delivered), at)}}
			if c.how != "" {
				here.elsewhere["system"] = append(here.elsewhere["system"], flow(t, line("10.0.0.3", "10.0.9.1", 8080, c.how), at))
			}
			o := only(t, f.run(t))
			assert.Equal(t, c.want, o.Result.Verdict(), said(o))
		})
	}
}

func TestAResultIsPutIntoTheSuitesWords(t *testing.T) {
	for want, r := range map[string]target.MCPResult{
		"ok":          {Built: true, Stdout: "x"},
		"error":       {Built: true, ExitCode: 1},
		"time-limit":  {Built: true, Signal: "killed", Limits: []string{"time-limit"}},
		"killed":      {Built: true, Signal: "killed", Limits: []string{"killed"}},
		suite.Refused: {Refused: true, Message: "no"},
	} {
		assert.Equal(t, want, executionOf(r).Status)
		assert.Equal(t, int64(-1), executionOf(r).UID)
	}
	assert.Equal(t, "error", executionOf(target.MCPResult{}).Status, "what was not built did not run")
	assert.Equal(t, "no", executionOf(target.MCPResult{Refused: true, Message: "no"}).Stderr)
	_, err := session{}.Run(t.Context(), suite.Program{Language: "python"})
	assert.ErrorContains(t, err, "python")
}

// claimOf is a claim of the server's for a user.
func claimOf(user, uid, box string) *unstructured.Unstructured {
	c := object(claimKind, "sandboxes", "kg-"+uid)
	c.SetUID(types.UID(uid))
	c.SetLabels(map[string]string{sandboxes.UserLabel: sandboxes.Digest(user)})
	if box != "" {
		c.Object["status"] = map[string]any{"sandbox": map[string]any{"name": box, "podIPs": []any{"10.0.0.9"}}}
	}
	return c
}

func withServer(k *Kube, callers map[string]string) *server {
	k.o.Gateway, k.o.Callers = "gateway", callers
	k.server = newServer(k)
	return k.server
}

func TestACallersSandboxesAreReadFromTheClaims(t *testing.T) {
	own := object(sandboxKind, "sandboxes", "a")
	own.SetUID("a-uid")
	own.SetOwnerReferences(owner("1"))
	others := object(sandboxKind, "sandboxes", "b")
	others.SetUID("b-uid")
	others.SetOwnerReferences(owner("other"))
	k := pretended(t, nil, claimOf("static:user1", "1", "a"), claimOf("static:user1", "2", ""), claimOf("static:user1", "3", "b"),
		claimOf("static:user2", "4", "a"), claimOf("local", "5", ""), own, others)
	s := withServer(k, map[string]string{"user1": "t", "user2": "t"})
	held, err := s.held(t.Context(), "user1")
	require.NoError(t, err)
	assert.ElementsMatch(t, []suite.Holding{
		{Claim: "1", Sandbox: "a", UID: "a-uid", Addresses: []string{"10.0.0.9"}}, {Claim: "2"},
		{Claim: "3", Sandbox: "b", Addresses: []string{"10.0.0.9"}}, // whose Sandbox is another's
	}, held)
	held, err = s.held(t.Context(), "")
	require.NoError(t, err)
	assert.Len(t, held, 1, "the one user of a server without authentication")
}

func TestASandboxThatStaysAfterItsSessionIsTold(t *testing.T) {
	k := pretended(t, nil, claimOf("static:user1", "old", "a"))
	s := withServer(k, map[string]string{"user1": "t"})
	f := &Field{}
	require.NoError(t, s.furnish(t.Context(), f))
	assert.Equal(t, []string{"user1"}, f.Callers)
	assert.Equal(t, "t", f.Token("user1"))
	assert.Empty(t, f.AwaitRelease(t.Context()), "what was there before is not this run's")
	for _, c := range []*unstructured.Unstructured{claimOf("static:user1", "new", "b"), claimOf("static:somebody", "other", "")} {
		require.NoError(t, k.create(t.Context(), c, false))
	}
	left := f.AwaitRelease(t.Context())
	require.Len(t, left, 1)
	assert.Contains(t, left[0], "kg-new of static:user1")
}

func TestTheServersAreFoundByTheirServices(t *testing.T) {
	service := func(name, ip, port string, number int32) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "sandboxes", Name: name},
			Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Name: port, Port: number}}}}
	}
	node, name, number := "system", "mcp", int32(8080)
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "sandboxes", Name: "g", Labels: map[string]string{discoveryv1.LabelServiceName: "gateway"}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.9.1"}, NodeName: &node}}, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &number}}}
	k := pretended(t, []runtime.Object{slice, service("gateway", "10.96.0.7", "mcp", 80), service("router", "10.96.0.8", "http", 8080),
		service("box", corev1.ClusterIPNone, "x", 1)})
	f := &Field{Aliases: map[string][]string{}}
	require.NoError(t, withServer(k, nil).survey(t.Context(), f))
	assert.Equal(t, "10.96.0.7:80", f.Site.Server)
	assert.Equal(t, []string{"10.96.0.8:8080"}, f.Site.Inner)
	assert.Equal(t, []string{"10.0.9.1:8080"}, f.Aliases["10.96.0.7:80"])
	assert.Equal(t, []string{"system"}, f.Servers)

	k.o.Gateway = "another"
	k.server = newServer(k)
	assert.ErrorContains(t, k.server.survey(t.Context(), f), "no Service another")
}

func TestCallersWithoutAServerAreAMistake(t *testing.T) {
	k := pretended(t, nil)
	o := k.o
	o.Callers = map[string]string{"user1": "t"}
	_, err := NewKube(o)
	assert.ErrorContains(t, err, "no server")
}

func TestARequestGoesOutAsItWasWritten(t *testing.T) {
	r, err := request(t.Context(), suite.Message{Method: http.MethodPost, Path: "/x?a=b", Body: "text",
		Header: http.Header{"x-sandbox-id": {"one", "two"}}})
	require.NoError(t, err)
	assert.Equal(t, "/x?a=b", r.URL.RequestURI())
	assert.Equal(t, []string{"one", "two"}, r.Header["X-Sandbox-Id"])
	_, err = request(t.Context(), suite.Message{Method: "B AD", Path: "/"})
	assert.Error(t, err)
	_, err = reply(nil, nil, errors.New("lost"))
	assert.Error(t, err)
}

func TestTurnsAreGivenBack(t *testing.T) {
	var locks callerLocks
	var wg sync.WaitGroup
	var in atomic.Int32
	for i := range 20 {
		wg.Go(func() {
			as := []string{"a", "b"}
			if i%2 == 0 {
				as = []string{"b", "a", "a"} // named twice, and in another order
			}
			give := locks.take(as, []string{"a", "b"})
			assert.Equal(t, int32(1), in.Add(1))
			in.Add(-1)
			give()
		})
	}
	wg.Wait()
	locks.take(nil, nil)() // who is nobody waits for nobody
}

func TestTheHostsOfPlaces(t *testing.T) {
	assert.Equal(t, []string{"10.0.0.1", "fd00::1", "*"}, hosts([][]string{{"10.0.0.1:80/tcp", "[fd00::1]:80"}, {"*:53/udp", "10.0.0.2/icmp"}}))
	assert.True(t, strings.HasPrefix(user("x"), "static:"))
}
