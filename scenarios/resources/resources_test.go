// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"maps"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

func TestTheFamilyRegisters(t *testing.T) {
	var r suite.Registry
	r.MustAdd(Scenarios()...)
	assert.Len(t, r.All(), len(Scenarios()))
}

func TestMemoryIsHeldAndReleased(t *testing.T) {
	h := &hoard{}
	step := h.grow(t.Context(), 20*mib)
	assert.True(t, step.OK)
	assert.EqualValues(t, 32*mib, h.bytes, "whole chunks")
	h.release()
	assert.Zero(t, h.bytes)
}

func TestTheMemoryWitness(t *testing.T) {
	for name, tc := range map[string]struct {
		peak                 float64
		live, agrees, breach bool
	}{
		"at the limit":        {512 * mib, true, true, false},
		"the control's, only": {128 * mib, true, false, false},
		"half, and an end":    {256 * mib, true, false, false},
		"a batch above":       {530 * mib, true, true, false},
		"far above":           {700 * mib, true, false, true},
		"another Pod's, idle": {5 * mib, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := readMemory(suite.Reading{After: map[string]float64{"memory.max_usage_in_bytes": tc.peak}})
			assert.Equal(t, []bool{tc.live, tc.agrees, tc.breach}, []bool{s.Live, s.Agrees, s.Breach}, s.Detail)
		})
	}
	assert.False(t, readMemory(suite.Reading{}).Live, "a missing number is no number")
	assert.True(t, readMemory(suite.Reading{After: map[string]float64{
		"memory.max_usage_in_bytes": 200 * mib, "memory.limit_in_bytes": probe.Unlimited}}).Breach, "no limit at all")
	assert.True(t, readMemory(suite.Reading{After: map[string]float64{
		"memory.max_usage_in_bytes": 512 * mib, "memory.limit_in_bytes": 512 * mib}}).Agrees)
}

func TestTheDeclaredMemoryLimitIsUsed(t *testing.T) {
	r := suite.Reading{Site: probe.Site{MemoryLimit: 128 * mib}, After: map[string]float64{"memory.max_usage_in_bytes": 200 * mib}}
	assert.True(t, readMemory(r).Breach)
}

func TestOnlyAKillAgrees(t *testing.T) {
	for name, tc := range map[string]struct {
		pod    suite.PodFacts
		agrees bool
	}{
		"killed":        {suite.PodFacts{Phase: "Running", ExitCode: 137, ExitReason: "OOMKilled", Restarts: 1}, true},
		"by itself":     {suite.PodFacts{Phase: "Running", ExitCode: 137, ExitReason: "Error", Restarts: 1}, false},
		"by the kernel": {suite.PodFacts{Phase: "Running", ExitCode: 128, ExitReason: "OOMKilled"}, true},
		"still running": {suite.PodFacts{Phase: "Running", ExitCode: -1}, false},
		"evicted":       {suite.PodFacts{Phase: "Failed", ExitCode: 137, EvictedFor: "The node was low on resource: memory."}, false},
		"an own error":  {suite.PodFacts{Phase: "Running", ExitCode: 2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := readKilled(suite.Reading{Pod: tc.pod})
			assert.True(t, s.Live)
			assert.Equal(t, tc.agrees, s.Agrees, s.Detail)
		})
	}
	assert.False(t, readKilled(suite.Reading{}).Live)
}

func TestWorkIsTurnedIntoCores(t *testing.T) {
	for name, tc := range map[string]struct {
		full, got float64
		ok        bool
		class     verdict.Class
	}{
		"half a core":   {1000, 500, false, verdict.ResourceLimit},
		"two cores":     {1000, 1900, true, ""},
		"nothing":       {1000, 0, false, verdict.Unknown},
		"no comparison": {0, 500, false, verdict.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			s := judgeRate(tc.full, tc.got, 0.5, insideSlack)
			assert.Equal(t, tc.ok, s.OK)
			assert.Equal(t, tc.class, s.Class)
		})
	}
}

func TestSpinningCountsWork(t *testing.T) {
	rounds, took := spin(t.Context(), 5*time.Millisecond)
	assert.Positive(t, rounds)
	assert.GreaterOrEqual(t, took, 5*time.Millisecond)
}

func TestTheCPUWitness(t *testing.T) {
	reading := func(used, quota float64) suite.Reading {
		return suite.Reading{Elapsed: 4 * time.Second, Before: map[string]float64{"cpuacct.usage": 1e9},
			After: map[string]float64{"cpuacct.usage": 1e9 + used*1e9, "cpu.cfs_quota_us": quota, "cpu.cfs_period_us": 100000}}
	}
	for name, tc := range map[string]struct {
		used, quota          float64
		live, agrees, breach bool
	}{
		"at the limit":           {1.9, 50000, true, true, false},
		"above the limit":        {4.0, 50000, true, false, true},
		"no quota, nothing used": {0.01, -1, false, false, true},
		"no quota, little used":  {1.0, -1, true, false, true},
		"a larger quota":         {1.0, 100000, true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := readCPU(reading(tc.used, tc.quota))
			assert.Equal(t, []bool{tc.live, tc.agrees, tc.breach}, []bool{s.Live, s.Agrees, s.Breach}, s.Detail)
		})
	}
	assert.False(t, readCPU(suite.Reading{Elapsed: time.Second}).Live)
	unseen := reading(1, 50000)
	delete(unseen.After, "cpu.cfs_quota_us")
	s := readCPU(unseen)
	assert.False(t, s.Agrees || s.Breach, "a quota that cannot be read is neither there nor missing")
}

