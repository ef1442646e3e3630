// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// CLI is the stockade command. Package fake has one without a cluster.
type CLI interface {
	// Run runs the command in a home ("" for its default) until it ends, and
	// returns what it wrote to stdout. Each line of its stderr is passed on as it
	// comes. The end of ctx interrupts the command, as Ctrl-C would, and Run
	// waits until it has cleaned up.
	//
	// Errors: an [ExitError] if the command ran and failed; any other means that
	// it did not run.
	Run(ctx context.Context, home string, line func(string), args ...string) ([]byte, error)
}

// ExitError is how the command failed.
type ExitError struct {
	// Code is the exit code, -1 for a command that a signal ended.
	Code int
	// Said are the last lines of its stderr.
	Said string
}

func (e *ExitError) Error() string {
	if e.Said == "" {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return fmt.Sprintf("exit code %d:\n%s", e.Code, e.Said)
}

// The bounds of a child process.
const (
	// cleanUp is how long an interrupted command may take: removing nodes and
	// the engine takes most of a minute on two busy cores.
	cleanUp = 3 * time.Minute
	// drain is how long its pipes may stay open after its end: a daemon that it
	// started could hold them for ever.
	drain = 2 * time.Second
	// maxOutput bounds its stdout, in bytes. A place takes some 10 kB.
	maxOutput = 1 << 20
	// maxLine bounds a line of its stderr, in bytes.
	maxLine = 2000
	// lastLines of its stderr are part of an error.
	lastLines = 12
)

// Command is the real [CLI].
type Command struct {
	// Configured is the path from the provider's configuration, if any.
	Configured string
	// Grace replaces cleanUp where it is set.
	Grace time.Duration
}

// PathEnv names the variable that says where the stockade command is.
const PathEnv = "STOCKADE_CLI"

// path finds the command: where it is configured, else beside this program, as
// `make` builds them, else on the PATH.
func (c Command) path() (string, error) {
	for _, path := range []string{c.Configured, os.Getenv(PathEnv)} {
		if path == "" {
			continue
		}
		path, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("finding the stockade command (stockade:cli, %s): %w; `make build` makes bin/stockade", PathEnv, err)
		}
		return path, nil
	}
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), "stockade")); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("stockade")
	if err != nil {
		return "", fmt.Errorf("finding the stockade command: it is not beside this plugin and not on the PATH; run `make build`, or say where it is: pulumi config set stockade:cli PATH, or %s", PathEnv)
	}
	return path, nil
}

// Run implements [CLI].
func (c Command) Run(ctx context.Context, home string, line func(string), args ...string) ([]byte, error) {
	path, err := c.path()
	if err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("starting %s: %w", path, err)
	}
	// Ending it is done below: the end of a context would kill at once.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, args...)
	// A resource that names no home means the command's default, in which its
	// cluster was made. STOCKADE_HOME of the present shell must not replace that:
	// `down` would remove whatever stands there.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, homeEnv+"=") })
	if home != "" {
		cmd.Env = append(cmd.Env, homeEnv+"="+home)
	}
	out := &limited{}
	diag := &lines{emit: line}
	cmd.Stdout, cmd.Stderr = out, diag
	// A group of its own: the engine ends this one's after a few seconds, and
	// the command needs longer than that.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = drain
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", path, err)
	}
	err = c.wait(ctx, cmd)
	diag.flush()

	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed):
		return out.b.Bytes(), &ExitError{Code: failed.ExitCode(), Said: diag.tail()}
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return nil, fmt.Errorf("running %s: %w", path, err)
	case out.over:
		return nil, fmt.Errorf("running %s %s: it wrote more than %d bytes", path, strings.Join(args, " "), maxOutput)
	}
	return out.b.Bytes(), nil
}

// wait waits for the command, and interrupts it when ctx ends.
func (c Command) wait(ctx context.Context, cmd *exec.Cmd) error {
	grace := c.Grace
	if grace == 0 {
		grace = cleanUp
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	// Only the command itself: its children are its own to end, in its order.
	_ = cmd.Process.Signal(os.Interrupt) // it may have ended just now
	select {
	case err := <-done:
		return err
	case <-time.After(grace):
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // as above
	return <-done
}

// limited keeps the first maxOutput bytes. It takes the rest, for a command
// whose pipe breaks would die in the middle of its work.
type limited struct {
	b    bytes.Buffer
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	room := maxOutput - l.b.Len()
	if len(p) > room {
		l.over = true
		l.b.Write(p[:room])
	} else {
		l.b.Write(p)
	}
	return len(p), nil
}

// lines passes on what is written to it line by line.
type lines struct {
	emit func(string)
	part []byte
	last []string
}

func (l *lines) Write(p []byte) (int, error) {
	for _, b := range p {
		switch {
		case b == '\n' || b == '\r':
			l.flush()
		case len(l.part) < maxLine:
			l.part = append(l.part, b)
		}
	}
	return len(p), nil
}

// flush ends the line. What is not fit to print is left out: the lines end up on
// a terminal, and they may quote a sandbox.
func (l *lines) flush() {
	text := strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) && r != unicode.ReplacementChar {
			return r
		}
		return -1
	}, strings.ToValidUTF8(string(l.part), ""))
	l.part = l.part[:0]
	if strings.TrimSpace(text) == "" {
		return
	}
	if len(l.last) == lastLines {
		l.last = slices.Delete(l.last, 0, 1)
	}
	l.last = append(l.last, text)
	if l.emit != nil {
		l.emit(text)
	}
}

func (l *lines) tail() string { return strings.Join(l.last, "\n") }
