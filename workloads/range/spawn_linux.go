// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stockade-dev/stockade/infra/procstat"
)

// SpawnConfig says how to run a range as a background process.
type SpawnConfig struct {
	// NetNS is the path of the network namespace to put it into.
	NetNS string
	// Argv is the command line: a program that calls [Serve] and prints
	// [Ready] as its first line, with its arguments.
	Argv []string
	// Env is the environment; nil means this process's.
	Env []string
	// Stderr is the file to which the process's messages are appended.
	Stderr string
}

// Spawn starts the process inside of the namespace, in a session of its own,
// and waits until it serves. It outlives this process; see [Terminate]. When
// ctx ends first the process is killed.
func Spawn(ctx context.Context, sc SpawnConfig) (Ready, error) {
	if len(sc.Argv) == 0 || sc.NetNS == "" {
		return Ready{}, errors.New("starting the range: a command line and a namespace are needed")
	}
	if err := os.MkdirAll(filepath.Dir(sc.Stderr), 0o700); err != nil {
		return Ready{}, fmt.Errorf("starting the range: %w", err)
	}
	stderr, err := os.OpenFile(sc.Stderr, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return Ready{}, fmt.Errorf("starting the range: %w", err)
	}
	defer stderr.Close() //nolint:errcheck // the child has its own copy
	from, err := stderr.Seek(0, io.SeekEnd)
	if err != nil {
		return Ready{}, fmt.Errorf("starting the range: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return Ready{}, fmt.Errorf("starting the range: %w", err)
	}
	defer r.Close()                                 //nolint:errcheck // read-only
	cmd := exec.Command(sc.Argv[0], sc.Argv[1:]...) //nolint:noctx // it must outlive ctx
	cmd.Env, cmd.Stdout, cmd.Stderr = sc.Env, w, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = startIn(sc.NetNS, cmd)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return Ready{}, fmt.Errorf("starting the range: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	line, rerr := bufio.NewReader(io.LimitReader(r, 64<<10)).ReadBytes('\n')
	var ready Ready
	if rerr == nil {
		rerr = json.Unmarshal(line, &ready)
	}
	if rerr == nil && ready.Ready && stop() {
		// Not waited for: it is meant to outlive us.
		return ready, cmd.Process.Release()
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // its status says less than what it wrote
	if cerr := context.Cause(ctx); cerr != nil {
		return Ready{}, fmt.Errorf("starting the range: %w", cerr)
	}
	return Ready{}, fmt.Errorf("starting the range: it ended before it served: %s (all of it is in %s)", tail(sc.Stderr, from), sc.Stderr)
}

// startIn starts cmd from a thread that is in the namespace. Only the network
// namespace is entered: mounts, and with them /sys/fs/cgroup, stay.
func startIn(path string, cmd *exec.Cmd) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("opening this network namespace: %w", err)
	}
	defer home.Close() //nolint:errcheck // read-only
	ns, err := os.Open(path)
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("opening the network namespace: %w (`stockade up` makes it)", err)
	}
	defer ns.Close() //nolint:errcheck // read-only
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("entering %s: %w (run as root)", path, err)
	}
	serr := cmd.Start()
	if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
		// The thread stays locked and dies with its goroutine: no other may
		// ever run in the wrong namespace.
		return errors.Join(serr, fmt.Errorf("leaving %s: %w", path, err))
	}
	runtime.UnlockOSThread()
	return serr
}

// tail returns the end of what a process wrote, for an error message.
func tail(path string, from int64) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close() //nolint:errcheck // read-only
	b, err := io.ReadAll(io.NewSectionReader(f, from, 1<<20))
	if err != nil {
		return err.Error()
	}
	b = bytes.TrimSpace(b)
	return string(b[max(0, len(b)-2048):])
}

// stopGrace is how long a range may take to end by itself: somewhat longer than it
// gives to its API's open requests.
const stopGrace = 2 * stopTime

// Terminate ends the range of a pid file and waits until it is gone. One that does
// not end is killed; its rules are the next one's to replace. That none runs is no
// error. When ctx ends first the range is still running; one that has ended before
// asks nobody to end.
func Terminate(ctx context.Context, pidFile string) error {
	return terminate(ctx, pidFile, stopGrace)
}

func terminate(ctx context.Context, pidFile string, grace time.Duration) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("stopping the range: %w", err)
	}
	f, err := os.OpenFile(pidFile, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stopping the range: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing is written
	var note pidNote
	b, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return fmt.Errorf("stopping the range: %w", err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	patience := time.NewTimer(grace)
	defer patience.Stop()
	for told := false; ; {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return nil // whoever held it is gone
		}
		if !told {
			if err := json.Unmarshal(b, &note); err != nil || note.PID <= 1 {
				return fmt.Errorf("stopping the range: the pid file %s cannot be read", pidFile)
			}
			if err := signalTo(note, unix.SIGTERM); err != nil {
				return fmt.Errorf("stopping the range: %w", err)
			}
			told = true
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stopping the range, process %d, which does not end: %w", note.PID, context.Cause(ctx))
		case <-patience.C:
			if err := signalTo(note, unix.SIGKILL); err != nil {
				return fmt.Errorf("stopping the range: %w", err)
			}
		case <-tick.C:
		}
	}
}

// signalTo sends a signal to exactly the process of the note. The handle is
// taken first, so that the number cannot change hands in between.
func signalTo(note pidNote, sig syscall.Signal) error {
	p, err := os.FindProcess(note.PID)
	if err != nil {
		return err
	}
	defer p.Release() //nolint:errcheck // a handle only
	if stat, err := procstat.Read(note.PID); err != nil || stat.Start != note.Start {
		return nil // gone, and somebody else may have its number
	}
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
