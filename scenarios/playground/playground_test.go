// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/admission"
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
		Components: []string{"playground-system"}, Controls: "stockade-system",
		Do: func(_ context.Context, as suite.Identity, r suite.Request) (suite.Answer, error) {
			s.asked, s.as = append(s.asked, r), append(s.as, as)
			return s.answer, s.err
		},
	}
}

func TestEveryScenarioIsDeclaredWell(t *testing.T) {
	var r suite.Registry
	r.MustAdd(Scenarios()...)
	assert.Len(t, r.All(), len(rules)+11)
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
			v.change(admission.Child(pod, "spec"))
			assert.NotEqual(t, compliant(), pod, "%s/%s: a case that changes nothing asks for nothing", r.id, v.name)
		}
		for _, p := range r.live {
			assert.NotEmpty(t, p.spec(admission.Child(compliant(), "spec")), "%s/%s", r.id, p.name)
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
	}{
		"the policy's message":       {"reject-privileged", "denied request: playground: privileged containers are not allowed", 422, verdict.AdmissionDenied, false},
		"Pod Security, the same":     {"reject-privileged", `violates PodSecurity "restricted:latest": privileged (container "run" must not set securityContext.privileged=true)`, 403, verdict.AdmissionDenied, false},
		"Pod Security, another":      {"reject-host-port", `violates PodSecurity "restricted:latest": privileged (container "run" ...)`, 403, verdict.Unknown, false},
		"another rule of the policy": {"reject-privileged", "playground: init containers are not allowed", 422, verdict.Unknown, false},
		"the API server's own":       {"reject-privileged", "spec.containers[0].securityContext: Invalid value: cannot set allowPrivilegeEscalation to false and privileged to true", 422, verdict.Unknown, false},
		"a quota":                    {"require-digest", "exceeded quota: runs", 403, verdict.Unknown, false},
		"taken":                      {"require-digest", "", 201, "", true},
		"no Pod Security for it":     {"require-no-token", `violates PodSecurity "restricted:latest"`, 403, verdict.Unknown, false},
	} {
		t.Run(name, func(t *testing.T) {
			steps := byID[c.rule].ask(t.Context(), env(&server{answer: suite.Answer{Code: c.code, Message: c.message}}))
			require.NotEmpty(t, steps)
			for _, s := range steps {
				assert.Equal(t, c.ok, s.OK, s.Detail)
				assert.Equal(t, c.want, s.Class, s.Detail)
			}
		})
	}
}

