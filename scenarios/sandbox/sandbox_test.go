// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

const nonce = "0123456789abcdef0123456789abcdef"

func TestTheFamilyRegisters(t *testing.T) {
	var r suite.Registry
	r.MustAdd(Scenarios()...)
	assert.Len(t, r.All(), 10)
}

// cluster answers Get out of a map of "Kind/name", and remembers the rest.
type cluster struct {
	mu      sync.Mutex
	objects map[string]suite.Object
	made    []string
	deleted []string
	// late is how often an object whose name begins so is not there yet.
	late map[string]int
}

func (c *cluster) Create(_ context.Context, o suite.Object, _ bool) (suite.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kind, _ := o["kind"].(string)
	name := manifest.Name(o)
	c.made = append(c.made, kind+"/"+name)
	return suite.Answer{Code: 201, Object: o}, nil
}

func (c *cluster) Get(_ context.Context, _, kind, name string) (suite.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for prefix := range c.late {
		if strings.HasPrefix(name, prefix) && c.late[prefix] > 0 {
			c.late[prefix]--
			return suite.Answer{Code: 404, Reason: "NotFound"}, nil
		}
	}
	for key, o := range c.objects {
		if k, prefix, _ := strings.Cut(key, "/"); k == kind && strings.HasPrefix(name, prefix) {
			return suite.Answer{Code: 200, Object: o}, nil
		}
	}
	return suite.Answer{Code: 404, Reason: "NotFound"}, nil
}

func (c *cluster) Update(context.Context, suite.Object) (suite.Answer, error) {
	return suite.Answer{Code: 405}, nil
}

func (c *cluster) Delete(_ context.Context, _, kind, name string) (suite.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deleted = append(c.deleted, kind+"/"+name)
	return suite.Answer{Code: 200}, nil
}

func env(c *cluster) *suite.APIEnv {
	return &suite.APIEnv{Nonce: nonce, API: c, Live: "live", Sandbox: func() suite.Object {
		return object{"apiVersion": agentsAPI, "kind": "Sandbox", "spec": object{}}
	}}
}

func policy(labels object) suite.Object {
	return object{"metadata": object{"name": "p"}, "spec": object{"podSelector": object{"matchLabels": labels}}}
}

func TestABareSandboxIsExposedAsDisclosed(t *testing.T) {
	c := &cluster{objects: map[string]suite.Object{
		"Pod/stockade-bare":             {"metadata": object{"labels": object{"app": "budget-sandbox"}}},
		"Pod/live":                      {"metadata": object{"labels": object{"agents.x-k8s.io/sandbox-template-ref-hash": "abc"}}},
		"NetworkPolicy/" + templateName: policy(object{"agents.x-k8s.io/sandbox-template-ref-hash": "abc"}),
	}}
	steps := askBare(t.Context(), env(c))
	require.Len(t, steps, 2)
	assert.True(t, steps[0].OK, steps[0].Detail)
	assert.Equal(t, verdict.Disclosed, steps[0].Expect)
	assert.False(t, steps[1].OK)
	assert.Equal(t, verdict.Confined, steps[1].Class)
	assert.Equal(t, c.made, c.deleted, "what was made is taken away")
}

func TestATemplateWithoutAPolicyIsMoreThanDisclosed(t *testing.T) {
	c := &cluster{objects: map[string]suite.Object{"Pod/stockade-bare": {}, "Pod/live": {}}}
	steps := askBare(t.Context(), env(c))
	require.Len(t, steps, 2)
	assert.True(t, steps[1].OK)

	// A policy that selects somebody else is none.
	c.objects["NetworkPolicy/"+templateName] = policy(object{"agents.x-k8s.io/sandbox-template-ref-hash": "another"})
	steps = askBare(t.Context(), env(c))
	require.Len(t, steps, 2)
	assert.True(t, steps[1].OK, steps[1].Detail)

	delete(c.objects, "Pod/live")
	for _, step := range askBare(t.Context(), env(c)) {
		assert.False(t, step.OK || step.Class.IsEvidence(), "whom the policy selects is not known")
	}
}

func TestASelectorThatIsNotReadIsNoDenial(t *testing.T) {
	p := policy(nil)
	p["spec"].(object)["podSelector"].(object)["matchExpressions"] = []any{object{"key": "app", "operator": "DoesNotExist"}} //nolint:forcetypeassert // see policy
	step := judgeTemplate(object{}, suite.Answer{Code: 200, Object: p})
	assert.False(t, step.OK || step.Class.IsEvidence())
}

