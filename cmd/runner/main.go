// SPDX-License-Identifier: Apache-2.0

// Command runner builds and runs Go programs inside a sandbox. See package
// runner.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/stockade-dev/stockade/workloads/program"
	"github.com/stockade-dev/stockade/workloads/runner"
)

func main() {
	os.Exit(program.UntilSignal(func(ctx context.Context) int { return run(ctx, os.Args[1:], os.Stderr) }))
}

// run is main without the process around it: 0 served and stopped, 1 failed,
// 2 usage.
func run(ctx context.Context, args []string, stderr io.Writer) int {
	o := runner.Options{Log: slog.New(slog.NewJSONHandler(stderr, nil))}
	var listen, env string
	var fileSize uint64
	fs := flag.NewFlagSet("runner", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&listen, "listen", ":8888", "`address` to serve at")
	fs.StringVar(&o.App, "app", "/app", "`folder` in which programs run; emptied before every call except persist/")
	fs.StringVar(&o.Scratch, "scratch", "/tmp", "`folder` for caches and built programs; emptied before every call except the caches")
	fs.StringVar(&o.Go, "go", "go", "the go command's `path`")
	fs.StringVar(&o.Cache, "cache", "", "`folder` with a build cache that is only read")
	fs.StringVar(&env, "pass-env", "GCE_METADATA_HOST,GCE_METADATA_IP,GOOGLE_CLOUD_PROJECT",
		"`names` of variables that programs find in their environment, by comma")
	fs.BoolVar(&o.Sweep, "sweep", true, "end, after every run, all processes that it left behind")
	fs.Uint64Var(&fileSize, "max-file", 128<<20, "largest file that a program may write, in `bytes`")
	fs.DurationVar(&o.Timeouts.Build, "build-timeout", 90*time.Second, "longest build")
	fs.DurationVar(&o.Timeouts.Run, "run-timeout", 30*time.Second, "longest run of a program that asks for no time of its own")
	if program.Parse(fs, args) != nil {
		return program.Usage
	}
	for name := range strings.SplitSeq(env, ",") {
		if value, ok := os.LookupEnv(name); ok {
			o.ProgramEnv = append(o.ProgramEnv, name+"="+value)
		}
	}
	if err := serve(ctx, listen, fileSize, o); err != nil {
		_, _ = fmt.Fprintln(stderr, "runner:", err)
		return program.Failed
	}
	return program.Served
}

func serve(ctx context.Context, listen string, fileSize uint64, o runner.Options) error {
	if err := runner.Adopt(); err != nil {
		// Not every sandbox's kernel knows both; the sandbox is what contains.
		o.Log.Warn("not all orphans will be seen", "err", err)
	}
	// Inherited by all that is started. No core: it would fill the scratch.
	for what, limit := range map[int]uint64{unix.RLIMIT_FSIZE: fileSize, unix.RLIMIT_CORE: 0} {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return fmt.Errorf("setting a limit: %w", err)
		}
	}
	r, err := runner.New(o)
	if err != nil {
		return err
	}
	// A run may take as long as it is given, and then there is an answer.
	srv := &http.Server{Addr: listen, Handler: r, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return srv.Close() // whoever runs here is about to lose the sandbox
	})
	return g.Wait()
}
