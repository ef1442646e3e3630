// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
	"github.com/stockade-dev/stockade/scenarios/reading"
	"github.com/stockade-dev/stockade/scenarios/reading/fake"
)

const image = "stockade.local/playground@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// compliant is a Pod as the runner hands it out.
func compliant() suite.Object {
	return object{
		"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": "x"},
		"spec": object{
			"runtimeClassName": "gvisor-no-network", "automountServiceAccountToken": false,
			"securityContext": object{"runAsNonRoot": true, "runAsUser": int64(1000), "seccompProfile": object{"type": "RuntimeDefault"}},
			"containers": []any{object{
				"name": "run", "image": image,
				"securityContext": object{"allowPrivilegeEscalation": false, "capabilities": object{"drop": []any{"ALL"}}},
			}},
			"volumes": []any{object{"name": "tmp", "emptyDir": object{"medium": "Memory"}}},
		},
	}
}

// server answers everything alike and remembers what it was asked.
type server struct {
	answer  suite.Answer
	err     error
	created []suite.Object
	asked   []suite.Request
	as      []suite.Identity
	deleted []string
	// quota is how many creates are taken before one is refused; 0 is no quota.
	quota int
}

func (s *server) Create(_ context.Context, o suite.Object, _ bool) (suite.Answer, error) {
	s.created = append(s.created, o)
	if s.quota > 0 && len(s.created) > s.quota {
		return suite.Answer{Code: 403, Message: `pods "x" is forbidden: exceeded quota: runs, requested: pods=1, used: pods=12, limited: pods=12`}, nil
	}
	return s.answer, s.err
}

func (s *server) Update(context.Context, suite.Object) (suite.Answer, error) { return s.answer, s.err }

func (s *server) Get(context.Context, string, string, string) (suite.Answer, error) {
	return suite.Answer{Code: 200, Object: object{"spec": object{"securityContext": object{"runAsUser": int64(20007)}}}}, nil
}

func (s *server) Delete(_ context.Context, _, _, name string) (suite.Answer, error) {
	s.deleted = append(s.deleted, name)
	return suite.Answer{Code: 200}, nil
}

func env(s *server) *suite.APIEnv {
	return &suite.APIEnv{
		Nonce: "0123456789abcdef0123456789abcdef", API: s, Pod: compliant, Namespace: "playground", Live: "live-1",
		Components: []string{"playground-system"}, Account: "playground-system/execution", Controls: "stockade-system",
		Do: func(_ context.Context, as suite.Identity, r suite.Request) (suite.Answer, error) {
			s.asked, s.as = append(s.asked, r), append(s.as, as)
			return s.answer, s.err
		},
	}
}

func TestEveryScenarioIsDeclaredWell(t *testing.T) {
	var r suite.Registry
	r.MustAdd(Scenarios()...)
	assert.Len(t, r.All(), len(rules)+21)
	claimed := map[string]bool{}
	for _, s := range r.All() {
		for _, c := range s.Claims {
			claimed[c] = true
		}
	}
	for _, c := range suite.Claims {
		// The limit on the node's side is attacked by resources.process-bomb.
		if strings.HasPrefix(c.ID, "PG-") && c.ID != "PG-07" {
			assert.True(t, claimed[c.ID], "nothing speaks for %s", c.ID)
		}
	}
}

func TestEveryCaseChangesThePod(t *testing.T) {
	for _, r := range rules {
		assert.NotEmpty(t, len(r.cases)+len(r.live), r.id)
		for _, v := range r.cases {
			pod := compliant()
			v.change(manifest.Child(pod, "spec"))
			assert.NotEqual(t, compliant(), pod, "%s/%s: a case that changes nothing asks for nothing", r.id, v.name)
		}
		for _, p := range r.live {
			assert.NotEmpty(t, p.spec(manifest.Child(compliant(), "spec")), "%s/%s", r.id, p.name)
		}
	}
}

func TestOnlyTheRulesOwnWordsAreADenial(t *testing.T) {
	byID := map[string]rule{}
	for _, r := range rules {
		byID[r.id] = r
	}
	for name, c := range map[string]struct {
		rule, message string
		code          int
		want          verdict.Class
		ok            bool
		by            string
	}{
		"the policy's message":       {"reject-privileged", "denied request: playground: privileged containers are not allowed", 422, verdict.AdmissionDenied, false, "refused by the admission policy: "},
		"Pod Security, the same":     {"reject-privileged", `violates PodSecurity "restricted:latest": privileged (container "run" must not set securityContext.privileged=true)`, 403, verdict.AdmissionDenied, false, "refused by Pod Security: "},
		"Pod Security, another":      {"reject-host-port", `violates PodSecurity "restricted:latest": privileged (container "run" ...)`, 403, verdict.Unknown, false, "refused, but not by this rule: "},
		"another rule of the policy": {"reject-privileged", "playground: init containers are not allowed", 422, verdict.Unknown, false, "refused, but not by this rule: "},
		"the API server's own":       {"reject-privileged", "spec.containers[0].securityContext: Invalid value: cannot set allowPrivilegeEscalation to false and privileged to true", 422, verdict.Unknown, false, "refused, but not by this rule: "},
		"a quota":                    {"require-digest", "exceeded quota: runs", 403, verdict.Unknown, false, "refused, but not by this rule: "},
		"taken":                      {"require-digest", "", 201, "", true, ""},
		"Pod Security of its own":    {"require-pod-security", `violates PodSecurity "restricted:latest": seccompProfile`, 403, verdict.AdmissionDenied, false, "refused by Pod Security: "},
		"no Pod Security for it":     {"require-no-token", `violates PodSecurity "restricted:latest"`, 403, verdict.Unknown, false, "refused, but not by this rule: "},
	} {
		t.Run(name, func(t *testing.T) {
			steps := byID[c.rule].ask(t.Context(), env(&server{answer: suite.Answer{Code: c.code, Message: c.message}}))
			require.NotEmpty(t, steps)
			for _, s := range steps {
				assert.Equal(t, c.ok, s.OK, s.Detail)
				assert.Equal(t, c.want, s.Class, s.Detail)
				assert.True(t, strings.HasPrefix(s.Detail, c.by), s.Detail)
			}
		})
	}
}

