// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/conformance/witness"
	"github.com/stockade-dev/stockade/workloads/runner"
)

const nonce = "0123456789abcdef0123456789abcdee"

// cluster is a site that has everything.
var cluster = probe.Site{
	PublicTCP: "203.0.113.7:8080", PublicTLS: "8.8.8.8:443", PublicUDP: "198.51.100.9:4500", PublicDNS: "8.8.8.8:53",
	Metadata: "169.254.169.254:80", Tunnel: "tunnel.test.", ClusterDNS: "10.96.0.10:53", DNSPod: "10.244.0.5",
	APIServer: "10.96.0.1:443", RFC1918: []string{"10.99.0.7:8080"}, Own: "10.244.1.3", Sibling: "10.244.1.4", ControlPod: "10.244.1.5", ListenPort: 47321,
	AllowedHost: "storage.googleapis.com.", SharingHost: "attacker.googleusercontent.com.", FrontEnd: "203.0.113.10:443",
	Unlisted:       []probe.Host{{Name: "attacker.stockade.test.", Address: "203.0.113.66:443"}},
	RestrictedHost: "restricted.googleapis.com.", OwnBucket: "own", ForeignBucket: "foreign",
}

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func TestTheFamilyRegisters(t *testing.T) {
	var r suite.Registry
	r.MustAdd(inside()...)
	claimed := map[string]bool{}
	for _, s := range r.All() {
		assert.True(t, strings.HasPrefix(s.ID, "kode-gopher."), s.ID)
		for _, c := range s.Claims {
			claimed[c] = true
		}
		if s.ID == "kode-gopher.run-program" || s.ID == "kode-gopher.service-links" {
			continue
		}
		assert.GreaterOrEqual(t, s.Attempts, 2, "%s: a network denial must hold twice", s.ID)
		assert.NotEmpty(t, s.Witnesses, "%s: silence alone proves nothing", s.ID)
		for _, c := range []verdict.Class{verdict.Refused, verdict.Reset, verdict.Unreachable, verdict.NoName} {
			assert.NotContains(t, s.Accept, c, "%s: somebody beyond the policy answered, or nothing was sent", s.ID)
		}
	}
	for _, c := range []string{"KG-04", "KG-05", "KG-06", "KG-07", "KG-08", "KG-10", "KG-12", "KG-13"} {
		assert.True(t, claimed[c], "nothing speaks for %s", c)
	}
}

func TestASiteThatNamesNothingGivesNoEvidence(t *testing.T) {
	for _, s := range inside() {
		switch s.ID {
		case "kode-gopher.run-program", "kode-gopher.service-links", "kode-gopher.private-in-ipv6":
			continue // what they look at is fixed, or the machine's own
		}
		steps := s.Attack(t.Context(), &probe.Env{Nonce: nonce})
		require.NotEmpty(t, steps, s.ID)
		for _, step := range steps {
			assert.False(t, step.OK, "%s: %s", s.ID, step.Name)
			assert.False(t, step.Class.IsEvidence(), "%s: %s: %s", s.ID, step.Name, step.Class)
		}
	}
}

// sent is a flow of the attacker to a place, as [suite.Flow] spells it.
func sent(t *testing.T, place string, through bool) witness.Flow {
	t.Helper()
	addr, proto, named := strings.Cut(place, "/")
	if !named {
		proto = "tcp"
	}
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err, place)
	what := `"verdict":"DROPPED","drop_reason_desc":"POLICY_DENIED"`
	if through {
		what = `"verdict":"FORWARDED","trace_observation_point":"TO_ENDPOINT"`
	}
	flows, strange, err := witness.ParseFlows(strings.NewReader(fmt.Sprintf(
		`{"flow":{"time":%q,%s,"IP":{"source":"10.244.1.9","destination":%q},"l4":{%q:{"destination_port":%s}}}}`,
		now.Format(time.RFC3339), what, host, strings.ToUpper(proto), port)))
	require.NoError(t, err)
	require.Zero(t, strange)
	return flows[0]
}

