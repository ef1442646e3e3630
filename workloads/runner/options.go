// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/stockade-dev/stockade/workloads/runner/wire"
)

// The go command's folders in the scratch.
const (
	buildCache = "go-build"
	goPath     = "go"
)

// Timeouts bound everything that a runner waits for.
type Timeouts struct {
	Build time.Duration // the go command; default 90 s
	Run   time.Duration // a program that asks for no time of its own; default 30 s
	// Pipes is how long output may stay open after its program has ended:
	// a process that fled the group may hold it. Default 1 s.
	Pipes time.Duration
	// Sweep is how long ending all leftover processes may take; default 5 s.
	Sweep time.Duration
}

func (t Timeouts) filled() Timeouts {
	for _, f := range []struct {
		to *time.Duration
		or time.Duration
	}{{&t.Build, 90 * time.Second}, {&t.Run, 30 * time.Second}, {&t.Pipes, time.Second}, {&t.Sweep, 5 * time.Second}} {
		if *f.to == 0 {
			*f.to = f.or
		}
	}
	return t
}

// Options say where a runner works.
type Options struct {
	// App is where programs lie and run. It is emptied before every call.
	App string
	// Scratch is for the go command's caches and for what it builds. All but the
	// caches is removed before every call.
	Scratch string
	// Go is the go command; empty means the one on PATH.
	Go string
	// Cache is a build cache that is only read, with the standard library in
	// it; empty means none. Builds then find it compiled, and write elsewhere.
	Cache string
	// BuildCache replaces the cache below Scratch. It is for tests, which share
	// the developer's own.
	BuildCache string
	// ProgramEnv is what a program finds in its environment besides PATH, HOME,
	// TMPDIR and LANG. Nothing of the runner's own environment reaches it.
	ProgramEnv []string
	// MaxOutput is how much is kept of each output, in bytes; default
	// [wire.MaxOutput], which is also the most.
	MaxOutput int
	// Sweep ends, after every run, each process that descends from this one.
	// Only a program that starts nothing else may set it.
	Sweep    bool
	Timeouts Timeouts
	Log      *slog.Logger // nil is silent
}

func (o Options) filled() (Options, error) {
	if o.App == "" || o.Scratch == "" {
		return o, errors.New("setting up a runner: it needs a folder for programs and one for scratch")
	}
	for _, dir := range []*string{&o.App, &o.Scratch} {
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return o, fmt.Errorf("setting up a runner: %w", err)
		}
		*dir = abs
	}
	if o.App == o.Scratch {
		return o, errors.New("setting up a runner: programs and scratch need a folder each")
	}
	if o.Go == "" {
		o.Go = "go"
	}
	path, err := exec.LookPath(o.Go)
	if err != nil {
		return o, fmt.Errorf("setting up a runner: finding the go command: %w", err)
	}
	o.Go = path
	if o.MaxOutput <= 0 || o.MaxOutput > wire.MaxOutput {
		o.MaxOutput = wire.MaxOutput
	}
	if o.BuildCache == "" {
		o.BuildCache = filepath.Join(o.Scratch, buildCache)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Timeouts = o.Timeouts.filled()
	return o, nil
}

// goEnv is the whole environment of the go command. Modules come from nowhere
// unless the request says where.
func (o Options) goEnv() []string {
	return []string{
		"PATH=" + filepath.Dir(o.Go) + string(os.PathListSeparator) + systemPath,
		"HOME=" + o.Scratch, "TMPDIR=" + o.Scratch,
		"GOCACHE=" + o.BuildCache,
		"GOPATH=" + filepath.Join(o.Scratch, goPath),
		// No file of an earlier program may add to this.
		"GOENV=off", "GOWORK=off",
		// Snippets name what they import, not which version of it.
		"GOFLAGS=-mod=mod -buildvcs=false -modcacherw",
		"GOTOOLCHAIN=local", "GOTELEMETRY=off", "GOVCS=*:off",
		"CGO_ENABLED=0", "GOPROXY=off", "GOSUMDB=off",
	}
}

const systemPath = "/usr/local/bin:/usr/bin:/bin"

func (o Options) programEnv() []string {
	return append([]string{
		"PATH=" + systemPath, "HOME=" + o.Scratch, "TMPDIR=" + o.Scratch, "LANG=C.UTF-8",
	}, o.ProgramEnv...)
}