func TestALivePodIsChangedAsADryRunByTheAdministrator(t *testing.T) {
	s := &server{answer: suite.Answer{Code: 200}}
	i := slices.IndexFunc(rules, func(r rule) bool { return r.id == "reject-ephemeral-container" })
	require.GreaterOrEqual(t, i, 0)
	r := rules[i]
	steps := r.ask(t.Context(), env(s))
	require.Len(t, steps, 1)
	assert.True(t, steps[0].OK)
	assert.Equal(t, "/api/v1/namespaces/playground/pods/live-1/ephemeralcontainers", s.asked[0].Path)
	assert.Equal(t, suite.Administrator, s.as[0])
	steps = r.control(t.Context(), env(s))
	require.Len(t, steps, 2, "a compliant Pod, and a harmless change")
	bare := env(s)
	bare.Do = nil
	assert.Equal(t, verdict.ToolMissing, r.ask(t.Context(), bare)[0].Class)
}

func TestAnImageIsTakenApart(t *testing.T) {
	for in, want := range map[string]string{
		image: "stockade.local/playground", "stockade.local/playground:dev": "stockade.local/playground",
		"host:5000/a": "host:5000/a", "host:5000/a:1@sha256:x": "host:5000/a", "": "",
	} {
		assert.Equal(t, want, repository(object{"image": in}), in)
	}
}

func TestInterfacesBesidesTheLoopbackAreANetwork(t *testing.T) {
	lo, eth := net.Interface{Name: "lo", Flags: net.FlagLoopback}, net.Interface{Name: "eth0"}
	assert.Equal(t, verdict.Absent, judgeInterfaces([]net.Interface{lo}, nil).Class)
	got := judgeInterfaces([]net.Interface{lo, eth}, nil)
	assert.True(t, got.OK)
	assert.Contains(t, got.Detail, "eth0")
	assert.Equal(t, verdict.Unknown, judgeInterfaces(nil, nil).Class, "nothing at all is no proof")
	assert.Equal(t, verdict.Permission, judgeInterfaces(nil, syscall.EPERM).Class)
}

func TestTheServiceIsAskedAsItself(t *testing.T) {
	s := &server{answer: suite.Answer{Code: 201}}
	steps := forbiddenPods().Ask(t.Context(), env(s))
	assert.Len(t, steps, len(rules)-1, "each but the one that no new Pod breaks")
	for i, step := range steps {
		assert.True(t, step.OK, step.Name)
		assert.Equal(t, suite.Service, s.as[i])
		assert.Equal(t, core("playground", "pods"), s.asked[i].Path)
		assert.NotEqual(t, compliant()["spec"], s.asked[i].Body["spec"], step.Name)
	}
	for name, c := range map[string]struct {
		answer suite.Answer
		want   verdict.Class
	}{
		"no right":       {suite.Answer{Code: 403, Message: `pods is forbidden: User "x" cannot create resource "pods"`}, verdict.Unknown},
		"a lost request": {suite.Answer{}, verdict.TransportError},
	} {
		for _, step := range forbiddenPods().Ask(t.Context(), env(&server{answer: c.answer})) {
			assert.Equal(t, c.want, step.Class, "%s: %s", name, step.Name)
		}
	}
	e := env(s)
	assert.True(t, forbiddenPods().AskControl(t.Context(), e)[0].OK)
	e.Account = ""
	assert.Equal(t, verdict.ToolMissing, forbiddenPods().Ask(t.Context(), e)[0].Class)
}

func TestPodsAreAskedForBesideTheService(t *testing.T) {
	for name, c := range map[string]struct {
		answer suite.Answer
		ok     bool
		want   verdict.Class
	}{
		"taken": {suite.Answer{Code: 201}, true, ""},
		"restricted": {suite.Answer{Code: 403, Message: `violates PodSecurity "restricted:latest": privileged (container "run"), host namespaces (hostNetwork=true), ` +
			`hostPath volumes (volume "attack")`}, false, verdict.AdmissionDenied},
		"baseline": {suite.Answer{Code: 403, Message: `violates PodSecurity "baseline:latest": privileged (container "run"), host namespaces (hostNetwork=true), ` +
			`hostPath volumes (volume "attack")`}, false, verdict.AdmissionDenied},
		"refused for another thing": {suite.Answer{Code: 403, Message: `violates PodSecurity "restricted:latest": seccompProfile`}, false, verdict.Unknown},
		"by another":                {suite.Answer{Code: 403, Message: "exceeded quota"}, false, verdict.Unknown},
		"a lost request":            {suite.Answer{}, false, verdict.TransportError},
	} {
		s := &server{answer: c.answer}
		steps := forbiddenComponents().Ask(t.Context(), env(s))
		require.Len(t, steps, len(keepTheNodeOut), name)
		for i, step := range steps {
			assert.Equal(t, c.ok, step.OK, "%s: %s", name, step.Name)
			assert.Equal(t, c.want, step.Class, "%s: %s", name, step.Name)
			assert.Equal(t, suite.Administrator, s.as[i], "the service has no right there")
			assert.Equal(t, core("playground-system", "pods"), s.asked[i].Path)
			assert.Equal(t, "playground-system", manifest.At(s.asked[i].Body, "metadata", "namespace"), "the API server wants both to be the same")
			// A way to the node, for who looks at the Pods that are there.
			assert.NotEmpty(t, waysToTheNode(manifest.Map(s.asked[i].Body, "spec")), step.Name)
		}
	}
	e := env(&server{answer: suite.Answer{Code: 201}})
	assert.True(t, forbiddenComponents().AskControl(t.Context(), e)[0].OK)
	e.Components = nil
	for _, act := range []suite.APIAction{forbiddenComponents().Ask, forbiddenComponents().AskControl} {
		assert.Equal(t, verdict.ToolMissing, act(t.Context(), e)[0].Class)
	}
}

