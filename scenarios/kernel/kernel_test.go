// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

func TestTheFamilyRegisters(t *testing.T) {
	var r suite.Registry
	r.MustAdd(Scenarios()...)
	assert.Len(t, r.All(), 6)
	for _, s := range r.All() {
		assert.Contains(t, s.Claims, "AS-01", s.ID)
		assert.NotContains(t, s.Accept, verdict.Dropped, "%s: no kernel drops a call", s.ID)
	}
}

func TestAKernelIsKnownByWhatItSaysOfItself(t *testing.T) {
	for text, gvisor := range map[string]bool{
		"4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016":               true,
		"Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016": true,
		"<6>[    0.000000] Starting gVisor...":                    true,
		"4.19.0-gvisor":                                           true,
		"4.4.0-210-generic #242-Ubuntu SMP":                       false,
		"6.12.8 #1 SMP PREEMPT_DYNAMIC":                           false,
		"":                                                        false,
	} {
		s := signal("ask", text)
		assert.Equal(t, !gvisor, s.OK, "%q", text)
		if gvisor {
			assert.Equal(t, verdict.Confined, s.Class)
		}
	}
}

func TestOneStrayFileTurnsNoSignal(t *testing.T) {
	for have, ok := range map[int]bool{0: false, 1: false, 4: false, 5: true, 9: true} {
		s := signalFiles(have, 9)
		assert.Equal(t, ok, s.OK, have)
		if !ok {
			assert.Equal(t, verdict.Absent, s.Class)
		}
	}
}

func TestACallIsServedWhenItsArgumentsAreWhatIsWrong(t *testing.T) {
	for err, want := range map[error]bool{
		nil: true, syscall.EINVAL: true, syscall.EFAULT: true, syscall.EBADF: true, syscall.ENOEXEC: true,
		syscall.ENOSYS: false, syscall.EPERM: false, syscall.EACCES: false, syscall.ENODEV: false, syscall.EOPNOTSUPP: false,
	} {
		steps := callSteps([]call{{"vmsplice", "why", func() error { return err }}})
		assert.Equal(t, want, steps[0].OK, "%v", err)
		if !want {
			assert.Contains(t, dangerousSyscalls().Accept, steps[0].Class, "%v", err)
		}
	}
}

func TestASeccompFilterIsNoMissingCall(t *testing.T) {
	s := signalCalls([]call{
		{"vmsplice", "", func() error { return syscall.EPERM }},
		{"bpf", "", func() error { return nil }}, // not among the telling ones
	})
	assert.False(t, s.OK)
	assert.NotContains(t, identitySignals().Accept, s.Class)
}

func TestASocketThatOpensIsABreach(t *testing.T) {
	steps := socketSteps([]socket{
		{"AF_ONE", "", func() error { return nil }},
		{"AF_TWO", "", func() error { return syscall.EAFNOSUPPORT }},
		{"AF_THREE", "", func() error { return syscall.EPERM }},
		{"AF_FOUR", "", func() error { return syscall.EMFILE }},
	})
	assert.True(t, steps[0].OK)
	assert.Equal(t, verdict.Unsupported, steps[1].Class)
	assert.Equal(t, verdict.Permission, steps[2].Class)
	assert.NotContains(t, exoticSockets().Accept, steps[3].Class, "too few descriptors say nothing of the family")
}

func TestADoorIsJudgedByWhatIsBehindIt(t *testing.T) {
	for name, c := range map[string]struct {
		step  verdict.Step
		ok    bool
		class verdict.Class
	}{
		"a device that opens":         {opened("x", nil), true, ""},
		"a device that is not there":  {opened("x", os.ErrNotExist), false, verdict.Absent},
		"a device without its driver": {opened("x", syscall.ENXIO), false, verdict.Unsupported},
		"a file that is masked":       {told("x", "", nil), false, verdict.Absent},
		"a file with content":         {told("x", "sda", nil), true, ""},
		"symbols with addresses":      {symbols("x", "ffffffff81000000 T _text\n", nil), true, ""},
		"symbols without addresses":   {symbols("x", "0000000000000000 T _text\n", nil), true, ""},
		"no symbols":                  {symbols("x", "", nil), false, verdict.Absent},
		"an odd error":                {opened("x", syscall.EDOM), false, verdict.Unknown},
	} {
		assert.Equal(t, c.ok, c.step.OK, name)
		if !c.ok {
			assert.Equal(t, c.class, c.step.Class, name)
		}
	}
}

func TestADeviceThatIsThereIsABreachThoughItDidNotOpen(t *testing.T) {
	there := filepath.Join(t.TempDir(), "sda")
	require.NoError(t, os.WriteFile(there, nil, 0o600))
	assert.True(t, device("x", there, syscall.EACCES).OK)
	assert.True(t, device("x", there, syscall.ENXIO).OK)
	assert.Equal(t, verdict.Absent, device("x", there+"x", syscall.EACCES).Class)
	assert.Equal(t, verdict.Absent, device("x", there, syscall.ENOENT).Class)
	hidden := device("x", filepath.Join(there, strings.Repeat("x", 300)), syscall.EACCES)
	assert.False(t, hidden.OK)
}

