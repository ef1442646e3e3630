// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// call is one system call, made so that it changes nothing.
type call struct {
	name string
	why  string // what has come through it before
	do   func() error
}

// dangerousSyscalls accepts what gVisor's table answers before it looks at any
// argument: NoSyscall where it has no such call, Permission where it wants a
// capability that nobody in the sandbox has, Unsupported (ENODEV, EOPNOTSUPP)
// for perf events and file handles. An argument error (EINVAL, EFAULT, EBADF)
// means that a kernel that has the call was reached.
func dangerousSyscalls() suite.Scenario {
	return suite.Scenario{
		ID:    "kernel.dangerous-syscalls",
		Title: "Make the system calls that kernel exploits begin with",
		About: "Makes calls through which kernels were broken, each with arguments that are refused before anything happens. " +
			"The aim is reached when the arguments are what is complained about: then the node's kernel has looked at them.",
		Claims: []string{"AS-01", "KG-01"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1068", "T1611"},
		Refs: []string{
			"https://nvd.nist.gov/vuln/detail/CVE-2021-3490", "https://nvd.nist.gov/vuln/detail/CVE-2022-1043",
			"https://nvd.nist.gov/vuln/detail/CVE-2022-0185", "https://gvisor.dev/docs/user_guide/compatibility/linux/amd64/",
		},
		Needs:  []suite.Feature{suite.GVisor},
		Attack: makeCalls,
		Control: suite.ControlSpec{
			Act: controlCalls,
			Why: "in a privileged runc twin the node's kernel serves most of the calls, so a denial in the sandbox is the sandbox's doing",
		},
		Accept:    []verdict.Class{verdict.NoSyscall, verdict.Permission, verdict.Unsupported},
		Witnesses: []suite.Witness{onGVisor()},
		Mutants:   []string{"runtime-class-runc", "kode-gopher-runc"},
	}
}

func makeCalls(context.Context, *probe.Env) []verdict.Step { return callSteps(nodeCalls()) }

func callSteps(all []call) []verdict.Step {
	steps := make([]verdict.Step, 0, len(all))
	for _, c := range all {
		err := c.do()
		if served(err) {
			steps = append(steps, probe.Reached("call "+c.name, "served (%v); notable for: %s", err, c.why))
			continue
		}
		steps = append(steps, probe.Denied("call "+c.name, err))
	}
	return steps
}

// notServed are the answers of a kernel or filter that does not take the call.
var notServed = []error{syscall.ENOSYS, syscall.EPERM, syscall.EACCES, syscall.ENODEV, syscall.EOPNOTSUPP}

// served is for the errors of a system call; anything else was lost on the way.
func served(err error) bool {
	var no syscall.Errno
	if err != nil && !errors.As(err, &no) {
		return false
	}
	return !slices.ContainsFunc(notServed, func(no error) bool { return errors.Is(err, no) })
}

// controlCalls asks for three calls, and vmsplice among them, rather than for
// all: nodes may well be built without kexec, modules or keys, and what the
// node's kernel lacks cannot be attacked.
func controlCalls(context.Context, *probe.Env) []verdict.Step {
	return atLeast(callSteps(nodeCalls()), 3, "call vmsplice")
}

// atLeast turns many steps into one, which is OK when n of them are, and all
// that are named.
func atLeast(steps []verdict.Step, n int, named ...string) []verdict.Step {
	var ok, not []string
	for _, s := range steps {
		if s.OK {
			ok = append(ok, s.Name)
		} else {
			not = append(not, fmt.Sprintf("%s (%s)", s.Name, s.Class))
		}
	}
	out := verdict.Step{Name: fmt.Sprintf("reach the node's kernel in %d ways", n), OK: len(ok) >= n, Class: verdict.Unknown,
		Detail: fmt.Sprintf("done: %s; not: %s", strings.Join(ok, ", "), strings.Join(not, ", "))}
	for _, name := range named {
		out.OK = out.OK && slices.Contains(ok, name)
	}
	return []verdict.Step{out}
}