func TestACrowdEndsAtTheQuotaAndIsRemoved(t *testing.T) {
	s := &server{answer: suite.Answer{Code: 201}, quota: 5}
	step := crowd(t.Context(), env(s), scopes[0], manyPods)
	assert.False(t, step.OK)
	assert.Equal(t, verdict.ResourceLimit, step.Class, step.Detail)
	assert.Len(t, s.deleted, 5)
	spec := manifest.Child(s.created[0], "spec")
	assert.Equal(t, "true", manifest.Child(spec, "nodeSelector")["stockade.dev/nowhere"], "it must cost nothing")

	s = &server{answer: suite.Answer{Code: 201}}
	assert.True(t, crowd(t.Context(), env(s), scopes[0], manyPods).OK, "without a quota all are taken")
	assert.Len(t, s.deleted, manyPods)
	for name, c := range map[string]struct {
		answer suite.Answer
		err    error
		want   verdict.Class
	}{
		"another refusal": {suite.Answer{Code: 403, Message: "violates PodSecurity"}, nil, verdict.Unknown},
		"no quota for it": {suite.Answer{Code: 500, Message: "insufficient quota to match these scopes: [{PriorityClass In [system-cluster-critical]}]"},
			nil, verdict.ResourceLimit},
		"another failure":   {suite.Answer{Code: 500, Message: "insufficient room"}, nil, verdict.Unknown},
		"a lost connection": {suite.Answer{}, errors.New("reset"), verdict.TransportError},
	} {
		step := crowd(t.Context(), env(&server{answer: c.answer, err: c.err}), scopes[0], 1)
		assert.Equal(t, c.want, step.Class, name)
	}
}

// scoped has a quota for some kinds of Pods alone.
type scoped struct {
	*server
	counts func(spec object) bool
	n      int
}

func (s *scoped) Create(_ context.Context, o suite.Object, _ bool) (suite.Answer, error) {
	s.created = append(s.created, o)
	if !s.counts(manifest.Child(o, "spec")) {
		return suite.Answer{Code: 201}, nil
	}
	if s.n++; s.n > 5 {
		return suite.Answer{Code: 403, Message: `pods "x" is forbidden: exceeded quota: runs, requested: pods=1, used: pods=5, limited: pods=5`}, nil
	}
	return suite.Answer{Code: 201}, nil
}

func TestAQuotaForSomeKindsOfPodsAloneIsNone(t *testing.T) {
	idle := func(spec object) bool { return firstContainer(spec)["resources"] == nil }
	for name, c := range map[string]struct {
		counts func(spec object) bool
		want   []bool // whether a crowd was not stopped
	}{
		"all Pods":                       {func(object) bool { return true }, []bool{false, false, false, false}},
		"those that end by themselves":   {func(spec object) bool { return spec["activeDeadlineSeconds"] != nil }, []bool{true}},
		"those that do not":              {func(spec object) bool { return spec["activeDeadlineSeconds"] == nil }, []bool{false, true}},
		"those that ask for something":   {func(spec object) bool { return !idle(spec) }, []bool{false, false, true}},
		"those that ask for no resource": {idle, []bool{true}},
		"those of no priority class":     {func(spec object) bool { return spec["priorityClassName"] == nil }, []bool{false, false, false, true}},
		"those of a priority class":      {func(spec object) bool { return spec["priorityClassName"] != nil }, []bool{true}},
	} {
		s := &scoped{server: &server{}, counts: c.counts}
		e := env(s.server)
		e.API = s
		e.Pod = func() suite.Object {
			p := compliant()
			firstContainer(manifest.Child(p, "spec"))["resources"] = object{"requests": object{"cpu": "50m"}}
			return p
		}
		var got []bool
		names := map[string]bool{}
		for _, step := range crowds(t.Context(), e) {
			got = append(got, step.OK)
			assert.True(t, step.OK || step.Class == verdict.ResourceLimit, "%s: %s", name, step.Detail)
		}
		assert.Equal(t, c.want, got, name)
		for _, o := range s.created {
			names[fmt.Sprint(manifest.Child(o, "metadata")["name"])] = true
		}
		assert.Len(t, names, len(s.created), "%s: one of a kind may still be there when the next begins", name)
	}
}

func TestAFolderIsFullOrItIsNot(t *testing.T) {
	for name, c := range map[string]struct {
		n    int64
		err  error
		ok   bool
		want verdict.Class
	}{
		"full":             {room, syscall.ENOSPC, false, verdict.NoSpace},
		"a little more":    {room + room/20, syscall.ENOSPC, false, verdict.NoSpace},
		"far more":         {2 * room, nil, true, ""},
		"more, and then":   {room + room/2, syscall.ENOSPC, true, ""},
		"a file too large": {room / 2, syscall.EFBIG, false, verdict.Unknown},
		"read only":        {0, syscall.EROFS, false, verdict.ReadOnly},
		"nothing happened": {0, nil, false, verdict.Unknown},
	} {
		step := judgeFill("/workspace", c.n, c.err)
		assert.Equal(t, c.ok, step.OK, name)
		assert.Equal(t, c.want, step.Class, name)
	}
}

