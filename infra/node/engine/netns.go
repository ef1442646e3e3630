// SPDX-License-Identifier: Apache-2.0

//go:build linux

package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/stockade-dev/stockade/infra/atomicfile"
	"github.com/stockade-dev/stockade/infra/node/engine/seal"
)

// netnsDir is where iproute2 keeps named network namespaces (ip-netns(8)).
const netnsDir = "/run/netns"

// enteredMark marks a process that Enter made, so that a failed Enter cannot
// re-execute for ever. It proves nothing; Inside asks the kernel.
const enteredMark = "STOCKADE_ENTERED"

func (e *Engine) nsPath() string { return filepath.Join(netnsDir, e.opts.Name) }

// Seal makes the network namespace, with nothing in it but a loopback device
// that is up. It is idempotent.
//
// Errors: no root, no iproute2, a kernel without network namespaces, or a
// namespace of that name in which the engine of another home runs.
func (e *Engine) Seal(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("sealing the engine: root is needed to make a network namespace; run the command with sudo")
	}
	live, err := isNsfs(e.nsPath())
	if err != nil {
		return fmt.Errorf("sealing the engine: %w", err)
	}
	if live {
		other, err := e.other()
		if err != nil {
			return fmt.Errorf("sealing the engine: %w", err)
		}
		if other != "" {
			return fmt.Errorf("sealing the engine: the network namespace %s is the seal of another home, %s: use that one, or end it with `STOCKADE_HOME=%[2]s stockade down`",
				e.opts.Name, other)
		}
	}
	// Who finds the home later must find the namespace too.
	if err = os.MkdirAll(e.dir, 0o711); err == nil {
		err = atomicfile.Write(e.namePath(), []byte(e.opts.Name+"\n"), 0o644)
	}
	if err != nil {
		return fmt.Errorf("sealing the engine: %w", err)
	}
	if !live {
		// A plain file is what a reboot or an unmount by hand leaves.
		if err := os.Remove(e.nsPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("sealing the engine: removing a dead namespace: %w", err)
		}
		// The ip command rather than a mount of our own: it also makes the
		// folder a shared mount, without which containers would pin the
		// namespace after its removal.
		if err := run(ctx, "ip", "netns", "add", e.opts.Name); err != nil {
			return fmt.Errorf("sealing the engine: %w", err)
		}
	}
	err = e.within(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return fmt.Errorf("finding the loopback device: %w", err)
		}
		if err := netlink.LinkSetUp(lo); err != nil {
			return fmt.Errorf("raising the loopback device: %w", err)
		}
		return setSysctls()
	})
	if err != nil {
		return fmt.Errorf("sealing the engine: %w", err)
	}
	return nil
}

// sysctls of the sealed namespace. The range answers for every address of the
// world, which reverse path filtering would take for spoofing.
var sysctls = map[string]string{
	"net/ipv4/conf/all/rp_filter":     "0",
	"net/ipv4/conf/default/rp_filter": "0",
	"net/ipv4/ip_forward":             "1",
	"net/ipv6/conf/all/forwarding":    "1",
	// Bridges need no wait for duplicate addresses: we are the only ones here.
	"net/ipv6/conf/default/accept_dad": "0",
}

// setSysctls needs the calling thread to be in the namespace: /proc/sys/net
// shows that of the thread that opens the file.
func setSysctls() error {
	for name, value := range sysctls {
		path := filepath.Join("/proc/sys", name)
		err := os.WriteFile(path, []byte(value), 0o644)
		if errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(name, "net/ipv6/") {
			continue // a kernel without IPv6
		}
		if err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}

// within runs f on a thread inside the sealed namespace. The thread is not
// reused: it ends with the goroutine, so no other goroutine can land in the
// wrong network by accident. Child processes started in f are inside.
func (e *Engine) within(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlock
		result <- func() error {
			if err := e.setns(); err != nil {
				return err
			}
			return f()
		}()
	}()
	return <-result
}

// setns moves the calling thread, which must be locked.
func (e *Engine) setns() error {
	fd, err := unix.Open(e.nsPath(), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening the network namespace %s: %w", e.opts.Name, err)
	}
	defer unix.Close(fd) //nolint:errcheck // it was only to enter by
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering the network namespace %s: %w", e.opts.Name, err)
	}
	return nil
}

// Inside reports whether this process lives in the sealed namespace, by asking
// the kernel.
func (e *Engine) Inside() (bool, error) {
	want, err := seal.Inode(e.nsPath())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// The calling thread's, not /proc/self's, which is the main thread's: a
	// goroutine of [Engine.within] that ran there has left it in the seal for
	// good, and the process would take itself for one that lives inside.
	have, err := seal.Inode("/proc/thread-self/ns/net")
	if err != nil {
		return false, err
	}
	return want == have, nil
}

// Enter makes this process continue inside the sealed namespace: it executes
// its own program again there, with the same arguments, and does not return
// when that succeeds. Inside, it returns nil at once. Mounts and cgroups stay
// as they are, unlike with `ip netns exec`, which hides the cgroups.
func (e *Engine) Enter() error {
	inside, err := e.Inside()
	if err != nil {
		return fmt.Errorf("entering the seal: %w", err)
	}
	if inside {
		return nil
	}
	if os.Getenv(enteredMark) == e.opts.Name {
		return fmt.Errorf("entering the seal: the process was started inside %s and is not there any more; run `stockade down` and `stockade up`", e.opts.Name)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("entering the seal: finding this program: %w", err)
	}
	env := e.enteredEnv(os.Environ())

	// Executing from a thread that has moved ends all others and makes its
	// namespace that of the whole process.
	runtime.LockOSThread()
	if err := e.setns(); err != nil {
		return fmt.Errorf("entering the seal: %w", err)
	}
	if err := syscall.Exec(self, os.Args, env); err != nil {
		return fmt.Errorf("entering the seal: executing %s: %w", self, err)
	}
	return nil
}

// enteredEnv is the environment of a process that has entered. No proxy of the
// machine's can be reached from there, and client-go would ask one for the API server,
// whose address is none of those that go past a proxy by themselves: a cluster that is
// well looked broken, and was replaced.
func (e *Engine) enteredEnv(environ []string) []string {
	return append(daemonEnv(environ), enteredMark+"="+e.opts.Name)
}

// isNsfs reports whether path is a live namespace.
func isNsfs(path string) (bool, error) {
	const nsfsMagic = 0x6e736673 // linux/magic.h
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking at %s: %w", path, err)
	}
	return st.Type == nsfsMagic, nil
}

// run executes a program; its error carries what the program wrote.
func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("running %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
