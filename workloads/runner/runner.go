// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stockade-dev/stockade/workloads/runner/wire"
)

var (
	// ErrBusy says that another program runs, or has run since the caller asked
	// whether one does.
	ErrBusy = errors.New("running a program: another one runs")
	// ErrTainted says that something of an earlier program may still be there, or
	// has left no room for another one.
	ErrTainted = errors.New("running a program: this sandbox could not be cleaned after an earlier one")
)

// Runner builds and runs programs. It is safe for concurrent use: what it does
// not do at once it refuses.
type Runner struct {
	o       Options
	tainted atomic.Bool

	mu   sync.Mutex
	busy bool
	turn string // has to come with the next request
}

// New returns a runner with an empty folder for programs.
func New(o Options) (*Runner, error) {
	o, err := o.filled()
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{o.App, o.Scratch, o.BuildCache} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("setting up a runner: %w", err)
		}
	}
	if o.Cache != "" {
		if err := seed(o.Cache, o.BuildCache); err != nil {
			return nil, err
		}
	}
	if err := wipe(o.App); err != nil {
		return nil, err
	}
	return &Runner{o: o, turn: rand.Text()}, nil
}

// next returns the turn with which a request may come now.
func (r *Runner) next() (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.busy:
		return "", ErrBusy
	case r.tainted.Load():
		return "", ErrTainted
	}
	return r.turn, nil
}

// begin takes the runner for one request. While it is taken nobody learns a turn,
// and the one that a program could have learnt is over when it ends: what it has
// sent, and whatever delays that, is refused.
func (r *Runner) begin(turn string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy || turn != r.turn {
		return ErrBusy
	}
	r.busy = true
	return nil
}

func (r *Runner) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy, r.turn = false, rand.Text()
}

// call builds and runs one program when the runner is taken. What the program does
// wrong is in the result; an error means that there is none: [ErrTainted], or a
// context that ended.
func (r *Runner) call(ctx context.Context, q wire.Request) (wire.Result, error) {
	if r.tainted.Load() {
		return wire.Result{}, ErrTainted
	}
	if err := wipe(r.o.App); err != nil {
		return wire.Result{}, r.taint(err)
	}
	if err := wipeScratch(r.o); err != nil {
		return wire.Result{}, r.taint(err)
	}
	// What cannot be written now will not be later: an earlier program has filled
	// what persists.
	if err := write(r.o.App, withModule(q.Files)); err != nil {
		return wire.Result{}, r.taint(err)
	}
	work, err := os.MkdirTemp(r.o.Scratch, "run-")
	if err != nil {
		return wire.Result{}, r.taint(err)
	}
	defer os.RemoveAll(work) //nolint:errcheck // the scratch goes with the sandbox

	res := wire.Result{Run: q.Run, ExitCode: -1}
	program := filepath.Join(work, "program")
	r.build(ctx, q, program, &res)
	if res.Build.OK {
		r.run(ctx, q, program, &res)
	} else if err := room(work); err != nil && ctx.Err() == nil {
		// An earlier program has filled the caches, which stay.
		return wire.Result{}, r.taint(err)
	}
	if err := r.sweep(ctx, &res); err != nil {
		return wire.Result{}, r.taint(err)
	}
	if err := ctx.Err(); err != nil {
		return wire.Result{}, fmt.Errorf("running a program: %w", context.Cause(ctx))
	}
	return res, nil
}

// enough is the room that the smallest build takes, in bytes.
const enough = 1 << 20

// room fails when a folder's disk is full.
func room(folder string) error {
	path := filepath.Join(folder, "room")
	err := os.WriteFile(path, make([]byte, enough), 0o600)
	return errors.Join(err, os.Remove(path))
}

func (r *Runner) taint(err error) error {
	r.tainted.Store(true)
	r.o.Log.Error("this sandbox takes no more programs", "err", err)
	return fmt.Errorf("%w: %w", ErrTainted, err)
}

// withModule adds a go.mod to a program that brings none.
func withModule(files []wire.File) []wire.File {
	if slices.ContainsFunc(files, func(f wire.File) bool { return f.Path == "go.mod" }) {
		return files
	}
	return append(slices.Clone(files), wire.File{Path: "go.mod", Content: "module snippet\n\ngo 1.26\n"})
}

var errTimeUp = errors.New("its time is up")

func (r *Runner) build(ctx context.Context, q wire.Request, program string, res *wire.Result) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.o.Timeouts.Build, errTimeUp)
	defer cancel()
	out := &output{max: r.o.MaxOutput}
	cmd := exec.CommandContext(ctx, r.o.Go, "build", "-o", program, ".")
	cmd.Dir = r.o.App
	cmd.Env = append(append(r.o.goEnv(), "PWD="+r.o.App), q.Env()...)
	cmd.Stdout, cmd.Stderr = out, out
	took, err := r.execute(cmd)
	res.Build.DurationMillis = took.Milliseconds()
	if err != nil && cmd.ProcessState == nil {
		_, _ = fmt.Fprintln(out, err)
	}
	res.Build.Output, res.Build.Truncated = out.text()
	res.Build.OK = err == nil
	if errors.Is(context.Cause(ctx), errTimeUp) {
		res.Violations = append(res.Violations, wire.BuildTime)
	}
}