func TestAFolderForbidsAProgramAndAFullRunDoesNot(t *testing.T) {
	for err, want := range map[error]verdict.Class{
		syscall.EROFS: verdict.ReadOnly, syscall.EACCES: verdict.Permission, syscall.EAGAIN: verdict.Unknown, syscall.EMFILE: verdict.Unknown,
	} {
		assert.Equal(t, want, notStarted("start", err).Class, "%v", err)
	}
}

func TestLimitsAreJudged(t *testing.T) {
	assert.True(t, judgeLimit("x", limit{name: "files", hard: infinite, soft: 5}).OK)
	assert.Equal(t, verdict.Confined, judgeLimit("x", limit{name: "files", soft: 256, hard: 256}).Class)
	for _, name := range printed {
		require.Contains(t, most, name)
		assert.Equal(t, verdict.Confined, judgeLimit("x", limit{name: name, soft: 0, hard: most[name]}).Class, name)
		assert.True(t, judgeLimit("x", limit{name: name, soft: 0, hard: most[name] + 1}).OK, "%s: a number that is never met is no limit", name)
	}
	assert.Equal(t, verdict.Unknown, judgeLimit("x", limit{name: "files", soft: 3, hard: 2}).Class)
	assert.Equal(t, verdict.Permission, judgeLimit("x", limit{name: "files", err: syscall.EPERM}).Class)
	assert.True(t, judgeRaise("x", "files", nil).OK)
	assert.Equal(t, verdict.Permission, judgeRaise("x", "files", syscall.EPERM).Class)
	assert.Equal(t, verdict.ResourceLimit, judgeOpen(250, 256, syscall.EMFILE).Class)
	assert.True(t, judgeOpen(300, 256, syscall.EMFILE).OK)
	assert.True(t, judgeOpen(257, 256, nil).OK)
	assert.Equal(t, verdict.Unknown, judgeOpen(100, 256, nil).Class)
}

// service is an execution service that answers a program by what it says; where
// there is no answer the connection is lost.
func service(answers ...suite.Execution) func(context.Context, suite.Program) (suite.Execution, error) {
	var mu sync.Mutex
	n := 0
	return func(context.Context, suite.Program) (suite.Execution, error) {
		mu.Lock()
		defer mu.Unlock()
		if n >= len(answers) {
			return suite.Execution{}, errors.New("lost")
		}
		n++
		return answers[n-1], nil
	}
}

// Whatever a run says of itself, nobody outside of it has seen.
func TestWhatRunsSayOfThemselvesIsMarked(t *testing.T) {
	for _, s := range []suite.Scenario{runLimits(), ownUID(), raiseLimits()} {
		assert.True(t, s.ProbeOnly(), s.ID)
	}
	service := memoryError()
	assert.False(t, service.ProbeOnly(), "it is the service's word")
}

func TestUserIDsAreCompared(t *testing.T) {
	printed := func(uid string, began, ended int) suite.Execution {
		return suite.Execution{Status: "ok", Stdout: fmt.Sprintf("%s %d.5 %d.25\n", uid, began, ended)}
	}
	for name, c := range map[string]struct {
		answers []suite.Execution
		steps   int
		ok      bool
		class   verdict.Class // of the first step
	}{
		"each its own":              {[]suite.Execution{printed("20001", 1, 9), printed("20002", 2, 8), printed("20003", 20, 21)}, 5, false, verdict.Absent},
		"both the same":             {[]suite.Execution{printed("1000", 1, 9), printed("1000", 2, 8), printed("20003", 20, 21)}, 5, true, ""},
		"the same again":            {[]suite.Execution{printed("20001", 1, 9), printed("20002", 2, 8), printed("20002", 20, 21)}, 5, true, verdict.Absent},
		"one after the other":       {[]suite.Execution{printed("20001", 1, 9), printed("20002", 10, 18), printed("20003", 20, 21)}, 5, false, verdict.Unknown},
		"that of a live sandbox":    {[]suite.Execution{printed("20001", 1, 9), printed("20002", 2, 8), printed("20007", 20, 21)}, 5, true, verdict.Absent},
		"a program that says odd":   {[]suite.Execution{printed("root", 1, 9), printed("20002", 2, 8)}, 1, false, verdict.Unknown},
		"a program that failed":     {[]suite.Execution{{Status: "error", Stderr: "no"}, printed("20002", 2, 8)}, 1, false, verdict.Unknown},
		"a service that is silent":  {nil, 1, false, verdict.TransportError},
		"a second run that is lost": {[]suite.Execution{printed("20001", 1, 9)}, 1, false, verdict.TransportError},
		"a third run that is lost":  {[]suite.Execution{printed("20001", 1, 9), printed("20002", 2, 8)}, 1, false, verdict.TransportError},
	} {
		t.Run(name, func(t *testing.T) {
			e := env(&server{})
			e.Execute = service(c.answers...)
			steps := compareUIDs(t.Context(), e)
			require.Len(t, steps, c.steps)
			some := false
			for _, s := range steps {
				some = some || s.OK
			}
			assert.Equal(t, c.ok, some)
			assert.Equal(t, c.class, steps[0].Class, steps[0].Detail)
		})
	}
	assert.Equal(t, verdict.ToolMissing, compareUIDs(t.Context(), env(&server{}))[0].Class, "a target without a service")
}

