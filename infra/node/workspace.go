// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/stockade-dev/stockade/infra/home"
)

// tempPrefix marks what a running build has not finished. Nothing reads such a
// name, and a build that holds the lock may remove all of them.
const tempPrefix = ".building-"

// tempDir makes a folder for unfinished work beside the final name, on the
// same file system, so that the rename at the end is atomic.
func tempDir(parent, name string) (string, error) {
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", fmt.Errorf("making %s: %w", parent, err)
	}
	dir, err := os.MkdirTemp(parent, tempPrefix+name+"-")
	if err != nil {
		return "", fmt.Errorf("making a folder for %s: %w", name, err)
	}
	return dir, os.Chmod(dir, 0o755)
}

// openly calls f with the usual umask, which its children inherit. On many a machine
// root's keeps files from everybody else, and images would be made by it: containerd
// makes an image's root folder with what the umask leaves, and nobody but root could
// start a program in a Pod. No key tells such an image from a sound one.
func openly(f func() error) error {
	mask := unix.Umask(0o022)
	defer unix.Umask(mask)
	return f()
}

// flush writes a file's content to the disk.
var flush = (*os.File).Sync

// publish moves finished work, a file or a folder of files, to its final name. A
// name that is there counts as finished for good, and a rename may outlive a crash
// of the machine that its content does not, hence the flush.
func publish(from, to string) error {
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path) //nolint:gosec // nobody else writes below our own folder
		if err != nil {
			return err
		}
		return errors.Join(flush(f), f.Close())
	})
	if err != nil {
		return fmt.Errorf("publishing %s: writing it to the disk: %w", filepath.Base(to), err)
	}
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("publishing %s: %w", filepath.Base(to), err)
	}
	return nil
}

// sweep removes what killed builds left in the given folders. Only the holder
// of the lock may call it.
func sweep(dirs ...string) error {
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("looking for the rest of a killed build: %w", err)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), tempPrefix) {
				continue
			}
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("removing the rest of a killed build: %w", err)
			}
		}
	}
	return nil
}

// exists reports whether a finished result is there.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// checkSpace fails when the file system that holds dir has less than need
// bytes free for us. It looks at the nearest folder that exists already.
func checkSpace(dir, what string, need int64) error {
	at := dir
	for !exists(at) && filepath.Dir(at) != at {
		at = filepath.Dir(at)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(at, &st); err != nil {
		return fmt.Errorf("measuring the free space of %s: %w", at, err)
	}
	return spaceError(dir, what, need, int64(st.Bavail)*st.Bsize) //nolint:gosec // no disk has 2^63 blocks
}

func spaceError(dir, what string, need, free int64) error {
	if free >= need {
		return nil
	}
	return fmt.Errorf("%s needs about %s in %s but only %s are free; make room, or set %s (or GOCACHE, GOMODCACHE) to a larger disk",
		what, size(need), dir, size(free), home.Env)
}

// size prints bytes for people.
func size(n int64) string {
	if n >= gib {
		return fmt.Sprintf("%.1f GiB", float64(n)/float64(gib))
	}
	return fmt.Sprintf("%d MiB", (n+mib-1)/mib)
}