// lie decides on a probe that says that it was denied everything, and that it
// could do what it may, and sends no nonce where that would be seen.
func lie(t *testing.T, s suite.Scenario, flows ...witness.Flow) verdict.Result {
	t.Helper()
	said := verdict.Attempt{Nonce: "a", Complete: true, Steps: []verdict.Step{{Name: "connect", Class: verdict.Dropped}}, Start: now, End: now}
	e := verdict.Evidence{Accept: s.Accept, MinAttempts: 2}
	if s.Kind == suite.Limit {
		e.Core = verdict.Disclosed
		said.Steps = append(said.Steps, verdict.Step{Name: "send", Expect: verdict.Disclosed, OK: true})
	}
	e.Attempts = []verdict.Attempt{said, said}
	e.Controls = []verdict.Attempt{{Nonce: "c", Complete: true, Steps: []verdict.Step{{Name: "connect", OK: true}}, Start: now, End: now}}
	control := sent(t, "192.0.2.1:80", true)
	control.Source = netip.MustParseAddr("10.244.1.2")
	for _, w := range s.Witnesses {
		st := verdict.Statement{Witness: w.Name, Live: true, Agrees: true}
		if w.Flow != nil {
			var to [][]string
			for _, p := range w.Flow.To(cluster) {
				to = append(to, []string{p})
			}
			st = witness.JudgeFlows(append(flows, control), witness.FlowQuery{
				From: []string{"10.244.1.9"}, Control: []string{"10.244.1.2"}, To: to, Guarded: []string{cluster.Own}, Begin: now, Until: now})
		}
		e.Require, e.Statements = append(e.Require, w.Name), append(e.Statements, st)
	}
	return verdict.Decide(e)
}

func TestAProbeIsBelievedOnlyWhereTheFlowsSayTheSame(t *testing.T) {
	tried := 0
	for _, s := range inside() {
		var w *suite.Flow
		for _, x := range s.Witnesses {
			if x.Flow != nil {
				w = x.Flow
			}
		}
		if w == nil {
			continue
		}
		tried++
		places := w.To(cluster)
		require.NotEmpty(t, places, s.ID)
		var all []witness.Flow
		for _, p := range places {
			all = append(all, sent(t, p, false))
		}
		assert.Equal(t, verdict.Inconclusive, lie(t, s).Verdict(), "%s: it sent nothing", s.ID)
		r := lie(t, s, all...)
		assert.Equal(t, verdict.Held, r.Verdict(), "%s, all of it dropped: %s", s.ID, r.Detail())
		for i, p := range places {
			left := append(append([]witness.Flow{}, all[:i]...), all[i+1:]...)
			assert.Equal(t, verdict.Inconclusive, lie(t, s, left...).Verdict(), "%s without %s", s.ID, p)
			assert.Equal(t, verdict.Breached, lie(t, s, append(left, sent(t, p, true))...).Verdict(), "%s, through to %s", s.ID, p)
		}
	}
	assert.Equal(t, 10, tried)
}

func TestTheThreeStrangersComeFromWhereTheySay(t *testing.T) {
	for _, s := range []struct {
		s    suite.Scenario
		from suite.Role
	}{{portFromSibling(), suite.Sibling}, {portFromStranger(), suite.Control}, {portFromImpostor(), suite.Impostor}} {
		assert.Equal(t, s.from, s.s.From, s.s.ID)
		assert.Equal(t, s.from, s.s.Witnesses[0].Flow.From, "%s: the flow begins where the attack does", s.s.ID)
		assert.Equal(t, suite.Router, s.s.Control.At, "%s: only the server may get in", s.s.ID)
		assert.Equal(t, []string{"10.244.1.3:8888"}, s.s.Witnesses[0].Flow.To(cluster), s.s.ID)
	}
}