func TestALivePodIsChangedAsADryRunByTheAdministrator(t *testing.T) {
	s := &server{answer: suite.Answer{Code: 200}}
	for _, r := range rules {
		if r.id != "reject-ephemeral-container" {
			continue
		}
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

func TestACrowdEndsAtTheQuotaAndIsRemoved(t *testing.T) {
	s := &server{answer: suite.Answer{Code: 201}, quota: 5}
	step := crowd(t.Context(), env(s), "x", manyPods)
	assert.False(t, step.OK)
	assert.Equal(t, verdict.ResourceLimit, step.Class, step.Detail)
	assert.Len(t, s.deleted, 5)
	spec := admission.Child(s.created[0], "spec")
	assert.Equal(t, "true", admission.Child(spec, "nodeSelector")["stockade.dev/nowhere"], "it must cost nothing")

	s = &server{answer: suite.Answer{Code: 201}}
	assert.True(t, crowd(t.Context(), env(s), "x", manyPods).OK, "without a quota all are taken")
	assert.Len(t, s.deleted, manyPods)
	for name, c := range map[string]struct {
		answer suite.Answer
		err    error
		want   verdict.Class
	}{
		"another refusal":   {suite.Answer{Code: 403, Message: "violates PodSecurity"}, nil, verdict.Unknown},
		"a lost connection": {suite.Answer{}, errors.New("reset"), verdict.TransportError},
	} {
		step := crowd(t.Context(), env(&server{answer: c.answer, err: c.err}), "x", 1)
		assert.Equal(t, c.want, step.Class, name)
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
	n, err := fill(t.Context(), t.TempDir(), "n", 3*piece/2)
	require.NoError(t, err)
	assert.Equal(t, int64(3*piece/2), n)
}

func TestLimitsAreJudged(t *testing.T) {
	assert.True(t, judgeLimit("x", limit{name: "files", hard: infinite, soft: 5}).OK)
	assert.Equal(t, verdict.Confined, judgeLimit("x", limit{name: "files", soft: 256, hard: 256}).Class)
	assert.Equal(t, verdict.Unknown, judgeLimit("x", limit{name: "files", soft: 3, hard: 2}).Class)
	assert.Equal(t, verdict.Permission, judgeLimit("x", limit{name: "files", err: syscall.EPERM}).Class)
	assert.True(t, judgeRaise("x", "files", nil).OK)
	assert.Equal(t, verdict.Permission, judgeRaise("x", "files", syscall.EPERM).Class)
	assert.Equal(t, verdict.ResourceLimit, judgeOpen(250, 256, syscall.EMFILE).Class)
	assert.True(t, judgeOpen(300, 256, syscall.EMFILE).OK)
	assert.True(t, judgeOpen(257, 256, nil).OK)
	assert.Equal(t, verdict.Unknown, judgeOpen(100, 256, nil).Class)
}

// service is an execution service with canned answers.
func service(answers ...suite.Execution) func(context.Context, suite.Program) (suite.Execution, error) {
	n := 0
	return func(context.Context, suite.Program) (suite.Execution, error) {
		if n >= len(answers) {
			return suite.Execution{}, errors.New("lost")
		}
		n++
		return answers[n-1], nil
	}
}

func TestUserIDsAreCompared(t *testing.T) {
	printed := func(uid string) suite.Execution { return suite.Execution{Status: "ok", Stdout: uid + "\n"} }
	for name, c := range map[string]struct {
		answers []suite.Execution
		steps   int
		ok      bool
		class   verdict.Class // of the last step
	}{
		"each its own":              {[]suite.Execution{printed("20001"), printed("20002")}, 2, false, verdict.Absent},
		"both the same":             {[]suite.Execution{printed("1000"), printed("1000")}, 2, true, verdict.Absent},
		"that of a live sandbox":    {[]suite.Execution{printed("20001"), printed("20007")}, 2, true, ""},
		"a program that says odd":   {[]suite.Execution{printed("root")}, 1, false, verdict.Unknown},
		"a program that failed":     {[]suite.Execution{{Status: "error", Stderr: "no"}}, 1, false, verdict.Unknown},
		"a service that is silent":  {nil, 1, false, verdict.TransportError},
		"a second run that is lost": {[]suite.Execution{printed("20001")}, 1, false, verdict.TransportError},
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
			if c.class != "" {
				assert.Equal(t, c.class, steps[len(steps)-1].Class)
			}
		})
	}
	assert.Equal(t, verdict.ToolMissing, compareUIDs(t.Context(), env(&server{}))[0].Class, "a target without a service")
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

func TestWhoMayIsToldFromTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		answer suite.Answer
		err    error
		ok     bool
		want   verdict.Class
	}{
		"not authorized":          {suite.Answer{Code: 403, Message: `secrets is forbidden: User "x" cannot list resource "secrets"`}, nil, false, verdict.HTTP403},
		"served":                  {suite.Answer{Code: 200}, nil, true, ""},
		"authorized, not there":   {suite.Answer{Code: 404, Message: "not found"}, nil, true, ""},
		"authorized, and refused": {suite.Answer{Code: 403, Message: "violates PodSecurity"}, nil, true, ""},
		"no upgrade":              {suite.Answer{Code: 400, Message: "Upgrade request required"}, nil, true, ""},
		"unknown to the server":   {suite.Answer{Code: 401}, nil, false, verdict.Unknown},
		"overloaded":              {suite.Answer{Code: 429}, nil, false, verdict.Unknown},
		"no answer":               {suite.Answer{}, nil, false, verdict.TransportError},
		"lost":                    {suite.Answer{}, errors.New("reset"), false, verdict.TransportError},
	} {
		step := judgeRight("x", c.answer, c.err)
		assert.Equal(t, c.ok, step.OK, name)
		assert.Equal(t, c.want, step.Class, name)
	}
}

func TestTheServiceAsksAsItself(t *testing.T) {
	s := &server{answer: suite.Answer{Code: 403, Message: "cannot do that"}}
	for _, step := range executionRights().Ask(t.Context(), env(s)) {
		assert.Equal(t, verdict.HTTP403, step.Class)
	}
	assert.Greater(t, len(s.asked), 10)
	for i, as := range s.as {
		assert.Equal(t, suite.Service, as, s.asked[i].Path)
	}
}

func TestAVolumeFromTheNodeIsFound(t *testing.T) {
	pods := func(volumes ...any) suite.Answer {
		return suite.Answer{Code: 200, Object: object{"items": []any{object{
			"metadata": object{"name": "p"}, "spec": object{"volumes": volumes}}}}}
	}
	got := judgePods("x", pods(object{"emptyDir": object{}}, object{"hostPath": object{"path": "/run/containerd"}}), nil)
	assert.True(t, got.OK)
	assert.Contains(t, got.Detail, "p has /run/containerd")
	assert.Equal(t, verdict.Absent, judgePods("x", pods(object{"emptyDir": object{}}), nil).Class)
	assert.Equal(t, verdict.Unknown, judgePods("x", suite.Answer{Code: 200, Object: object{"items": []any{}}}, nil).Class, "no Pod, no proof")
	assert.Equal(t, verdict.Unknown, judgePods("x", suite.Answer{Code: 403}, nil).Class)
	assert.Equal(t, verdict.TransportError, judgePods("x", suite.Answer{}, errors.New("reset")).Class)
}
