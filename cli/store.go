// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/conformance/report"
	"github.com/stockade-dev/stockade/infra/atomicfile"
)

// Reports are kept under names that sort by time.
const reportTime = "20060102T150405Z"

func (a *App) reportsDir() string { return filepath.Join(a.runDir(), "reports") }

func (a *App) save(r *report.Report) (string, error) {
	path := filepath.Join(a.reportsDir(), fmt.Sprintf("%s-%s.json", r.Started.UTC().Format(reportTime), filepath.Base(r.ID)))
	if err := os.MkdirAll(a.reportsDir(), 0o700); err != nil {
		return "", fmt.Errorf("keeping the report: %w", err)
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
// for a shorter one.
func writeFile(path string, write func(io.Writer) error) error {
	if err := atomicfile.WriteFunc(path, 0o644, write); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