func (r *Runner) run(ctx context.Context, q wire.Request, program string, res *wire.Result) {
	limit := r.o.Timeouts.Run
	if q.TimeoutMillis > 0 {
		limit = time.Duration(q.TimeoutMillis) * time.Millisecond
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeUp)
	defer cancel()
	stdout, stderr := &output{max: r.o.MaxOutput}, &output{max: r.o.MaxOutput}
	cmd := exec.CommandContext(ctx, program, q.Args...)
	cmd.Dir = r.o.App
	cmd.Env = append(r.o.programEnv(), "PWD="+r.o.App)
	cmd.Stdin = strings.NewReader(q.Stdin)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	took, err := r.execute(cmd)
	res.Started = cmd.Process != nil
	if err != nil && !res.Started {
		_, _ = fmt.Fprintln(stderr, err)
	}
	res.DurationMillis = took.Milliseconds()
	res.Stdout, res.StdoutTruncated = stdout.text()
	res.Stderr, res.StderrTruncated = stderr.text()
	if cmd.ProcessState != nil {
		res.ExitCode = cmd.ProcessState.ExitCode()
		if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			res.Signal = ws.Signal().String()
		}
	}
	timeUp := errors.Is(context.Cause(ctx), errTimeUp)
	for _, v := range []struct {
		met  bool
		what wire.Violation
	}{
		{timeUp, wire.RunTime},
		{res.StdoutTruncated || res.StderrTruncated, wire.Output},
		{res.Signal == syscall.SIGXFSZ.String(), wire.FileSize},
		// Not by us: that leaves the kernel, which does it for memory.
		{res.Signal == syscall.SIGKILL.String() && ctx.Err() == nil, wire.Killed},
	} {
		if v.met {
			res.Violations = append(res.Violations, v.what)
		}
	}
}

// execute runs a command and then ends its process group, whatever became of
// the command itself. It returns how long the command took.
func (r *Runner) execute(cmd *exec.Cmd) (time.Duration, error) {
	group(cmd)
	cmd.WaitDelay = r.o.Timeouts.Pipes
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	if cmd.Process != nil {
		_ = killGroup(cmd) // nobody may be left in it
	}
	// The program ended well; that something it started kept a pipe open is
	// what the sweep is for.
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	return took, err
}

// sweep ends what fled the process group.
func (r *Runner) sweep(ctx context.Context, res *wire.Result) error {
	if !r.o.Sweep {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.o.Timeouts.Sweep)
	defer cancel()
	n, err := sweep(ctx)
	if n > 0 {
		res.Violations = append(res.Violations, wire.Leftover)
	}
	return err
}

// ServeHTTP takes requests at [wire.RunPath], each with the turn that was asked for
// there. Its errors are JSON, {"error": …}: 400 for a request that is none, 409 when
// busy or when it is another's turn, 410 when tainted.
func (r *Runner) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch {
	case req.URL.Path == wire.HealthPath && req.Method == http.MethodGet:
		if r.tainted.Load() {
			reply(w, http.StatusServiceUnavailable, errorBody(ErrTainted))
			return
		}
		reply(w, http.StatusOK, struct{}{})
	case req.URL.Path == wire.RunPath && req.Method == http.MethodGet:
		turn, err := r.next()
		if err != nil {
			r.refuse(w, "", err)
			return
		}
		reply(w, http.StatusOK, wire.Turn{Turn: turn})
	case req.URL.Path == wire.RunPath && req.Method == http.MethodPost:
		r.serveRun(w, req)
	default:
		reply(w, http.StatusNotFound, errorBody(errors.New("there is nothing here")))
	}
}

func (r *Runner) serveRun(w http.ResponseWriter, req *http.Request) {
	q, res, err := r.take(w, req)
	if err != nil {
		r.refuse(w, q.Run, err)
		return
	}
	r.o.Log.Info("ran", "run", q.Run, "built", res.Build.OK, "exit", res.ExitCode, "millis", res.DurationMillis, "violations", res.Violations)
	reply(w, http.StatusOK, res)
}

// take takes the runner before the request is read: how long that takes is its
// sender's choice. It is free again before the answer is.
func (r *Runner) take(w http.ResponseWriter, req *http.Request) (wire.Request, wire.Result, error) {
	if err := r.begin(req.URL.Query().Get(wire.TurnParam)); err != nil {
		return wire.Request{}, wire.Result{}, err
	}
	defer r.end()
	q, err := wire.ReadRequest(http.MaxBytesReader(w, req.Body, wire.MaxRequest+1))
	if err != nil {
		return q, wire.Result{}, noRequest{err}
	}
	res, err := r.call(req.Context(), q)
	return q, res, err
}

// noRequest is what is wrong with something that is none.
type noRequest struct{ error }

func (r *Runner) refuse(w http.ResponseWriter, run string, err error) {
	var none noRequest
	switch {
	case errors.As(err, &none):
		reply(w, http.StatusBadRequest, errorBody(err))
	case errors.Is(err, ErrBusy):
		reply(w, http.StatusConflict, errorBody(err))
	case errors.Is(err, ErrTainted):
		// No 503, which would ask the caller to try again later.
		reply(w, http.StatusGone, errorBody(ErrTainted))
	default:
		r.o.Log.Warn("no result", "run", run, "err", err)
		reply(w, http.StatusInternalServerError, errorBody(err))
	}
}

func errorBody(err error) any { return map[string]string{"error": wire.Clean(err.Error())} }

func reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the caller is gone: nobody to tell
}
