// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/workloads/runner/wire"
)

// wipe removes everything below the folder app except app/persist, which it
// makes if it is not there. What lies below was written by a hostile program:
// links are removed and never followed, since os.Root walks with openat, and
// folders that their owner may not enter are opened first. No process of the
// program may be left, or it could write while its files go.
func wipe(app string) error {
	root, err := os.OpenRoot(app)
	if err != nil {
		return fmt.Errorf("wiping: %w", err)
	}
	defer root.Close() //nolint:errcheck // nothing is written through a folder
	if err := empty(root, wire.Persist); err != nil {
		return err
	}
	if err := root.Mkdir(wire.Persist, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("wiping: %w", err)
	}
	return nil
}

// wipeScratch removes everything in the scratch folder but the go command's
// caches: what a program left there would fill it, or be found by the next.
func wipeScratch(o Options) error {
	root, err := os.OpenRoot(o.Scratch)
	if err != nil {
		return fmt.Errorf("wiping: %w", err)
	}
	defer root.Close() //nolint:errcheck // nothing is written through a folder
	keep := []string{buildCache, goPath}
	// The folder for programs may lie there. It has been wiped by itself.
	if in, err := filepath.Rel(o.Scratch, o.App); err == nil && filepath.IsLocal(in) {
		first, _, _ := strings.Cut(in, string(filepath.Separator))
		keep = append(keep, first)
	}
	return empty(root, keep...)
}

// empty removes everything in a folder but the folders of some names.
func empty(root *os.Root, keep ...string) error {
	names, err := list(root)
	if err != nil {
		return fmt.Errorf("wiping: %w", err)
	}
	for _, name := range names {
		if slices.Contains(keep, name) {
			// Only a folder is kept: a link of that name would show whatever it
			// points to as the session's own.
			if info, err := root.Lstat(name); err == nil && info.IsDir() {
				continue
			}
		}
		if err := removeAll(root, name); err != nil {
			return fmt.Errorf("wiping: %w", err)
		}
	}
	return nil
}

func list(root *os.Root) ([]string, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // it was only read
	return dir.Readdirnames(-1)
}

func removeAll(root *os.Root, name string) error {
	err := root.RemoveAll(name)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if err := unlock(root, name); err != nil {
		return err
	}
	return root.RemoveAll(name)
}

// unlock gives the owner the right to empty a folder and all those in it.
func unlock(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err != nil || !info.IsDir() {
		return err
	}
	if err := root.Chmod(name, 0o700); err != nil {
		return err
	}
	sub, err := root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer sub.Close() //nolint:errcheck // nothing is written through a folder
	names, err := list(sub)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := unlock(sub, n); err != nil {
			return err
		}
	}
	return nil
}

// write puts the files of a program below the folder app.
func write(app string, files []wire.File) error {
	root, err := os.OpenRoot(app)
	if err != nil {
		return fmt.Errorf("writing the program: %w", err)
	}
	defer root.Close() //nolint:errcheck // nothing is written through a folder
	for _, f := range files {
		if dir := parent(f.Path); dir != "" {
			if err := root.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("writing the program: %w", err)
			}
		}
		if err := root.WriteFile(f.Path, []byte(f.Content), 0o644); err != nil {
			return fmt.Errorf("writing the program: %w", err)
		}
	}
	return nil
}

func parent(p string) string {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] == '/' {
			return p[:i]
		}
	}
	return ""
}