func TestABombIsJudgedByItsError(t *testing.T) {
	for name, tc := range map[string]struct {
		b     bomb
		ok    bool
		class verdict.Class
	}{
		"stopped":           {bomb{got: 100, wanted: 200, err: fmt.Errorf("fork: %w", syscall.EAGAIN)}, false, verdict.ResourceLimit},
		"out of memory":     {bomb{got: 100, wanted: 200, err: syscall.ENOMEM}, false, verdict.ResourceLimit},
		"all started":       {bomb{got: 200, wanted: 200}, true, ""},
		"late stop":         {bomb{got: 150, wanted: 200, err: syscall.EAGAIN}, true, ""},
		"no program":        {bomb{wanted: 200, err: syscall.ENOENT}, false, verdict.Unknown},
		"out of time early": {bomb{got: 3, wanted: 200, err: fmt.Errorf("deadline")}, false, verdict.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			s := judgeBomb(tc.b, 100)
			assert.Equal(t, tc.ok, s.OK)
			assert.Equal(t, tc.class, s.Class)
		})
	}
}

func TestAFewProcessesStart(t *testing.T) {
	b := startMany(t.Context(), 3)
	assert.NoError(t, b.err)
	assert.Equal(t, 3, b.got)
}

func TestTheProcessWitness(t *testing.T) {
	for name, tc := range map[string]struct {
		max, peak, declared float64
		agrees, breach      bool
	}{
		"within":                 {256, 256, 256, true, false},
		"declared, but no limit": {probe.Unlimited, 200, 256, false, true},
		"a larger limit":         {4096, 200, 256, false, true},
		"undeclared limit":       {256, 256, 0, true, false},
		"undeclared, no limit":   {probe.Unlimited, 200, 0, false, false},
		"never near the limit":   {256, 40, 256, false, false},
		"just below, by samples": {256, 231, 256, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := readPids(suite.Reading{Site: probe.Site{PidsLimit: int64(tc.declared)},
				After: map[string]float64{"pids.max": tc.max, "pids.current": 3, "pids.peak": tc.peak}})
			assert.True(t, s.Live)
			assert.Equal(t, []bool{tc.agrees, tc.breach}, []bool{s.Agrees, s.Breach}, s.Detail)
		})
	}
	assert.False(t, readPids(suite.Reading{}).Live)
	assert.False(t, readPids(suite.Reading{After: map[string]float64{"pids.max": 256, "pids.current": 3}}).Live, "not even the control was seen")
}

// A sandbox that ends itself looks killed to everybody but the node's numbers.
func TestASandboxThatEndsItselfHasNotReachedALimit(t *testing.T) {
	numbers := map[string]float64{"pids.max": 256, "pids.current": 5, "pids.peak": 40,
		"memory.max_usage_in_bytes": 130 * mib, "memory.limit_in_bytes": 512 * mib}
	reading := suite.Reading{Site: probe.Site{PidsLimit: 256, MemoryLimit: 512 * mib}, Before: numbers, After: numbers,
		Pod: suite.PodFacts{Phase: "Running", ExitCode: 137, ExitReason: "Error"}}
	for _, s := range []suite.Scenario{processBomb(), memoryRunaway()} {
		e := verdict.Evidence{Accept: s.Accept,
			Attempts: []verdict.Attempt{{Nonce: "a", Complete: true, Steps: []verdict.Step{{Name: "outlive the attack", Class: verdict.Killed}}}},
			Controls: []verdict.Attempt{{Nonce: "c", Complete: true, Steps: []verdict.Step{{Name: "some", OK: true}}}},
		}
		for _, w := range s.Witnesses {
			st := w.Read(reading)
			e.Require, e.Statements = append(e.Require, w.Name), append(e.Statements, st)
		}
		r := verdict.Decide(e)
		assert.Equal(t, verdict.Inconclusive, r.Verdict(), "%s: %s", s.ID, r.Detail())
		assert.Equal(t, verdict.WitnessDisagrees, r.Reason(), s.ID)
	}
}

