// SPDX-License-Identifier: Apache-2.0

package ociwrap

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// capabilityNames lists the kernel's capabilities by number, as the OCI
// runtime specification spells them (linux/capability.h).
var capabilityNames = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER",
	"CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID",
	"CAP_SETPCAP", "CAP_LINUX_IMMUTABLE", "CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST",
	"CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_IPC_LOCK", "CAP_IPC_OWNER",
	"CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE",
	"CAP_SYS_PACCT", "CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_NICE",
	"CAP_SYS_RESOURCE", "CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG", "CAP_MKNOD",
	"CAP_LEASE", "CAP_AUDIT_WRITE", "CAP_AUDIT_CONTROL", "CAP_SETFCAP",
	"CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG", "CAP_WAKE_ALARM",
	"CAP_BLOCK_SUSPEND", "CAP_AUDIT_READ", "CAP_PERFMON", "CAP_BPF",
	"CAP_CHECKPOINT_RESTORE",
}

// Privileges is what this process can hand on to a container.
type Privileges struct {
	// Bounding holds the names of the capabilities in the bounding set.
	Bounding map[string]bool
	// HardLimits holds the hard resource limits by OCI name (RLIMIT_NOFILE).
	// Only those that may matter are read; an unknown one is left alone.
	HardLimits map[string]uint64
	// OOMScoreAdj is this process's own /proc/self/oom_score_adj: without
	// CAP_SYS_RESOURCE a child cannot be protected better than that.
	OOMScoreAdj int
}

// CanRaise reports whether limits may be raised above their hard value, and
// the OOM score lowered: both take CAP_SYS_RESOURCE.
func (p Privileges) CanRaise() bool { return p.Bounding["CAP_SYS_RESOURCE"] }

// ReadPrivileges reads the privileges of the calling process.
func ReadPrivileges() (Privileges, error) {
	p := Privileges{Bounding: map[string]bool{}, HardLimits: map[string]uint64{}}
	for n, name := range capabilityNames {
		in, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(n), 0, 0, 0)
		if err != nil {
			break // a kernel that is older than the capability
		}
		p.Bounding[name] = in == 1
	}
	for name, resource := range map[string]int{
		"RLIMIT_NOFILE":  unix.RLIMIT_NOFILE,
		"RLIMIT_NPROC":   unix.RLIMIT_NPROC,
		"RLIMIT_MEMLOCK": unix.RLIMIT_MEMLOCK,
		"RLIMIT_CORE":    unix.RLIMIT_CORE,
		"RLIMIT_STACK":   unix.RLIMIT_STACK,
	} {
		var lim unix.Rlimit
		if err := unix.Getrlimit(resource, &lim); err != nil {
			return Privileges{}, fmt.Errorf("reading %s: %w", name, err)
		}
		p.HardLimits[name] = lim.Max
	}
	score, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return Privileges{}, fmt.Errorf("reading the OOM score: %w", err)
	}
	if p.OOMScoreAdj, err = strconv.Atoi(strings.TrimSpace(string(score))); err != nil {
		return Privileges{}, fmt.Errorf("reading the OOM score: %w", err)
	}
	return p, nil
}