func TestTwoProgramsAreGivenToTheServiceAtTheSameTime(t *testing.T) {
	e, both := env(&server{}), make(chan struct{})
	var asked atomic.Int32
	e.Execute = func(ctx context.Context, _ suite.Program) (suite.Execution, error) {
		if asked.Add(1) == 2 {
			close(both)
		}
		select {
		case <-both:
		case <-ctx.Done():
		}
		return suite.Execution{}, errors.New("lost")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	compareUIDs(ctx, e)
	assert.NoError(t, ctx.Err(), "the second is asked for while the first runs")
}

func TestTheLimitsThatAProgramOfTheServicesSawAreJudged(t *testing.T) {
	const held = "processes\t256\t256\tnot allowed to raise maximum limit\nopen files\t256\t256\tnot allowed to raise maximum limit\n" +
		"the size of a file\t5\t5\tnot allowed to raise maximum limit\ncore files\t0\t0\tnot allowed to raise maximum limit\n" +
		"address space\t268435456\t268435456\tnot allowed to raise maximum limit\n"
	for name, c := range map[string]struct {
		x       suite.Execution
		steps   int
		ok      bool
		unknown bool
	}{
		"as it should be": {suite.Execution{Status: "ok", Stdout: held}, 10, false, false},
		"no limit":        {suite.Execution{Status: "ok", Stdout: strings.Replace(held, "processes\t256\t256\tnot allowed to raise maximum limit", "processes\t-1\t-1\tnot asked", 1)}, 9, true, false},
		"one is raised":   {suite.Execution{Status: "ok", Stdout: strings.Replace(held, "not allowed to raise maximum limit", "granted", 1)}, 10, true, false},
		"another error":   {suite.Execution{Status: "ok", Stdout: strings.Replace(held, "not allowed to raise maximum limit", "current limit exceeds maximum limit", 1)}, 10, false, true},
		"a line less":     {suite.Execution{Status: "ok", Stdout: held[strings.Index(held, "\n")+1:]}, 1, false, true},
		"other lines":     {suite.Execution{Status: "ok", Stdout: "a\nb\nc\nd\ne\n"}, 1, false, true},
		"it failed":       {suite.Execution{Status: "error", Stdout: held}, 1, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			steps := judgePrinted("x", c.x)
			require.Len(t, steps, c.steps)
			ok, unknown := false, false
			for _, s := range steps {
				ok = ok || s.OK
				unknown = unknown || s.Class == verdict.Unknown
			}
			assert.Equal(t, c.ok, ok)
			assert.Equal(t, c.unknown, unknown)
		})
	}
	assert.Equal(t, verdict.ToolMissing, runLimits().Ask(t.Context(), env(&server{}))[0].Class)
	e := env(&server{})
	e.Execute = service(suite.Execution{Status: "ok", Stdout: held}, suite.Execution{Status: "ok", Stdout: "45\n"})
	assert.Len(t, runLimits().Ask(t.Context(), e), 10)
	assert.True(t, runLimits().AskControl(t.Context(), e)[0].OK)
}

func TestAMemoryErrorMustBeReportedAsOne(t *testing.T) {
	for name, c := range map[string]struct {
		x    suite.Execution
		want string
		ok   bool
		cls  verdict.Class
	}{
		"as it should be":           {suite.Execution{Status: "memory-limit", ExitCode: 1}, "memory-limit", true, ""},
		"as an ordinary error":      {suite.Execution{Status: "error", ExitCode: 1}, "memory-limit", false, verdict.Absent},
		"it survived":               {suite.Execution{Status: "ok"}, "memory-limit", false, verdict.Absent},
		"an error taken for memory": {suite.Execution{Status: "memory-limit"}, "error", false, verdict.Absent},
		"too slow to tell":          {suite.Execution{Status: "time-limit"}, "memory-limit", false, verdict.Unknown},
	} {
		step := judgeReport("x", c.want, c.x)
		assert.Equal(t, c.ok, step.OK, name)
		assert.Equal(t, c.cls, step.Class, name)
		assert.Equal(t, verdict.MustWork, step.Expect, name)
	}
}

// cluster answers reads and reviews by path; everything else is not authorized.
type cluster map[string]suite.Answer

func (c cluster) do(_ context.Context, _ suite.Identity, r suite.Request) (suite.Answer, error) {
	if a, ok := c[r.Path]; ok && (r.Verb == http.MethodGet || strings.HasSuffix(r.Path, "reviews")) {
		return a, nil
	}
	return suite.Answer{Code: 403, Message: `x is forbidden: User "system:serviceaccount:a:b" cannot do resource "x" in API group ""`}, nil
}

func listOf(all ...object) suite.Answer {
	items := []any{}
	for _, o := range all {
		items = append(items, o)
	}
	return suite.Answer{Code: 200, Object: object{"items": items}}
}

func pod(name string, spec object) object {
	return object{"metadata": object{"name": name}, "spec": spec,
		"status": object{"phase": "Running", "conditions": []any{object{"type": "Ready", "status": "True"}}}}
}

func TestAProgramOfAnotherAccountIsFound(t *testing.T) {
	as := func(account string) object { return pod("p", object{"serviceAccountName": account}) }
	waiting, done := as("execution"), as("ops")
	waiting["status"], done["status"] = object{"phase": "Pending"}, object{"phase": "Failed"}
	for name, c := range map[string]struct {
		pods []object
		ok   bool
		want verdict.Class
	}{
		"its own":               {[]object{as("execution")}, false, verdict.Absent},
		"another's":             {[]object{as("execution"), as("ops")}, true, ""},
		"one that is not ready": {[]object{waiting}, false, verdict.Unknown},
		"none":                  {nil, false, verdict.Unknown},
		"one that has ended":    {[]object{as("execution"), done}, false, verdict.Absent},
	} {
		step := judgeAccounts("x", "playground-system", "playground-system/execution", c.pods)
		assert.Equal(t, c.ok, step.OK, name)
		assert.Equal(t, c.want, step.Class, name)
	}
}