func TestADeclaredLimitIsThereAndNotTooHigh(t *testing.T) {
	container := func(limits map[string]any) any {
		return map[string]any{"name": "c", "resources": map[string]any{"limits": limits}}
	}
	good := map[string]any{"cpu": "500m", "memory": "512Mi", "ephemeral-storage": "128Mi"}
	with := func(resource string, amount any) map[string]any {
		out := maps.Clone(good)
		out[resource] = amount
		if amount == nil {
			delete(out, resource)
		}
		return out
	}
	spec := func(all ...any) suite.Object { return suite.Object{"containers": all} }
	whole := spec(container(nil))
	whole["resources"] = map[string]any{"limits": good}
	before := spec(container(with("memory", "256Mi")))
	before["initContainers"] = []any{container(with("memory", "512Mi"))}
	for name, c := range map[string]struct {
		spec  suite.Object
		cpu   verdict.Class // "" is the attack's success
		rest  verdict.Class // of memory
		store verdict.Class
	}{
		"as it should be":       {spec(container(good)), verdict.Confined, verdict.Confined, verdict.Confined},
		"more CPU":              {spec(container(with("cpu", "2"))), "", verdict.Confined, verdict.Confined},
		"more memory":           {spec(container(with("memory", "8Gi"))), verdict.Confined, "", verdict.Confined},
		"a byte more":           {spec(container(with("memory", "536870913"))), verdict.Confined, "", verdict.Confined},
		"less":                  {spec(container(with("memory", "1M"))), verdict.Confined, verdict.Confined, verdict.Confined},
		"no limit on the disk":  {spec(container(with("ephemeral-storage", nil))), verdict.Confined, verdict.Confined, ""},
		"a limit of nothing":    {spec(container(with("cpu", "0"))), "", verdict.Confined, verdict.Confined},
		"no limits":             {spec(container(nil)), "", "", ""},
		"a second container":    {spec(container(good), container(good)), "", "", ""},
		"one without any":       {spec(container(good), container(nil)), "", "", ""},
		"one that runs before":  {before, "", "", ""},
		"what nobody can read":  {spec(container(with("memory", "much"))), verdict.Confined, verdict.Unknown, verdict.Confined},
		"limits of the whole":   {whole, verdict.Unknown, verdict.Unknown, verdict.Unknown},
		"a Pod that is not one": {suite.Object{}, verdict.Unknown, verdict.Unknown, verdict.Unknown},
	} {
		env := &suite.APIEnv{Namespace: "boxes", Live: "live", Site: probe.Site{Most: probe.Limits{CPU: 0.5, Memory: 512 * mib, Storage: 128 * mib}},
			Do: func(_ context.Context, as suite.Identity, r suite.Request) (suite.Answer, error) {
				assert.Equal(t, suite.Administrator, as)
				assert.Equal(t, "/api/v1/namespaces/boxes/pods/live", r.Path)
				return suite.Answer{Code: 200, Object: suite.Object{"spec": c.spec}}, nil
			}}
		steps := declaredLimits().Ask(t.Context(), env)
		require.Len(t, steps, 3, name)
		for i, want := range []verdict.Class{c.cpu, c.rest, c.store} {
			assert.Equal(t, want, steps[i].Class, "%s: %s: %s", name, steps[i].Name, steps[i].Detail)
			assert.Equal(t, want == "", steps[i].OK, "%s: %s: %s", name, steps[i].Name, steps[i].Detail)
		}
		env.Site.Most = probe.Limits{}
		assert.Len(t, declaredLimits().Ask(t.Context(), env), 2, "nobody says what the disk's has to be")
	}
	// Where nobody says how high a limit may be, there has to be one.
	assert.Equal(t, verdict.Confined, bound{"memory", 0}.judge(spec(container(with("memory", "8Gi")))).Class)
	assert.True(t, bound{"memory", 0}.judge(spec(container(nil))).OK)
	assert.Equal(t, verdict.ToolMissing, declaredLimits().Ask(t.Context(), &suite.APIEnv{})[0].Class)
}

// The API server's own answer is read: what it fills in is filled in there as well.
func TestTheControlFindsAPodWithoutLimits(t *testing.T) {
	env := &suite.APIEnv{Nonce: "0123456789abcdef", Namespace: "boxes", Pod: func() suite.Object {
		return suite.Object{"spec": suite.Object{"containers": []any{suite.Object{"name": "c", "resources": suite.Object{"limits": suite.Object{"cpu": "1"}}}}}}
	}}
	assert.Equal(t, verdict.ToolMissing, findNoLimits(t.Context(), env)[0].Class)
	filled := suite.Object{"spec": suite.Object{"containers": []any{suite.Object{"name": "c", "resources": suite.Object{"limits": suite.Object{"cpu": "1", "memory": "1Gi"}}}}}}
	for name, c := range map[string]struct {
		answer func(suite.Object) suite.Answer
		ok     bool
	}{
		"taken":                {func(o suite.Object) suite.Answer { return suite.Answer{Code: 201, Object: o} }, true},
		"given limits by some": {func(suite.Object) suite.Answer { return suite.Answer{Code: 201, Object: filled} }, false},
		"refused":              {func(suite.Object) suite.Answer { return suite.Answer{Code: 403} }, false},
	} {
		env.Do = func(_ context.Context, _ suite.Identity, r suite.Request) (suite.Answer, error) {
			return c.answer(r.Body), nil
		}
		for _, step := range findNoLimits(t.Context(), env) {
			assert.Equal(t, c.ok, step.OK, "%s: %s", name, step.Detail)
			assert.NotEqual(t, verdict.AdmissionDenied, step.Class, name)
		}
	}
}