func TestTheControlAtThePortWantsTheRunnersOwnWord(t *testing.T) {
	status := http.StatusOK
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		w.WriteHeader(status)
	}))
	defer server.Close()
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	env := &probe.Env{Nonce: nonce, Part: probe.Control, Site: probe.Site{Own: host}}
	assert.True(t, askHealth(t.Context(), env, port).OK)
	assert.Equal(t, []string{"/healthz"}, asked)
	status = http.StatusNotFound
	step := askHealth(t.Context(), env, port)
	assert.False(t, step.OK, "somebody else answered")
	assert.False(t, step.Class.IsEvidence())
	env.Part = probe.Attack
	assert.True(t, askHealth(t.Context(), env, port).OK, "an attack is through with the connect")
	server.Close()
	assert.Equal(t, verdict.Refused, askHealth(t.Context(), env, port).Class, "which the scenarios do not take for a denial")
}

func TestAServiceInTheEnvironmentIsFound(t *testing.T) {
	usual := []string{"PATH=/bin", "KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443", "KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1"}
	assert.Equal(t, verdict.Absent, services("x", usual, nil).Class)
	for _, more := range []string{"KODE_GOPHER_SERVICE_HOST=10.96.7.7", "KUBERNETES_X_SERVICE_HOST=10.96.7.7"} {
		step := services("x", append(usual, more), nil)
		assert.True(t, step.OK, more)
		assert.Contains(t, step.Detail, "10.96.7.7")
	}
	assert.False(t, services("x", nil, nil).Class.IsEvidence(), "no container's is empty")
	assert.False(t, services("x", usual, errors.New("gone")).Class.IsEvidence())
}

func TestASandboxCannotHideThatItWasToldOfServices(t *testing.T) {
	for name, c := range map[string]struct {
		pod          suite.PodFacts
		live, agrees bool
	}{
		"without links":     {suite.PodFacts{Phase: "Running", Declared: true}, true, true},
		"with links":        {suite.PodFacts{Phase: "Running", Declared: true, ServiceLinks: true}, true, false},
		"not read":          {suite.PodFacts{Phase: "Running"}, false, true},
		"a Pod that is not": {suite.PodFacts{Declared: true}, false, true},
	} {
		s := noServiceLinks(suite.Reading{Pod: c.pod})
		assert.Equal(t, c.live, s.Live, name)
		assert.Equal(t, c.agrees, s.Agrees, name)
	}
}

// resolver answers every question for an address with the same one, or with none.
func resolver(t *testing.T, answer string) string {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	go func() {
		buf := make([]byte, 512)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			a := append([]byte{}, buf[:n]...)
			a[2] |= 0x80
			if answer != "" {
				binary.BigEndian.PutUint16(a[6:], 1)
				a = append(a, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4) // the name asked for, A, IN, 30 s
				a = append(a, netip.MustParseAddr(answer).AsSlice()...)
			}
			_, _ = c.WriteTo(a, from)
		}
	}()
	return c.LocalAddr().String()
}

// frontEnd answers on loopback with a status, and remembers what it was asked.
func frontEnd(t *testing.T, status int) (addr string, asked func() []string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, r.Method+" "+r.Host+r.URL.RequestURI())
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), func() []string { mu.Lock(); defer mu.Unlock(); return all }
}

func TestAnAllowListThatLetsAHostThroughIsFound(t *testing.T) {
	addr, _ := frontEnd(t, http.StatusOK)
	site := probe.Site{ClusterDNS: resolver(t, "127.0.0.1"), AllowedHost: "a.test.", FrontEnd: addr, Unlisted: []probe.Host{{Name: "b.test.", Address: addr}}}
	env := &probe.Env{Nonce: nonce, Site: site}
	steps := unlistedHost().Attack(t.Context(), env)
	require.Len(t, steps, 1)
	assert.True(t, steps[0].OK, steps[0].Detail)
	steps = reachAllowed(t.Context(), env)
	require.Len(t, steps, 1)
	assert.True(t, steps[0].OK, steps[0].Detail)
	assert.Equal(t, verdict.MustWork, steps[0].Expect)

	// Without the answer the enforcer has seen no name, and nothing was tried.
	env.Site.ClusterDNS = resolver(t, "")
	for _, s := range []suite.Scenario{unlistedHost(), otherPort(), sharedFrontEnd(), allowedHost()} {
		for _, step := range s.Attack(t.Context(), env) {
			assert.False(t, step.OK, s.ID)
			assert.False(t, step.Class.IsEvidence(), "%s: %s", s.ID, step.Class)
		}
	}
}

