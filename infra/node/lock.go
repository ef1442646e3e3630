// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stockade-dev/stockade/infra/progress"
)

// lockPoll is how often a waiting build looks whether the other one is done.
const lockPoll = 500 * time.Millisecond

// lock keeps two builds out of the same home. The kernel releases it when the
// last process that holds the file is gone, so a killed build never blocks the
// next. Children inherit it on purpose: a debootstrap that outlives its killed
// parent still writes, and must have ended before its files are swept.
type lock struct{ f *os.File }

// acquire waits for the lock at path.
//
// Errors: the context's, or that the file cannot be made.
func acquire(ctx context.Context, path string, rep *progress.Reporter) (*lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("making the lock's folder: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the build lock: %w", err)
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for told := false; ; told = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
		}
		if !told {
			rep.Note("waiting for another build (process %s) in the same folder", holder(path))
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for the build of process %s: %w", holder(path), context.Cause(ctx)), f.Close())
		case <-tick.C:
		}
	}
	// For the message above only; the lock itself is the kernel's. A full disk must
	// not keep anybody from making room.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	return &lock{f}, nil
}

func (l *lock) release() error { return l.f.Close() }

func holder(path string) string {
	pid, err := os.ReadFile(path)
	if err != nil || len(pid) == 0 {
		return "unknown"
	}
	return strings.TrimSpace(string(pid))
}
