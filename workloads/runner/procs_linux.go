// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stockade-dev/stockade/infra/procstat"
)

// Adopt makes this process the parent of every orphan among its descendants,
// so that none gets out of sight, and unreadable to processes of its own user.
// It has no effect on the first process of a container beyond the latter.
func Adopt() error {
	return errors.Join(
		unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0),
		unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0),
	)
}

// group puts a command in a process group of its own, and ends the whole group
// when its context does.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return killGroup(cmd) }
}

func killGroup(cmd *exec.Cmd) error {
	err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// sweepEvery is the pause between two looks at what is left.
const sweepEvery = 2 * time.Millisecond

// sweep ends every process below this one and returns how many there were at
// first. Errors mean that some may still be there.
func sweep(ctx context.Context) (int, error) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for first := -1; ; {
		pids, err := descendants(os.Getpid())
		if err != nil {
			return max(first, 0), fmt.Errorf("ending what the program left: %w", err)
		}
		if first < 0 {
			first = len(pids)
		}
		if len(pids) == 0 {
			return first, nil
		}
		// The first process of a container can end all others at once, which
		// a program that forks without end does not outrun.
		if os.Getpid() == 1 {
			_ = syscall.Kill(-1, syscall.SIGKILL)
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone
		}
		bury()
		select {
		case <-ctx.Done():
			return first, fmt.Errorf("ending what the program left: %d processes are still there: %w", len(pids), context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// bury collects the dead children.
func bury() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}

// descendants lists the processes below one, dead ones that nobody has
// collected included.
func descendants(of int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := procstat.Read(pid)
		if err != nil {
			continue // it ended meanwhile
		}
		children[stat.Parent] = append(children[stat.Parent], pid)
	}
	var all []int
	for next := children[of]; len(next) > 0; {
		pid := next[0]
		next = append(slices.Clone(next[1:]), children[pid]...)
		all = append(all, pid)
	}
	return all, nil
}