func TestAnAllowedHostThatIsDroppedBreaksTheClaim(t *testing.T) {
	for name, c := range map[string]struct {
		step verdict.Step
		want verdict.Verdict
	}{
		"reached":           {verdict.Step{OK: true}, verdict.Held},
		"dropped":           {verdict.Step{Class: verdict.Dropped}, verdict.Breached},
		"no name to try":    {verdict.Step{Class: verdict.Unknown}, verdict.Inconclusive},
		"a site without it": {verdict.Step{Class: verdict.ToolMissing}, verdict.Inconclusive},
	} {
		c.step.Expect = verdict.MustWork
		r := verdict.Decide(verdict.Evidence{
			Core: verdict.MustWork, Attempts: []verdict.Attempt{{Complete: true, Steps: []verdict.Step{c.step}}},
			Controls: []verdict.Attempt{{Complete: true, Steps: []verdict.Step{{OK: true}}}},
		})
		assert.Equal(t, c.want, r.Verdict(), name)
	}
}

func TestWhatIsDroppedAtFirstIsTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		classes []verdict.Class // of each try; empty is success
		tries   int
		ok      bool
	}{
		"at once":          {[]verdict.Class{""}, 1, true},
		"the second time":  {[]verdict.Class{verdict.Dropped, ""}, 2, true},
		"never":            {[]verdict.Class{verdict.Dropped, verdict.Dropped, verdict.Dropped, ""}, 3, false},
		"refused, for one": {[]verdict.Class{verdict.HTTP403, ""}, 1, false},
	} {
		n := 0
		step := again(func() verdict.Step {
			n++
			return verdict.Step{OK: c.classes[n-1] == "", Class: c.classes[n-1]}
		})
		assert.Equal(t, c.tries, n, name)
		assert.Equal(t, c.ok, step.OK, name)
	}
}

func TestOnlyTheSharedFrontEndIsDisclosed(t *testing.T) {
	addr, asked := frontEnd(t, http.StatusOK)
	elsewhere, _ := frontEnd(t, http.StatusOK)
	env := &probe.Env{Nonce: nonce, Site: probe.Site{
		ClusterDNS: resolver(t, "127.0.0.1"), AllowedHost: "a.test.", SharingHost: "s.test.", FrontEnd: addr, ForeignBucket: "foreign",
		Unlisted: []probe.Host{{Name: "b.test.", Address: elsewhere}},
	}}
	steps := sharedFrontEnd().Attack(t.Context(), env)
	require.Greater(t, len(steps), 2)
	for _, step := range steps[:2] {
		assert.True(t, step.OK, "%s: %s", step.Name, step.Detail)
		assert.Equal(t, verdict.Disclosed, step.Expect, step.Name)
	}
	assert.ElementsMatch(t, []string{"GET s.test/" + nonce, "PUT a.test/foreign/" + nonce}, asked())
	for _, step := range steps[2:] {
		assert.Empty(t, step.Expect, step.Name)
	}
	last := steps[len(steps)-1]
	assert.True(t, last.OK, "a host of another address was reached")
	assert.Equal(t, verdict.Breached, verdict.Decide(verdict.Evidence{
		Core: verdict.Disclosed, Attempts: []verdict.Attempt{{Complete: true, Steps: steps}}}).Verdict(), "more than disclosed is a breach")
}