func space(name string, labels object) object {
	return object{"metadata": object{"name": name, "labels": labels}}
}

func TestTheServiceAsksAsItself(t *testing.T) {
	own := fake.Right("", "pods", "create delete get list watch")
	c := cluster{
		core("playground-system", "pods"):                       listOf(pod("execution", object{"serviceAccountName": "execution"})),
		"/apis/authorization.k8s.io/v1/selfsubjectrulesreviews": fake.Review(),
		"/api/v1/namespaces": listOf(space("default", nil), space("kube-system", nil), space("playground", nil), space("playground-system", nil),
			space("elsewhere", nil), space("mutant-x", object{"stockade.dev/mutant": "true"})),
	}
	var asked []suite.Request
	e := env(&server{})
	e.Do = func(ctx context.Context, as suite.Identity, r suite.Request) (suite.Answer, error) {
		asked = append(asked, r)
		want := suite.Service
		if r.Verb == http.MethodGet && (r.Path == core("playground-system", "pods") || r.Path == "/api/v1/namespaces") {
			want = suite.Administrator
		}
		assert.Equal(t, want, as, r.Path)
		return c.do(ctx, as, r)
	}
	steps := executionRights().Ask(t.Context(), e)
	assert.Greater(t, len(asked), 20)
	for _, step := range steps {
		assert.Contains(t, executionRights().Accept, step.Class, "%s: %s", step.Name, step.Detail)
	}
	var reviewed []any
	for _, r := range asked {
		if strings.HasSuffix(r.Path, "selfsubjectrulesreviews") {
			reviewed = append(reviewed, manifest.Child(r.Body, "spec")["namespace"])
		}
	}
	assert.ElementsMatch(t, []any{"playground", "playground-system", "default", "kube-system", "elsewhere"}, reviewed)
	// What it may do in the playground it may do nowhere else.
	c["/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"] = fake.Review(own)
	n := 0
	for _, step := range executionRights().Ask(t.Context(), e) {
		if step.OK {
			n++
		}
	}
	assert.Equal(t, 4, n)
	c["/api/v1/namespaces"] = suite.Answer{Code: 403}
	assert.True(t, slices.ContainsFunc(executionRights().Ask(t.Context(), e), func(s verdict.Step) bool { return s.Class == verdict.Unknown }),
		"where else it may do something was not looked at")
	e.Components = nil
	assert.Equal(t, verdict.ToolMissing, executionRights().Ask(t.Context(), e)[0].Class)
}

func TestAWayToTheNodeIsFound(t *testing.T) {
	volumes := func(v ...any) object { return object{"volumes": v} }
	for name, c := range map[string]struct {
		spec object
		says string // empty: none is found
	}{
		"a folder of the node": {volumes(object{"name": "a", "emptyDir": object{}}, object{"name": "b", "hostPath": object{"path": "/run/containerd"}}), "p has /run/containerd"},
		"a disk":               {volumes(object{"name": "a", "persistentVolumeClaim": object{"claimName": "x"}}), "p has a volume of the kind persistentVolumeClaim"},
		"a driver's":           {volumes(object{"name": "a", "csi": object{}}), "kind csi"},
		"its processes":        {object{"hostPID": true}, "p has hostPID"},
		"its network":          {object{"hostNetwork": true}, "p has hostNetwork"},
		"privilege":            {object{"containers": []any{object{"name": "c", "securityContext": object{"privileged": true}}}}, "the privileged container c"},
		"privilege before":     {object{"initContainers": []any{object{"name": "c", "securityContext": object{"privileged": true}}}}, "the privileged container c"},
		"what the cluster fills": {volumes(object{"name": "a", "configMap": object{}}, object{"name": "b", "projected": object{}}, object{"name": "c", "secret": object{}},
			object{"name": "d", "downwardAPI": object{}}, object{"name": "e", "emptyDir": object{}}), ""},
		"its own processes": {object{"hostPID": false, "containers": []any{object{"name": "c"}}}, ""},
	} {
		step := judgePods("x", []object{pod("p", c.spec)})
		assert.Equal(t, c.says != "", step.OK, "%s: %s", name, step.Detail)
		assert.Contains(t, step.Detail, c.says, name)
		if c.says == "" {
			assert.Equal(t, verdict.Absent, step.Class, name)
		}
	}
	ended := pod("p", object{})
	ended["status"] = object{"phase": "Failed"}
	assert.Equal(t, verdict.Unknown, judgePods("x", []object{ended}).Class, "what does not run was not looked at")
	assert.Equal(t, verdict.Unknown, judgePods("x", nil).Class, "no Pod, no proof")

	e := env(&server{})
	e.Do = cluster{core("playground", "pods"): listOf(pod("r", object{})), core("playground-system", "pods"): listOf(pod("s", object{"hostPID": true}))}.do
	steps := runtimeSocket().Ask(t.Context(), e)
	require.Len(t, steps, 2)
	assert.False(t, steps[0].OK)
	assert.True(t, steps[1].OK, "the service's own Pods are looked at")
	assert.Equal(t, verdict.Unknown, runtimeSocket().AskControl(t.Context(), e)[0].Class, "what may not be read")
	e.Components = nil
	assert.Equal(t, verdict.ToolMissing, runtimeSocket().Ask(t.Context(), e)[0].Class, "a target that names no programs of its own")
}

