// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"os"
	"strings"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// identitySignals asks for five signals. One alone can be faked by the image, or
// be right by accident; five that come from different parts of a kernel cannot.
//
// Confined is gVisor naming itself. Absent and NoSyscall are the files and calls
// that it does not have. Permission is not accepted: gVisor shows its kernel log
// to everybody, so a refusal there is a Linux kernel under a seccomp profile.
func identitySignals() suite.Scenario {
	return suite.Scenario{
		ID:    "kernel.identity-signals",
		Title: "Identify the kernel by independent signals",
		About: "Asks who the kernel is in five ways: `uname`, `/proc/version`, the kernel log, the files of /proc that every Linux has, " +
			"and system calls that every Linux answers. The claim holds when all of them point to gVisor.",
		Claims: []string{"AS-01", "KG-01", "PG-01"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1082"},
		Refs:       []string{"https://gvisor.dev/docs/architecture_guide/security/", "https://gvisor.dev/docs/user_guide/compatibility/linux/amd64/"},
		Needs:      []suite.Feature{suite.GVisor},
		Attack:     identify,
		Control:    suite.ControlSpec{Why: "in a runc twin on the same node every signal shows the node's kernel, so the signals can tell the two apart"},
		Accept:     []verdict.Class{verdict.Confined, verdict.Absent, verdict.NoSyscall},
		Witnesses:  []suite.Witness{onGVisor()},
		Mutants:    []string{"runtime-class-runc", "gvisor-named-runc", "playground-runc", "kode-gopher-runc"},
	}
}

// isGVisor recognises what gVisor says of itself: the release and build date
// that it has shown since its first version (pkg/sentry/kernel/version), and
// its name, should a newer one show that.
func isGVisor(text string) bool {
	return strings.Contains(strings.ToLower(text), "gvisor") ||
		strings.Contains(text, "#1 SMP Sun Jan 10 15:06:54 PST 2016")
}

// linuxFiles are there on every Linux with /proc, whatever its configuration
// is likely to leave out, and not on gVisor.
var linuxFiles = []string{
	"/proc/buddyinfo", "/proc/vmstat", "/proc/zoneinfo", "/proc/interrupts", "/proc/softirqs",
	"/proc/iomem", "/proc/consoles", "/proc/diskstats", "/proc/partitions",
}

func identify(context.Context, *probe.Env) []verdict.Step {
	steps := []verdict.Step{signalUname(), signalText("read /proc/version", "/proc/version"), signalLog()}
	have := 0
	for _, f := range linuxFiles {
		if _, err := os.Lstat(f); err == nil {
			have++
		}
	}
	return append(steps, signalFiles(have, len(linuxFiles)), signalCalls(nodeCalls()))
}

func signalUname() verdict.Step {
	const name = "ask uname"
	release, version, err := uname()
	if err != nil {
		return probe.Denied(name, err)
	}
	return signal(name, release+" "+version)
}

func signalText(name, path string) verdict.Step {
	text, err := peek(path)
	if err != nil {
		return probe.Denied(name, err)
	}
	return signal(name, text)
}

func signalLog() verdict.Step {
	const name = "read the kernel log"
	text, err := kernelLog()
	if err != nil {
		return probe.Denied(name, err)
	}
	if text == "" {
		return probe.Failed(name, verdict.Unknown, "the log is empty")
	}
	return signal(name, text)
}

// signal judges a text in which a kernel names itself.
func signal(name, text string) verdict.Step {
	text = strings.TrimSpace(text)
	if isGVisor(text) {
		return probe.Failed(name, verdict.Confined, "gVisor: %.200s", text)
	}
	return probe.Reached(name, "not gVisor: %.200s", text)
}

// signalFiles asks for the majority, so that neither a new file in gVisor nor
// a lean kernel turns the signal.
func signalFiles(have, of int) verdict.Step {
	const name = "look for Linux's files in /proc"
	if 2*have > of {
		return probe.Reached(name, "%d of %d are there", have, of)
	}
	return probe.Failed(name, verdict.Absent, "%d of %d are there", have, of)
}

// signalCalls uses the calls that the usual seccomp profiles let through: a
// refusal by a profile must not look like a kernel without the call.
func signalCalls(all []call) verdict.Step {
	const name = "make calls that Linux has"
	var last error
	for _, c := range all {
		if c.name != "vmsplice" && c.name != "remap_file_pages" {
			continue
		}
		err := c.do()
		if served(err) {
			return probe.Reached(name, "%s is served (%v)", c.name, err)
		}
		last = err
	}
	return probe.Denied(name, last)
}