func TestAPolicyThatSelectsTheBarePodIsNoExposure(t *testing.T) {
	pod := object{"metadata": object{"labels": object{"app": "x"}}}
	assert.False(t, judgeBare(pod, suite.Answer{Code: 200, Object: policy(object{"app": "x"})}).OK)
	assert.False(t, judgeBare(pod, suite.Answer{Code: 200, Object: policy(nil)}).OK, "an empty selector selects all")
	assert.True(t, judgeBare(pod, suite.Answer{Code: 200, Object: policy(object{"app": "y"})}).OK)
	forbidden := judgeBare(pod, suite.Answer{Code: 403})
	assert.False(t, forbidden.OK)
	assert.False(t, forbidden.Class.IsEvidence())
}

func ready(sandbox string) suite.Object {
	return object{"status": object{"sandbox": object{"name": sandbox}, "conditions": []any{object{"type": "Ready", "status": "True"}}}}
}

func TestAClaimIsMeasuredAndGivenBack(t *testing.T) {
	c := &cluster{objects: map[string]suite.Object{
		"SandboxWarmPool/budget-pool": {"spec": object{"replicas": int64(1)}, "status": object{"readyReplicas": int64(1)}},
		"SandboxClaim/stockade":       ready("box"),
		"Sandbox/box":                 {"metadata": object{"labels": object{"agents.x-k8s.io/launch-type": "cold"}}},
	}}
	steps := askWarm(t.Context(), env(c))
	require.Len(t, steps, 1)
	assert.False(t, steps[0].OK, "the controller says that it was cold")
	assert.Equal(t, verdict.Absent, steps[0].Class)
	assert.ElementsMatch(t, c.made, c.deleted)
}

func TestOnlyAFastWarmClaimIsGood(t *testing.T) {
	cold := claimed{10 * time.Second, "cold"}
	assert.True(t, judgeWarm("x", claimed{time.Second, "warm"}, cold).OK)
	assert.False(t, judgeWarm("x", claimed{6 * time.Second, "warm"}, cold).OK)
	assert.False(t, judgeWarm("x", claimed{time.Second, "cold"}, cold).OK)
}

func TestAProgramThatFailsIsABreachAndAFullSandboxIsNone(t *testing.T) {
	for err, want := range map[error]verdict.Class{
		exec.ErrNotFound: verdict.Absent, errors.New("exit status 1"): verdict.Absent, syscall.EACCES: verdict.Absent,
		syscall.EAGAIN: verdict.Unknown, syscall.ENOMEM: verdict.Unknown,
	} {
		class, detail := noTotals(err, "Traceback")
		assert.Equal(t, want, class, detail)
	}
}

func TestASlowWarmClaimIsMeasuredAgain(t *testing.T) {
	for name, c := range map[string]struct {
		late map[string]int
		ok   bool
		made int // a claim, and a pool and its claim, for each try
	}{
		"once":   {map[string]int{"stockade-warm0": 3, "stockade-cold1": 4}, true, 6},
		"always": {map[string]int{"stockade-warm0": 3, "stockade-warm1": 3, "stockade-warm2": 3}, false, 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &cluster{late: c.late, objects: map[string]suite.Object{
				"SandboxWarmPool/budget-pool": {"spec": object{"replicas": int64(1)}, "status": object{"readyReplicas": int64(1)}},
				"SandboxClaim/stockade":       ready("box"),
				"Sandbox/box":                 {"metadata": object{"labels": object{"agents.x-k8s.io/launch-type": "warm"}}},
			}}
			steps := askWarm(t.Context(), env(k))
			require.Len(t, steps, 1)
			assert.Equal(t, c.ok, steps[0].OK, steps[0].Detail)
			assert.Len(t, k.made, c.made)
			assert.ElementsMatch(t, k.made, k.deleted)
		})
	}
}

func TestAClaimThatIsNeverReadyIsNoEvidence(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Millisecond)
	defer cancel()
	_, step := claim(ctx, env(&cluster{}), "n", "p")
	require.NotNil(t, step)
	assert.False(t, step.Class.IsEvidence())
}

func TestConnectingNeedsAnAnswer(t *testing.T) {
	listen := func(answer string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte(answer))
				_ = c.Close()
			}
		}()
		return l.Addr().String()
	}
	assert.True(t, connect(t.Context(), listen("hello\n"), nonce).OK)
	mute := connect(t.Context(), listen(""), nonce)
	assert.False(t, mute.OK)
	assert.False(t, mute.Class.IsEvidence())

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := l.Addr().String()
	require.NoError(t, l.Close())
	assert.Equal(t, verdict.Refused, connect(t.Context(), closed, nonce).Class)
}

