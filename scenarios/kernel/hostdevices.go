// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// hostDevices accepts Absent, the answer of a kernel that has no such device or
// file. Of files it also accepts Permission and ReadOnly, because gVisor has some
// of its own with nothing behind them (sysrq-trigger) and others are masked, and
// Unsupported, of those that cannot be read from. A device must be absent: none
// may be there at all. A file that opens but gives nothing (a masked path under
// runc is /dev/null) counts as Absent: there is no fact of the node in it.
func hostDevices() suite.Scenario {
	return suite.Scenario{
		ID:    "kernel.host-devices",
		Title: "Open the node's devices and kernel files",
		About: "Opens devices that lead to the node's memory, disks and hypervisor; reads files that describe the node's kernel; " +
			"and opens for writing, without writing, the files by which a kernel is told to run a program. None may be there.",
		Claims: []string{"AS-01", "KG-01"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1611", "T1082"},
		Refs:       []string{"https://man7.org/linux/man-pages/man5/proc.5.html", "https://nvd.nist.gov/vuln/detail/CVE-2022-0492"},
		Needs:      []suite.Feature{suite.GVisor},
		Attack:     openDoors,
		Control: suite.ControlSpec{
			Act: controlDoors,
			Why: "in a privileged runc twin several of the same files open and tell of the node, so the list is not of things that nobody has",
		},
		Accept:    []verdict.Class{verdict.Absent, verdict.Permission, verdict.ReadOnly, verdict.Unsupported},
		Witnesses: []suite.Witness{onGVisor()},
		Mutants:   []string{"runtime-class-runc", "kode-gopher-runc"},
	}
}

// devices lead out of the sandbox when they open at all.
var devices = []string{
	"/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/kvm", "/dev/vhost-net", "/dev/vsock",
	"/dev/sda", "/dev/vda", "/dev/xvda", "/dev/nvme0n1", "/dev/dm-0", "/dev/mapper/control", "/dev/loop-control",
	"/dev/nvidiactl", "/dev/vfio/vfio", "/dev/snd/timer", "/dev/cpu/0/msr",
}

// facts tell of the node when there is something in them.
var facts = []string{
	"/proc/kcore", "/proc/modules", "/proc/config.gz", "/proc/partitions", "/proc/iomem", "/proc/vmallocinfo",
	"/proc/sched_debug", "/proc/timer_list", "/proc/keys", "/proc/key-users", "/sys/kernel/btf/vmlinux",
	"/sys/kernel/notes", "/sys/kernel/vmcoreinfo", "/sys/firmware/acpi/tables/DSDT", "/sys/kernel/debug/sched/features",
}

// levers make a kernel run a program, or stop. They are opened, never written.
var levers = []string{
	"/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug",
	"/proc/sys/fs/binfmt_misc/register", "/proc/sys/vm/panic_on_oom", "/sys/kernel/uevent_helper",
	"/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/rdma/release_agent",
}

func openDoors(context.Context, *probe.Env) []verdict.Step {
	var steps []verdict.Step
	for _, p := range devices {
		steps = append(steps, device("open "+p, p, openOnly(p, false)))
	}
	for _, p := range facts {
		text, err := peek(p)
		steps = append(steps, told("read "+p, text, err))
	}
	text, err := peek("/proc/kallsyms")
	steps = append(steps, symbols("read addresses in /proc/kallsyms", text, err))
	for _, p := range levers {
		steps = append(steps, opened("open "+p+" for writing", openOnly(p, true)))
	}
	return steps
}

// device looks whether the node's device is there when it did not open: the
// next sandbox may run as a user that can open it.
func device(name, path string, err error) verdict.Step {
	step := opened(name, err)
	if step.OK || step.Class == verdict.Absent {
		return step
	}
	info, serr := os.Lstat(path)
	switch {
	case serr == nil:
		return probe.Reached(name, "it is there (%s), though it did not open: %v", info.Mode(), err)
	case errors.Is(serr, fs.ErrNotExist):
		return probe.Failed(name, verdict.Absent, "%v", serr)
	}
	return probe.Failed(name, verdict.Unknown, "whether it is there cannot be told: %v", serr)
}

func opened(name string, err error) verdict.Step {
	if err != nil {
		return doorDenied(name, err)
	}
	return probe.Reached(name, "it opened")
}

func told(name, text string, err error) verdict.Step {
	switch {
	case err != nil:
		return doorDenied(name, err)
	case text == "":
		return probe.Failed(name, verdict.Absent, "it is empty")
	}
	return probe.Reached(name, "it has content: %.60q", text)
}

// symbols looks for an address: to those without CAP_SYSLOG, Linux shows the
// names with all addresses zero. Even then the list is the node's, and so the
// names alone are a success.
func symbols(name, text string, err error) verdict.Step {
	if err != nil || text == "" {
		return told(name, text, err)
	}
	first, _, _ := strings.Cut(text, " ")
	if strings.Trim(first, "0") == "" {
		return probe.Reached(name, "it lists the node's symbols, without addresses")
	}
	return probe.Reached(name, "it lists the node's symbols with their addresses")
}

// doorDenied knows two errors more than others do: a device file whose driver
// is not there says ENXIO, and a file that exists but cannot be read from says
// EIO. Neither gives anything of the node.
func doorDenied(name string, err error) verdict.Step {
	s := probe.Denied(name, err)
	if errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.EIO) {
		s.Class = verdict.Unsupported
	}
	return s
}

// controlDoors asks for three: which of them a node has is its own affair.
func controlDoors(ctx context.Context, env *probe.Env) []verdict.Step {
	return atLeast(openDoors(ctx, env), 3, "read /proc/partitions")
}