func TestAPerimeterRefusesOrIsNone(t *testing.T) {
	for status, want := range map[int]verdict.Class{200: "", 204: "", 403: verdict.HTTP403, 500: verdict.Unknown, 302: verdict.Unknown} {
		addr, asked := frontEnd(t, status)
		step := errand{"x", http.MethodPut, "bucket.test.", "/o"}.run(t.Context(), addr, nonce)
		assert.Equal(t, want == "", step.OK, "%d", status)
		assert.Equal(t, want, step.Class, "%d", status)
		assert.Equal(t, []string{"PUT bucket.test/o"}, asked())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	step := errand{"x", http.MethodPut, "bucket.test.", "/o"}.run(t.Context(), l.Addr().String(), nonce)
	assert.NotContains(t, perimeter().Accept, step.Class, "a front end that is not there guards nothing")
}

func TestEveryErrandLeavesThePerimeter(t *testing.T) {
	env := &probe.Env{Nonce: nonce, Site: cluster}
	all := leaving(env)
	assert.Len(t, all, 4)
	for _, e := range all {
		assert.True(t, strings.Contains(e.host+e.path, "foreign") || e.host == cluster.SharingHost, e.name)
		assert.NotContains(t, e.host+e.path, cluster.OwnBucket+"/", e.name)
		assert.Contains(t, e.path, nonce, e.name)
	}
	for _, s := range []probe.Site{{}, {RestrictedHost: "x.test."}} {
		steps := throughRestricted(t.Context(), &probe.Env{Site: s}, all)
		require.Len(t, steps, 1)
		assert.False(t, steps[0].Class.IsEvidence())
	}
}

func TestOnlyThePublicHalfIsDisclosed(t *testing.T) {
	addr, _ := frontEnd(t, http.StatusOK)
	steps := publicData().Attack(t.Context(), &probe.Env{Nonce: nonce, Site: probe.Site{
		PublicTCP: addr, PublicTLS: addr, APIServer: addr, Metadata: addr, RFC1918: []string{addr}, Tunnel: "tunnel.test.",
	}})
	admitted := 0
	for _, s := range steps {
		if s.Expect == verdict.Disclosed {
			admitted++
			continue
		}
		assert.True(t, s.OK, s.Name)
	}
	assert.Equal(t, 4, admitted)
	assert.Equal(t, verdict.Breached, verdict.Decide(verdict.Evidence{
		Core: verdict.Disclosed, Attempts: []verdict.Attempt{{Complete: true, Steps: steps}}}).Verdict(), "more than disclosed is a breach")
}

func TestOnlyTheClustersOwnResolverIsDisclosed(t *testing.T) {
	dns := resolver(t, "127.0.0.1")
	steps := askBoth(t.Context(), &probe.Env{Nonce: nonce, Site: probe.Site{ClusterDNS: dns, Tunnel: "tunnel.test."}}, dns)
	require.Len(t, steps, 4)
	for i, want := range []verdict.Expect{verdict.Disclosed, verdict.Disclosed, "", ""} {
		assert.Equal(t, want, steps[i].Expect, steps[i].Name)
		assert.Equal(t, strings.HasSuffix(steps[i].Name, "UDP"), steps[i].OK, "%s: %s", steps[i].Name, steps[i].Detail)
	}
	assert.Equal(t, verdict.Breached, verdict.Decide(verdict.Evidence{
		Core: verdict.Disclosed, Attempts: []verdict.Attempt{{Complete: true, Steps: steps}}}).Verdict(), "more than disclosed is a breach")
}

func TestTheAnswerIsRightInTwoWays(t *testing.T) {
	for _, n := range []string{nonce, "ffffffffffffffffffffffffffffffff", "0"} {
		steps := countAgain(t.Context(), &probe.Env{Nonce: n})
		assert.True(t, steps[0].OK, steps[0].Detail)
	}
	assert.Equal(t, "a 2\nb 1\n", letters("aba"))
}

func TestOnlyTheRightAnswerOfARunnerIsHonestWork(t *testing.T) {
	right := strings.ReplaceAll(letters(nonce), "\n", `\n`)
	for name, c := range map[string]struct {
		status int
		answer string
		want   verdict.Verdict
	}{
		"right":               {200, `{"build":{"ok":true},"stdout":"` + right + `"}`, verdict.Held},
		"wrong":               {200, `{"build":{"ok":true},"stdout":"a 1\n"}`, verdict.Breached},
		"nothing":             {200, `{"build":{"ok":true}}`, verdict.Breached},
		"and a warning":       {200, `{"build":{"ok":true},"stdout":"` + right + `","stderr":"oops"}`, verdict.Breached},
		"not built":           {200, `{"build":{"output":"no space left"}}`, verdict.Breached},
		"stopped at once":     {200, `{"build":{"durationMillis":3},"violations":["build-time-limit"]}`, verdict.Breached},
		"stopped after long":  {200, `{"build":{"durationMillis":90000},"violations":["build-time-limit"]}`, verdict.Inconclusive},
		"ended badly":         {200, `{"build":{"ok":true},"exitCode":1,"stderr":"read-only file system"}`, verdict.Breached},
		"busy":                {409, `{"error":"another one runs"}`, verdict.Inconclusive},
		"of no more use":      {410, `{"error":"could not be cleaned"}`, verdict.Breached},
		"unable":              {500, `{"error":"read-only file system"}`, verdict.Breached},
		"somebody else":       {200, `<html>`, verdict.Breached},
		"a program that runs": {200, `{"build":{"ok":true,"durationMillis":20000},"durationMillis":20000,"violations":["time-limit"]}`, verdict.Inconclusive},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.answer))
			}))
			defer server.Close()
			step := askRunner(t.Context(), server.Listener.Addr().String(), nonce)
			r := honest(t, step)
			assert.Equal(t, c.want, r.Verdict(), "%s: %s", r.Reason(), r.Detail())
		})
	}
}