func TestAnEmptySetIsTheOnlyGoodOne(t *testing.T) {
	assert.Equal(t, verdict.Absent, capability("x", "0000000000000000", nil).Class)
	assert.True(t, capability("x", "0000000000002000", nil).OK)
	assert.False(t, capability("x", "", nil).Class.IsEvidence(), "a set that is not shown is not empty")
	assert.False(t, capability("x", "", os.ErrNotExist).Class.IsEvidence())
}

func TestPrivilegesAreJudgedOneByOne(t *testing.T) {
	assert.True(t, rootStep(0).OK)
	assert.Equal(t, verdict.Absent, rootStep(1000).Class)
	assert.True(t, flagStep(false, nil).OK)
	assert.Equal(t, verdict.Absent, flagStep(true, nil).Class)
	assert.False(t, flagStep(true, syscall.EINVAL).Class.IsEvidence())
	assert.True(t, setuidStep(nil).OK)
	assert.Equal(t, verdict.Permission, setuidStep(syscall.EPERM).Class)
}

func TestAControlNeedsSeveralWaysAndTheNamedOne(t *testing.T) {
	some := []verdict.Step{{Name: "a", OK: true}, {Name: "b", OK: true}, {Name: "c", Class: verdict.NoSyscall}}
	assert.True(t, atLeast(some, 2, "a")[0].OK)
	assert.False(t, atLeast(some, 3)[0].OK)
	assert.False(t, atLeast(some, 2, "c")[0].OK)
	assert.False(t, atLeast(nil, 1)[0].OK)
}

func TestTheHandlerDecidesAndNotTheClassesName(t *testing.T) {
	running := suite.PodFacts{Node: "n", Phase: "Running", RuntimeClass: "gvisor", Handler: "runsc"}
	for name, c := range map[string]struct {
		change       func(*suite.PodFacts)
		live, agrees bool
	}{
		"gVisor":                     {func(*suite.PodFacts) {}, true, true},
		"GKE's name for it":          {func(p *suite.PodFacts) { p.Handler = "gvisor" }, true, true},
		"runc under gVisor's name":   {func(p *suite.PodFacts) { p.Handler = "runc" }, true, false},
		"no runtime class":           {func(p *suite.PodFacts) { p.RuntimeClass, p.Handler = "", "" }, true, false},
		"a handler without a class":  {func(p *suite.PodFacts) { p.RuntimeClass = "" }, true, false},
		"a Pod that does not run":    {func(p *suite.PodFacts) { p.Phase = "Pending" }, false, true},
		"a Pod that is on no node":   {func(p *suite.PodFacts) { p.Node = "" }, false, true},
		"a Pod nobody knows of":      {func(p *suite.PodFacts) { *p = suite.PodFacts{} }, false, false},
		"another sandboxing runtime": {func(p *suite.PodFacts) { p.Handler = "kata" }, true, false},
	} {
		p := running
		c.change(&p)
		s := readHandler(suite.Reading{Pod: p})
		assert.Equal(t, c.live, s.Live, name)
		assert.Equal(t, c.agrees, s.Agrees, name)
		assert.False(t, s.Breach, "%s: the other scenarios must find a breach by themselves", name)
		assert.Equal(t, c.live && !c.agrees, demandHandler(suite.Reading{Pod: p}).Breach, name)
	}
}

// A sandbox that says "the set is empty" of whatever it holds cannot say so of
// its spec.
func TestPrivilegesAreReadFromTheSpecToo(t *testing.T) {
	good := suite.PodFacts{Node: "n", Phase: "Running", RuntimeClass: "gvisor", Handler: "runsc", Declared: true}
	for name, c := range map[string]struct {
		change       func(*suite.PodFacts)
		live, agrees bool
	}{
		"none":                     {func(*suite.PodFacts) {}, true, true},
		"a capability":             {func(p *suite.PodFacts) { p.Privileges = []string{"the capability SYS_CHROOT"} }, true, false},
		"none, on runc":            {func(p *suite.PodFacts) { p.Handler = "runc" }, true, false},
		"a spec that was not read": {func(p *suite.PodFacts) { p.Declared = false }, false, true},
	} {
		p := good
		c.change(&p)
		w := capabilities().Witnesses
		require.Len(t, w, 1)
		s := w[0].Read(suite.Reading{Pod: p})
		assert.Equal(t, c.live, s.Live, name)
		assert.Equal(t, c.agrees, s.Agrees, "%s: %s", name, s.Detail)
		assert.False(t, s.Breach, "%s: a mutant must be caught by the attack itself", name)
	}
}

func TestAnErrorThatIsNoCallsProvesNothing(t *testing.T) {
	s := callSteps([]call{{"x", "", func() error { return errors.New("lost") }}})[0]
	assert.False(t, s.OK)
	assert.False(t, s.Class.IsEvidence())
}
