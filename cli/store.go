// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/stockade-dev/stockade/conformance/report"
	"github.com/stockade-dev/stockade/infra/atomicfile"
)

// Reports are kept under names that sort by time.
const reportTime = "20060102T150405Z"

func (a *App) reportsDir() string { return filepath.Join(a.runDir(), "reports") }

func (a *App) save(r *report.Report) (string, error) {
	path := filepath.Join(a.reportsDir(), fmt.Sprintf("%s-%s.json", r.Started.UTC().Format(reportTime), filepath.Base(r.ID)))
	if err := os.MkdirAll(a.reportsDir(), 0o700); err != nil {
		return "", fmt.Errorf("keeping the report (STOCKADE_HOME says where): %w", err)
	}
	return path, writeFile(path, r.JSON)
}

// load reads a report: a file, "-" for stdin, a run's id, or the newest one
// for an empty name.
func (a *App) load(name string) (*report.Report, error) {
	if name == "-" {
		return report.Read(a.Stdin)
	}
	path, err := a.locate(name)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, usage("opening the report: %w", err)
	}
	r, err := report.Read(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func (a *App) locate(name string) (string, error) {
	if name != "" {
		if _, err := os.Stat(name); err == nil {
			return name, nil
		}
	}
	kept, err := a.kept()
	if err != nil {
		return "", err
	}
	for _, path := range slices.Backward(kept) {
		if name == "" || strings.TrimSuffix(filepath.Base(path), ".json") == name || strings.HasSuffix(path, "-"+name+".json") {
			return path, nil
		}
	}
	if name == "" {
		return "", usage("there is no report yet: `stockade run` makes one")
	}
	return "", usage("there is no file and no kept report %q", name)
}

// kept lists the reports kept, oldest first.
func (a *App) kept() ([]string, error) {
	entries, err := os.ReadDir(a.reportsDir())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("looking for reports: %w", err)
	}
	var out []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".json") {
			out = append(out, filepath.Join(a.reportsDir(), e.Name()))
		}
	}
	slices.Sort(out)
	return out, nil
}

// writeFile writes a file as a whole or not at all: half a report could pass
// for a shorter one. What is there and no ordinary file (a pipe, /dev/stdout) is
// written to and stays: whoever runs this is root, and putting a file in the place of
// /dev/null breaks the machine.
func writeFile(path string, write func(io.Writer) error) error {
	if err := put(path, write); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

func put(path string, write func(io.Writer) error) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return atomicfile.WriteFunc(path, 0o644&^umask(), write)
	case info.Mode().IsRegular():
		// A link goes on leading to the file.
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
		return atomicfile.WriteFunc(path, info.Mode().Perm(), write)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// umask is what this process keeps from others in the files that it makes. Asking
// means setting it, for a moment to one that gives nothing away.
func umask() fs.FileMode {
	mask := unix.Umask(0o077)
	unix.Umask(mask)
	return fs.FileMode(mask) //nolint:gosec // nine bits
}

// writable tells whether [writeFile] will be able to, before an attack that takes
// minutes.
func writable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		dir := filepath.Dir(path)
		if _, err := os.Stat(dir); err != nil {
			return fmt.Errorf("%s: there is no folder %s: make it first", path, dir)
		}
		err = unix.Access(dir, unix.W_OK|unix.X_OK)
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a folder", path)
	case err == nil:
		err = unix.Access(path, unix.W_OK)
	}
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", path, err)
	}
	return nil
}