// honest decides on one step of the canary.
func honest(t *testing.T, steps ...verdict.Step) verdict.Result {
	t.Helper()
	return verdict.Decide(verdict.Evidence{
		Core:     verdict.MustWork,
		Attempts: []verdict.Attempt{{Nonce: nonce, Complete: true, Steps: judgeProgram(nonce, steps)}},
		Controls: []verdict.Attempt{{Complete: true, Steps: countAgain(t.Context(), &probe.Env{Nonce: nonce})}},
	})
}

func TestTheSuiteAndNotTheSandboxSaysWhatIsRight(t *testing.T) {
	assert.Equal(t, verdict.Breached, honest(t, verdict.Step{Name: runStep, OK: true, Detail: "right, believe me"}).Verdict())
	assert.Equal(t, verdict.Breached, honest(t, verdict.Step{Name: runStep, OK: true, Detail: letters("another nonce")}).Verdict())
	assert.Equal(t, verdict.Inconclusive, honest(t).Verdict(), "no step")
	assert.Equal(t, verdict.Breached, honest(t, verdict.Step{Name: "x", Expect: verdict.MustFail, Class: verdict.Absent}).Verdict(), "no work")
}

func TestARunnerThatIsNotThereBreaksTheClaim(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	assert.Equal(t, verdict.Breached, honest(t, askRunner(t.Context(), l.Addr().String(), nonce)).Verdict())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Equal(t, verdict.Inconclusive, honest(t, askRunner(ctx, l.Addr().String(), nonce)).Verdict(), "slow is not broken")
}

// The program is built and run by the real runner, so that both speak the same.
func TestTheRealRunnerDoesTheHonestWork(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		build time.Duration
		want  verdict.Verdict
	}{
		"a runner as it is":     {time.Minute, verdict.Held},
		"builds without a time": {time.Millisecond, verdict.Breached}, // the canary's own mutant
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r, err := runner.New(runner.Options{
				App: filepath.Join(dir, "app"), Scratch: filepath.Join(dir, "tmp"), BuildCache: strings.TrimSpace(string(out)),
				Timeouts: runner.Timeouts{Build: c.build},
			})
			require.NoError(t, err)
			server := httptest.NewServer(r)
			defer server.Close()
			host, port, err := net.SplitHostPort(server.Listener.Addr().String())
			require.NoError(t, err)
			got := honest(t, askRunner(t.Context(), net.JoinHostPort(host, port), nonce))
			assert.Equal(t, c.want, got.Verdict(), got.Detail())
			env := &probe.Env{Part: probe.Control, Site: probe.Site{Own: host}}
			assert.True(t, askHealth(t.Context(), env, port).OK, "it is the runner that the control hears")
		})
	}
}
