// SPDX-License-Identifier: Apache-2.0

// Program containerd-shim-runsc-v1 is gVisor's containerd shim, usable where
// the kernel does not let the node protect processes from the OOM killer.
//
// Upstream's shim gives up when it may not set its own oom_score_adj to -999,
// which takes CAP_SYS_RESOURCE. Nested nodes (a container in a container, a
// sandboxed CI machine) often lack that capability for good. With the
// capability this program is upstream's shim and nothing else; without it, it
// starts the shim the same way but lets exactly that one step fail.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/containerd/containerd/namespaces"
	"github.com/containerd/containerd/runtime/v2/shim"
	"github.com/containerd/containerd/sys"
	"golang.org/x/sys/unix"

	runsc "gvisor.dev/gvisor/pkg/shim/v1"
)

// shimName is the runtime's name in containerd's configuration.
const shimName = "io.containerd.runsc.v1"

// oomScore is the score upstream asks for: the last to be killed, yet killable.
const oomScore = -999

func main() { shim.Run(shimName, newShim) }

func newShim(ctx context.Context, id string, publisher shim.Publisher, shutdown func()) (shim.Shim, error) {
	upstream, err := runsc.New(ctx, id, publisher, shutdown)
	if err != nil || hasSysResource() {
		return upstream, err
	}
	var debug bool
	if opts, ok := ctx.Value(shim.OptsKey{}).(shim.Opts); ok {
		debug = opts.Debug
	}
	return &unprivileged{Shim: upstream, debug: debug}, nil
}

// hasSysResource reports whether this process may lower oom_score_adj. When
// that cannot be told, upstream's way is the one to try.
func hasSysResource() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return true
	}
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// unprivileged is upstream's shim with a StartShim that tolerates the lack of
// CAP_SYS_RESOURCE. Calling upstream's StartShim and forgiving its error is no
// way out: by then it has killed the process it started.
type unprivileged struct {
	shim.Shim
	debug bool
}

// StartShim starts the long-lived shim process for a container and returns the
// address of its socket, which containerd then talks to.
func (u *unprivileged) StartShim(ctx context.Context, opts shim.StartOpts) (string, error) {
	address, err := shim.SocketAddress(ctx, opts.Address, opts.ID)
	if err != nil {
		return "", fmt.Errorf("choosing the shim's socket: %w", err)
	}
	socket, err := shim.NewSocket(address)
	if shim.SocketEaddrinuse(err) {
		if shim.CanConnect(address) {
			// The shim of this container runs already.
			return address, shim.WriteAddress("address", address)
		}
		if err := shim.RemoveSocket(address); err != nil {
			return "", fmt.Errorf("removing a dead shim's socket: %w", err)
		}
		socket, err = shim.NewSocket(address)
	}
	if err != nil {
		return "", fmt.Errorf("listening on the shim's socket: %w", err)
	}
	if err := u.launch(ctx, opts, address, socket.File); err != nil {
		return "", errors.Join(err, socket.Close(), shim.RemoveSocket(address))
	}
	return address, nil
}

func (u *unprivileged) launch(ctx context.Context, opts shim.StartOpts, address string, listener func() (*os.File, error)) (err error) {
	cmd, err := u.command(ctx, opts)
	if err != nil {
		return err
	}
	f, err := listener()
	if err != nil {
		return fmt.Errorf("passing on the shim's socket: %w", err)
	}
	defer f.Close()
	cmd.ExtraFiles = []*os.File{f}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the shim: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, cmd.Process.Kill())
			_ = cmd.Wait() // reports only the kill
		}
	}()

	if err := shim.WritePidFile("shim.pid", cmd.Process.Pid); err != nil {
		return fmt.Errorf("writing the shim's process id: %w", err)
	}
	if err := shim.WriteAddress("address", address); err != nil {
		return fmt.Errorf("writing the shim's address: %w", err)
	}
	// Not a word about the tolerated error: containerd takes all that is
	// printed here, on either stream, for the shim's address.
	if err := sys.SetOOMScore(cmd.Process.Pid, oomScore); err != nil && !errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("setting the shim's OOM score: %w", err)
	}
	return nil
}

// command is the program containerd expects behind the socket: this one again,
// without an action.
func (u *unprivileged) command(ctx context.Context, opts shim.StartOpts) (*exec.Cmd, error) {
	ns, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the containerd namespace: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the shim's executable: %w", err)
	}
	args := []string{"-namespace", ns, "-address", opts.Address, "-publish-binary", opts.ContainerdBinary}
	if u.debug {
		args = append(args, "-debug")
	}
	cmd := exec.Command(self, args...)
	// containerd runs shims with few threads: there is one for every Pod.
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	// A group of its own, so that a signal meant for containerd spares it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, nil
}