func TestAPodOfAnotherRuntimeIsFound(t *testing.T) {
	classes := listOf(object{"metadata": object{"name": "gvisor-no-network"}, "handler": "runsc-no-network"},
		object{"metadata": object{"name": "gvisor"}, "handler": "runc"})
	of := func(class string) object {
		if class == "" {
			return pod("p", object{})
		}
		return pod("p", object{"runtimeClassName": class})
	}
	done := of("")
	done["status"] = object{"phase": "Succeeded"}
	for name, c := range map[string]struct {
		pods []object
		ok   bool
		want verdict.Class
	}{
		"gVisor's":              {[]object{of("gvisor-no-network")}, false, verdict.Absent},
		"none":                  {[]object{of("gvisor-no-network"), of("")}, true, ""},
		"gVisor's by name":      {[]object{of("gvisor")}, true, ""},
		"a class that is gone":  {[]object{of("nothing")}, true, ""},
		"one that ended before": {[]object{of("gvisor-no-network"), done}, false, verdict.Absent},
		"no Pod":                {nil, false, verdict.Unknown},
	} {
		e := env(&server{})
		e.Do = cluster{"/apis/node.k8s.io/v1/runtimeclasses": classes, core("playground", "pods"): listOf(c.pods...)}.do
		step := everyPod().Ask(t.Context(), e)[0]
		assert.Equal(t, c.ok, step.OK, name)
		assert.Equal(t, c.want, step.Class, name)
	}
	e := env(&server{})
	e.Do = cluster{"/apis/node.k8s.io/v1/runtimeclasses": classes, core("stockade-system", "pods"): listOf(of(""))}.do
	assert.True(t, everyPod().AskControl(t.Context(), e)[0].OK)
	assert.Equal(t, verdict.Unknown, everyPod().Ask(t.Context(), e)[0].Class, "what may not be read")
}

func policy(name string, spec object) object {
	return object{"metadata": object{"name": name}, "spec": spec}
}

func TestAPolicyThatLetsSomethingThroughIsFound(t *testing.T) {
	for _, way := range []struct {
		s         suite.Scenario
		own, back string // the types of policies
	}{{egressPolicy(), "Egress", "Ingress"}, {ingressPolicy(), "Ingress", "Egress"}} {
		deny := policy("default-deny", object{"podSelector": object{}, "policyTypes": []any{"Ingress", "Egress"}})
		open := func(selector object) object {
			return policy("more", object{"podSelector": selector, "policyTypes": []any{way.own}, strings.ToLower(way.own): []any{object{}}})
		}
		for name, c := range map[string]struct {
			policies []object
			ok       bool
			want     []verdict.Class
		}{
			"all is denied":         {[]object{deny}, false, []verdict.Class{verdict.Absent, verdict.Absent}},
			"no policy":             {nil, true, []verdict.Class{"", verdict.Absent}},
			"the policy is open":    {[]object{open(object{})}, true, []verdict.Class{verdict.Absent, ""}},
			"one beside it is open": {[]object{deny, open(object{"matchLabels": object{"app": "run"}})}, true, []verdict.Class{verdict.Absent, ""}},
			"one of other Pods":     {[]object{deny, open(object{"matchLabels": object{"app": "other"}})}, false, []verdict.Class{verdict.Absent, verdict.Absent}},
			"one of nobody knows whom": {[]object{deny, open(object{"matchExpressions": []any{object{}}})}, false,
				[]verdict.Class{verdict.Absent, verdict.Unknown}},
			"of the other direction alone": {[]object{policy("x", object{"podSelector": object{}, "policyTypes": []any{way.back}})}, true,
				[]verdict.Class{"", verdict.Absent}},
			"of some Pods alone": {[]object{policy("x", object{"podSelector": object{"matchLabels": object{"app": "run"}}, "policyTypes": []any{way.own}})}, true,
				[]verdict.Class{"", verdict.Absent}},
		} {
			t.Run(way.own+": "+name, func(t *testing.T) {
				e := env(&server{})
				e.Pod = func() suite.Object {
					p := compliant()
					manifest.Child(p, "metadata")["labels"] = object{"app": "run"}
					return p
				}
				e.Do = plain(cluster{reading.PoliciesOf("playground"): listOf(c.policies...)}).do
				steps := way.s.Ask(t.Context(), e)
				require.Len(t, steps, 2+len(reading.PolicyGroups))
				some := false
				for i, s := range steps[:2] {
					some = some || s.OK
					assert.Equal(t, c.want[i], s.Class, "%s: %s", s.Name, s.Detail)
				}
				for _, s := range steps[2:] {
					assert.Equal(t, verdict.Absent, s.Class, "%s: %s", s.Name, s.Detail)
				}
				assert.Equal(t, c.ok, some)
			})
		}
		in := policy("execution", object{"policyTypes": []any{"Ingress"}, "ingress": []any{object{}}})
		e := env(&server{})
		e.Do = cluster{reading.PoliciesOf("playground"): listOf(deny), reading.PoliciesOf("playground-system"): listOf(in)}.do
		assert.True(t, way.s.AskControl(t.Context(), e)[0].OK)
		e.Do = cluster{reading.PoliciesOf("playground-system"): listOf(deny)}.do
		assert.False(t, way.s.AskControl(t.Context(), e)[0].OK, "a list without what must be in it shows nothing")
		assert.Equal(t, verdict.Unknown, way.s.Ask(t.Context(), e)[0].Class, "what may not be read")
		e.Do = nil
		assert.Equal(t, verdict.ToolMissing, way.s.Ask(t.Context(), e)[0].Class)
	}
}