func TestTheControlOfEnforcementIsNotItsOwnDestination(t *testing.T) {
	s := policyEnforced()
	assert.Equal(t, suite.Router, s.Control.At, "the control Pod reaches itself whatever the network does")
	for _, step := range s.Control.Act(t.Context(), &probe.Env{Nonce: nonce}) {
		assert.False(t, step.OK, "%s: the site names nothing", step.Name)
	}
}

func TestASiteWithoutAddressesIsNoEvidence(t *testing.T) {
	steps := attackConnect(t.Context(), &probe.Env{Nonce: nonce})
	require.Len(t, steps, 1)
	assert.False(t, steps[0].Class.IsEvidence())
}

func TestTheTotalsAreRightInTwoWays(t *testing.T) {
	for _, n := range []string{nonce, "ffffffffffffffffffffffffffffffff", "0"} {
		steps := addUp(t.Context(), &probe.Env{Nonce: n})
		assert.True(t, steps[0].OK, steps[0].Detail)
	}
}

func TestEveryAttemptHasItsOwnStatement(t *testing.T) {
	a, ta := statement("a")
	b, tb := statement("b")
	assert.NotEqual(t, a, b)
	assert.NotEqual(t, ta, tb)
	assert.Contains(t, ta, "coffee ")
}

func TestTheTotalsAreComparedOutsideOfTheSandbox(t *testing.T) {
	_, right := statement(nonce)
	_, stale := statement("another")
	wrote := func(out, errs string) []verdict.Step {
		return []verdict.Step{{Name: onStdout, OK: true, Detail: out}, {Name: onStderr, OK: true, Detail: errs}}
	}
	for name, c := range map[string]struct {
		steps []verdict.Step
		want  verdict.Verdict
	}{
		"right":                        {wrote(right, ""), verdict.Held},
		"learnt before":                {wrote(stale, ""), verdict.Breached},
		"nothing":                      {wrote("", ""), verdict.Breached},
		"something more":               {wrote(right+"and a word\n", ""), verdict.Breached},
		"a warning":                    {wrote(right, "DeprecationWarning\n"), verdict.Breached},
		"only the word that it worked": {[]verdict.Step{{Name: onStdout, OK: true}}, verdict.Inconclusive},
		"a word, and as an attack":     {[]verdict.Step{{Name: "x", Expect: verdict.MustFail, Class: verdict.Absent}}, verdict.Breached},
		"other steps":                  {[]verdict.Step{{Name: "a", OK: true, Detail: right}, {Name: "b", OK: true}}, verdict.Inconclusive},
		"no step":                      {nil, verdict.Inconclusive},
		"no interpreter":               {[]verdict.Step{{Name: "run the program", Class: verdict.Absent}}, verdict.Breached},
		"out of time":                  {[]verdict.Step{{Name: "run the program", Class: verdict.Unknown}}, verdict.Inconclusive},
	} {
		t.Run(name, func(t *testing.T) {
			r := verdict.Decide(verdict.Evidence{
				Core:     verdict.MustWork,
				Attempts: []verdict.Attempt{{Nonce: nonce, Complete: true, Steps: judgeCoffee(nonce, c.steps)}},
				Controls: []verdict.Attempt{{Complete: true, Steps: addUp(t.Context(), &probe.Env{Nonce: nonce})}},
			})
			assert.Equal(t, c.want, r.Verdict(), "%s: %s", r.Reason(), r.Detail())
		})
	}
}

// The program itself is a stand-in here: what counts is that the probe returns
// what it wrote, wrong as it is, and says nothing about it.
func TestTheProbeReturnsWhatTheProgramWrote(t *testing.T) {
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "python3"), []byte("#!/bin/sh\necho coffee 1.00\necho oops >&2\n"), 0o700))
	t.Setenv("PATH", bin)
	steps := runCoffee(t.Context(), &probe.Env{Nonce: nonce})
	require.Len(t, steps, 2)
	assert.Equal(t, "coffee 1.00\n", steps[0].Detail)
	assert.Equal(t, "oops\n", steps[1].Detail)
	for _, s := range judgeCoffee(nonce, steps) {
		assert.False(t, s.OK, s.Name)
	}
}

func TestAMissingInterpreterBreaksTheClaim(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	steps := runCoffee(t.Context(), &probe.Env{Nonce: nonce})
	require.Len(t, steps, 1)
	assert.False(t, steps[0].OK)
	assert.Equal(t, verdict.Absent, steps[0].Class)
	assert.Equal(t, verdict.MustWork, steps[0].Expect)
}
