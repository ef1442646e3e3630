// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/stockade-dev/stockade/infra/home"
)

// killGrace is how long a cancelled child may take to close its pipes.
const killGrace = 5 * time.Second

// command is a child process of a build.
type command struct {
	Dir  string
	Env  []string // added to this process's environment
	Args []string // program first
	Lock *lock    // inherited, see lock
}

// run executes the command and returns its standard output. The error of a
// failed command carries the end of what it wrote to standard error.
func (c command) run(ctx context.Context) ([]byte, error) {
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = append(os.Environ(), c.Env...)
	var out, diag bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &diag
	if c.Lock != nil {
		cmd.ExtraFiles = []*os.File{c.Lock.f}
	}
	// A group of its own: compilers and package managers have children, and
	// cancelling has to reach them all.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = killGrace
	err := cmd.Run()
	switch {
	case err == nil:
		return out.Bytes(), nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	said := diag.String()
	if strings.TrimSpace(said) == "" {
		said = out.String()
	}
	return nil, &commandError{program: c.Args[0], output: tail(said, 30), err: err}
}

// commandError is a child's failure with the last lines it wrote.
type commandError struct {
	program string
	output  string
	err     error
}

func (e *commandError) Error() string {
	if e.output == "" {
		return fmt.Sprintf("%s: %v", e.program, e.err)
	}
	return fmt.Sprintf("%s: %v:\n%s", e.program, e.err, e.output)
}

func (e *commandError) Unwrap() error { return e.err }

// tail returns the last n non-empty lines of s.
func tail(s string, n int) string {
	var kept []string
	for line := range strings.SplitSeq(s, "\n") {
		if line = strings.TrimRight(line, " \r\t"); line != "" {
			kept = append(kept, line)
		}
	}
	if len(kept) > n {
		kept = kept[len(kept)-n:]
	}
	return strings.Join(kept, "\n")
}

// networkSymptoms are what the go command, apt and debootstrap write when
// there is no way to their servers.
var networkSymptoms = []string{
	"no such host", "network is unreachable", "connection refused", "i/o timeout",
	"TLS handshake timeout", "proxyconnect", "Temporary failure resolving",
	"Could not resolve", "Could not connect", "Failed getting release file", "Cannot initiate the connection",
}

// explain adds to a failed command's error what the user can do about it,
// where the cause can be told from the output.
func explain(err error, needs string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if strings.Contains(text, "no space left on device") || strings.Contains(text, "No space left on device") {
		return fmt.Errorf("the disk is full; make room, or set %s, GOCACHE and GOMODCACHE to a larger disk: %w", home.Env, err)
	}
	for _, s := range networkSymptoms {
		if strings.Contains(text, s) {
			return fmt.Errorf("the first build needs the network (%s); connect, or set a proxy, and run again: what is done already is kept: %w", needs, err)
		}
	}
	if strings.Contains(text, "signal: killed") {
		return fmt.Errorf("a compiler was killed, most likely for lack of memory; close other programs and run again: %w", err)
	}
	return err
}

// need fails when a host program is missing, and says what to install.
func need(program, pkg string) error {
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("looking for %s: not installed; install it with: apt-get install %s", program, pkg)
	}
	return nil
}
