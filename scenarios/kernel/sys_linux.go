// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// uname returns the kernel's release and version.
func uname() (release, version string, err error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", "", err
	}
	return unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Version[:]), nil
}

// kernelLog reads the kernel's ring buffer without clearing it: action 3 of
// syslog(2), which takes no position and changes nothing.
func kernelLog() (string, error) {
	buf := make([]byte, 1<<20)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:max(n, 0)]), nil
}

// probeFD is a descriptor that nobody has: calls on it are refused before they
// do anything, and the refusal shows that the kernel has the call.
const probeFD = ^uintptr(0)

// raw makes one system call on arguments that are invalid, or that only ask.
func raw(nr uintptr, args ...uintptr) func() error {
	return func() error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, no := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); no != 0 {
			return no
		}
		return nil
	}
}

func nodeCalls() []call {
	return append([]call{
		{"bpf", "CVE-2021-3490", raw(unix.SYS_BPF, 0xffff, 0, 0)}, // no such command
		{"io_uring_setup", "CVE-2022-1043", raw(unix.SYS_IO_URING_SETUP, 0, 0)},
		{"userfaultfd", "it halts the kernel in the middle of a copy", raw(unix.SYS_USERFAULTFD, 0xffff)}, // no such flags
		{"perf_event_open", "CVE-2013-2094", raw(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, probeFD, 0)},
		// Neither the flags nor the count of segments is valid: a call with no
		// segments at all would unload the node's crash kernel.
		{"kexec_load", "a kernel of one's own", raw(unix.SYS_KEXEC_LOAD, 0, 0xffff, 0, 0xfff0)},
		{"init_module", "code in the kernel", raw(unix.SYS_INIT_MODULE, 0, 0, 0)},
		{"finit_module", "code in the kernel", raw(unix.SYS_FINIT_MODULE, probeFD, 0, 0)},
		{"add_key", "CVE-2016-0728", raw(unix.SYS_ADD_KEY, 0, 0, 0, 0, 0)},
		{"open_by_handle_at", "the Shocker escape", raw(unix.SYS_OPEN_BY_HANDLE_AT, probeFD, 0, 0)},
		{"fsopen", "CVE-2022-0185", raw(unix.SYS_FSOPEN, 0, 0xffff)}, // no such flags
		// These the default seccomp profile of containerd lets through. They are
		// what tells gVisor from a well-configured runc.
		{"vmsplice", "CVE-2008-0600", raw(unix.SYS_VMSPLICE, probeFD, 0, 0, 0)},
		{"remap_file_pages", "deprecated since Linux 3.16", raw(unix.SYS_REMAP_FILE_PAGES, 0, 0, 1, 0, 0)}, // prot must be 0
		{"name_to_handle_at", "file handles of the node", raw(unix.SYS_NAME_TO_HANDLE_AT, probeFD, 0, 0, 0, 0xffff)},
	}, archCalls()...)
}

func sockets() []socket {
	const ethPAll = 0x0300 // in network order
	return []socket{
		{"AF_PACKET", "CVE-2020-14386", open(unix.AF_PACKET, unix.SOCK_RAW, ethPAll)},
		{"AF_INET raw", "spoofed packets", open(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)},
		{"AF_VSOCK", "the hypervisor's own door", open(unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
		{"AF_ALG", "the kernel's cryptography", open(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)},
		{"AF_TIPC", "CVE-2021-43267", open(unix.AF_TIPC, unix.SOCK_RDM, 0)},
		{"AF_RDS", "CVE-2010-3904", open(unix.AF_RDS, unix.SOCK_SEQPACKET, 0)},
		{"AF_CAN", "CVE-2021-3609", open(unix.AF_CAN, unix.SOCK_RAW, 1)},
		{"AF_KEY", "CVE-2022-1353", open(unix.AF_KEY, unix.SOCK_RAW, 2)},
		{"AF_XDP", "packets past the stack", open(unix.AF_XDP, unix.SOCK_RAW, 0)},
		{"netlink XFRM", "CVE-2017-16939", open(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_XFRM)},
		{"netlink AUDIT", "the node's audit log", open(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT)},
		{"netlink CRYPTO", "CVE-2019-19062", open(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_CRYPTO)},
	}
}

func open(family, kind, proto int) func() error {
	return func() error {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, proto)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}
}

// peek opens a file for reading and reads a little of it.
func peek(path string) (string, error) {
	// Some devices block on read until something happens.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd) //nolint:errcheck // it was only read
	buf := make([]byte, 4096)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:max(n, 0)]), nil
}

// openOnly opens a file with no more than that, and closes it again.
func openOnly(path string, write bool) error {
	flags := unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY
	if write {
		flags |= unix.O_WRONLY
	}
	fd, err := unix.Open(path, flags, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// noNewPrivs tells whether execve can no longer grant anything.
func noNewPrivs() (bool, error) {
	v, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	return v == 1, err
}

// becomeRoot sets the user id of one thread to 0. The thread is not unlocked,
// so the runtime ends it and no other attack ever runs as root.
func becomeRoot() error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		_, _, no := unix.RawSyscall(unix.SYS_SETUID, 0, 0, 0)
		if no != 0 {
			done <- no
			return
		}
		done <- nil
	}()
	return <-done
}

// status returns a field of /proc/thread-self/status.
func status(field string) (string, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(v), nil
		}
	}
	return "", os.ErrNotExist
}
