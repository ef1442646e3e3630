// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/stockade-dev/stockade/conformance/report"
)

// locked calls f while this process is the only one that changes the
// place. The kernel gives the lock up when the process dies, however it
// does, so there is no stale lock.
func (a *App) locked(f func() error) (err error) {
	if err := os.MkdirAll(a.runDir(), 0o700); err != nil {
		return fmt.Errorf("making stockade's folder (STOCKADE_HOME says where): %w", err)
	}
	file, err := os.OpenFile(filepath.Join(a.runDir(), "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("opening the lock: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			who, _ := io.ReadAll(io.LimitReader(file, 20))
			return incomplete("another stockade (pid %s) is at work in %s: wait for it, or end it", report.Clean(strings.TrimSpace(string(who))), a.Home)
		}
		return fmt.Errorf("locking %s: %w", file.Name(), err)
	}
	// Only for the message above: the lock itself is the kernel's.
	if err := file.Truncate(0); err == nil {
		_, _ = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f()
}
