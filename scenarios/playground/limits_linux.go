// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

var resources = []struct {
	name string
	id   int
}{
	{"processes", unix.RLIMIT_NPROC}, {"open files", unix.RLIMIT_NOFILE}, {"the size of a file", unix.RLIMIT_FSIZE},
	{"core files", unix.RLIMIT_CORE}, {"address space", unix.RLIMIT_AS},
}

func readLimits(pid int) []limit {
	out := make([]limit, 0, len(resources))
	for _, r := range resources {
		var l unix.Rlimit
		err := unix.Prlimit(pid, r.id, nil, &l)
		out = append(out, limit{r.name, l.Cur, l.Max, err})
	}
	return out
}

// raise asks for one more than the hard limit. The soft one stays as it is: in
// the unlikely case of success other attacks in this process go on undisturbed.
func raise(pid int, l limit) error {
	for _, r := range resources {
		if r.name == l.name {
			return unix.Prlimit(pid, r.id, &unix.Rlimit{Cur: l.soft, Max: l.hard + 1}, nil)
		}
	}
	return unix.EINVAL
}

// openMany opens files until the limit is met, and closes them.
func openMany() verdict.Step {
	var l unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &l); err != nil {
		return probe.Denied("open more files than the limit", err)
	}
	var open []*os.File
	defer func() {
		for _, f := range open {
			_ = f.Close() // it was only read
		}
	}()
	var err error
	for uint64(len(open)) <= min(l.Max, 4096) && err == nil {
		var f *os.File
		if f, err = os.Open("/dev/null"); err == nil {
			open = append(open, f)
		}
	}
	return judgeOpen(len(open), l.Max, err)
}

// moveSoft is the control: the number of processes, one less and back.
func moveSoft(context.Context, *probe.Env) []verdict.Step {
	const name = "move a soft limit"
	var l unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NPROC, nil, &l); err != nil {
		return []verdict.Step{probe.Denied(name, err)}
	}
	for _, soft := range []uint64{l.Max - 1, l.Max} {
		if err := syscall.Setrlimit(unix.RLIMIT_NPROC, &syscall.Rlimit{Cur: soft, Max: l.Max}); err != nil {
			return []verdict.Step{probe.Denied(name, err)}
		}
	}
	return []verdict.Step{probe.Reached(name, "from %d to %d and back", l.Max, l.Max-1)}
}