// plain is a cluster without network policies of kinds of their own.
func plain(c cluster) cluster {
	for _, group := range reading.PolicyGroups {
		c["/apis/"+group] = suite.Answer{Code: 404}
	}
	return c
}

// A stranger's program could say anything of its Pod.
func TestTheAPIServerSpeaksForNetworkAndFolders(t *testing.T) {
	for handler, agrees := range map[string]bool{"runsc-no-network": true, "runsc": false, "": false} {
		s := demandNoNetwork(suite.Reading{Pod: suite.PodFacts{Node: "n", Phase: "Running", Handler: handler}})
		assert.True(t, s.Live)
		assert.Equal(t, agrees, s.Agrees, handler)
		assert.Equal(t, !agrees, s.Breach, handler)
	}
	assert.False(t, demandNoNetwork(suite.Reading{}).Breach, "nothing was read")
	for name, c := range map[string]struct {
		memory map[string]int64
		agrees bool
	}{
		"both":               {map[string]int64{"/workspace": room, "/tmp": room}, true},
		"smaller":            {map[string]int64{"/workspace": mib, "/tmp": mib}, true},
		"one on disk":        {map[string]int64{"/workspace": room}, false},
		"one without a size": {map[string]int64{"/workspace": room, "/tmp": 0}, false},
		"one that is larger": {map[string]int64{"/workspace": room, "/tmp": room + 1}, false},
	} {
		s := demandMemory(suite.Reading{Pod: suite.PodFacts{Declared: true, InMemory: c.memory}})
		assert.Equal(t, c.agrees, s.Agrees, name)
		assert.Equal(t, !c.agrees, s.Breach, name)
	}
	assert.False(t, demandMemory(suite.Reading{}).Breach, "nothing was read")
}

func TestEveryPlaceThatIsTriedIsLookedForInTheFlowLog(t *testing.T) {
	s := probe.Site{PublicTCP: "203.0.113.7:8080", PublicTLS: "8.8.8.8:443", PublicUDP: "198.51.100.9:4500", PublicDNS: "8.8.8.8:53", PublicICMP: "203.0.113.7",
		PublicTCP6: "[2001:db8::7]:443", Metadata: "169.254.169.254:80", ClusterDNS: "10.96.0.10:53", APIServer: "10.96.0.1:443", RFC1918: []string{"10.9.9.9:80"},
		Own: "10.0.0.1", OwnAll: []string{"10.0.0.1"}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing is to be sent
	assert.Len(t, reachOut(ctx, &probe.Env{Site: s}), len(places(s)))
	assert.NotContains(t, places(s), s.PublicTCP6, "a Pod without an address of IPv6")
	s.OwnAll = append(s.OwnAll, "fd00::1")
	assert.Len(t, reachOut(ctx, &probe.Env{Site: s}), len(places(s)))
	assert.Contains(t, places(s), s.PublicTCP6)
	assert.Equal(t, s.OwnAll, defaultDenyIngress().Witnesses[0].Flow.To(s))
	assert.Len(t, defaultDenyIngress().Attack(ctx, &probe.Env{Site: s}), 2)
	assert.Equal(t, verdict.ToolMissing, defaultDenyIngress().Attack(ctx, &probe.Env{})[0].Class)

	stranger := serviceFromStranger()
	s.Server = "10.96.0.7:8080"
	assert.Equal(t, []string{s.Server}, stranger.Witnesses[0].Flow.To(s))
	assert.True(t, stranger.Witnesses[0].Flow.Servers, "the drop is on the service's own node")
	assert.Empty(t, stranger.Witnesses[0].Flow.To(probe.Site{}))
	assert.Equal(t, verdict.ToolMissing, stranger.Attack(ctx, &probe.Env{})[0].Class)
	assert.Equal(t, verdict.ToolMissing, stranger.Control.Act(ctx, &probe.Env{})[0].Class)
	assert.NotEqual(t, stranger.From, stranger.Control.At, "the flow log has to see somebody else")
}

// Who reads the policy of the playground's own service reads that of no other
// namespace, and knows the front end.
func TestWhoElseMayCallTheServiceIsFound(t *testing.T) {
	from := func(namespaces ...string) object {
		var peers []any
		for _, ns := range namespaces {
			peers = append(peers, object{"namespaceSelector": object{"matchLabels": object{"kubernetes.io/metadata.name": ns}}})
		}
		return policy("execution", object{"podSelector": object{"matchLabels": object{"app": "execution"}}, "policyTypes": []any{"Ingress"},
			"ingress": []any{object{"from": peers, "ports": []any{object{"protocol": "TCP", "port": int64(8080)}}}}})
	}
	pods := listOf(object{"metadata": object{"name": "execution-1", "labels": object{"app": "execution"}}})
	for name, c := range map[string]struct {
		policies []object
		ok       bool
	}{
		"the front end":              {[]object{from("stockade-system")}, false},
		"the runs as well":           {[]object{from("stockade-system", "playground")}, true},
		"everybody":                  {[]object{from()}, true},
		"no policy of its own":       {nil, true},
		"one beside it lets more in": {[]object{from("stockade-system"), from("stockade-clients")}, true},
	} {
		e := env(&server{})
		e.Do = plain(cluster{reading.PoliciesOf("playground-system"): listOf(c.policies...), core("playground-system", "pods"): pods}).do
		steps := servicePolicy().Ask(t.Context(), e)
		require.Len(t, steps, 2+len(reading.PolicyGroups), name)
		assert.Equal(t, c.ok, slices.ContainsFunc(steps, func(s verdict.Step) bool { return s.OK }), name)
	}
	assert.Equal(t, verdict.ToolMissing, servicePolicy().Ask(t.Context(), &suite.APIEnv{})[0].Class)
}
