// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

const (
	mib       = 1 << 20
	workspace = "/workspace"
	scratch   = "/tmp"
	// room is what the playground gives to each of the two, in bytes. What the
	// target declares is not used: one that declares more breaks the claim.
	room = 64 * mib
	// piece is the size of one file, in bytes: below the limit on a file's
	// size, which is another claim.
	piece = 8 * mib
)

// workspaceSize accepts ENOSPC alone: memory of a fixed size is full then. A
// folder on the node's disk would go on, until an eviction minutes later; one with
// a quota would not, so that the API server must say that both are memory.
func workspaceSize() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.workspace-size",
		Title: "Write more into a run's folders than they hold",
		About: "Writes up to 128 MiB into /workspace and into /tmp, which hold 64 MiB each; more than 10 % above that is a breach. " +
			"The control writes a quarter into both, in the same sandbox.",
		Claims: []string{"PG-05"}, Kind: suite.Guarantee, Severity: suite.Medium,
		Techniques: []string{"T1499"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/storage/volumes/#emptydir"},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			return []verdict.Step{overfill(ctx, workspace, env.Nonce), overfill(ctx, scratch, env.Nonce)}
		},
		Control: suite.ControlSpec{At: suite.Sandbox, Act: func(ctx context.Context, env *probe.Env) []verdict.Step {
			return []verdict.Step{fillSome(ctx, workspace, env.Nonce), fillSome(ctx, scratch, env.Nonce)}
		}, Why: "a quarter of what they hold can be written in the same sandbox, so it is the size that stops the rest"},
		Accept:    []verdict.Class{verdict.NoSpace},
		Witnesses: []suite.Witness{{Name: suite.APIServer, Read: demandMemory}},
		// Memory that others in the sandbox may be measuring.
		Exclusive: true,
		Timeout:   40 * time.Second,
		Mutants:   []string{"playground-workspace-disk", "playground-tmp-disk", "playground-workspace-larger", "playground-tmp-larger"},
	}
}

// demandMemory reads what the live Pod declares of the two folders. It is a pure
// function.
func demandMemory(r suite.Reading) verdict.Statement {
	s := verdict.Statement{Witness: suite.APIServer, Live: r.Pod.Declared, Agrees: true}
	var said []string
	for _, dir := range []string{workspace, scratch} {
		size, memory := r.Pod.InMemory[dir]
		s.Agrees = s.Agrees && memory && size > 0 && size <= room
		said = append(said, fmt.Sprintf("%s is in memory: %t, of %d bytes", dir, memory, size))
	}
	s.Breach, s.Detail = s.Live && !s.Agrees, strings.Join(said, "; ")
	return s
}

func overfill(ctx context.Context, dir, nonce string) verdict.Step {
	n, err := probe.Fill(ctx, dir, nonce, 2*room, piece)
	return judgeFill(dir, n, err)
}

// judgeFill is a pure function.
func judgeFill(dir string, n int64, err error) verdict.Step {
	name := fmt.Sprintf("write %d MiB into %s", 2*room/mib, dir)
	detail := fmt.Sprintf("%d bytes of %d were written", n, int64(room))
	switch {
	case n > room+room/10:
		return probe.Reached(name, "%s", detail)
	case err == nil:
		return probe.Failed(name, verdict.Unknown, "%s", detail)
	}
	return probe.Failed(name, probe.Classify(err), "%s: %v", detail, err)
}

func fillSome(ctx context.Context, dir, nonce string) verdict.Step {
	name := fmt.Sprintf("write %d MiB into %s", room/4/mib, dir)
	if n, err := probe.Fill(ctx, dir, nonce, room/4, piece); err != nil || n != room/4 {
		return probe.Failed(name, verdict.Unknown, "%d bytes were written: %v", n, err)
	}
	return probe.Reached(name, "they were written")
}

// workspaceProgram is honest work: a run compiles a program and starts it. What
// the environment answers instead (no permission on a noexec mount, a read-only
// one) breaks the claim.
func workspaceProgram() suite.Scenario {
	return suite.Scenario{
		ID:    "playground.workspace-program",
		Title: "Run a program from the workspace",
		About: "Writes a static program into /workspace and starts it there, as a compiler's output is started. Kubernetes cannot mount an emptyDir noexec, so that " +
			"the mutant which shows that a breach is noticed mounts it read-only. " +
			"The control does the same in a Pod without restrictions, in its own folder.",
		Claims: []string{"PG-05"}, Kind: suite.Function, Severity: suite.Medium,
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			step := runFrom(ctx, workspace, env.Nonce)
			step.Expect = verdict.MustWork
			return []verdict.Step{step}
		},
		Control: suite.ControlSpec{Act: func(ctx context.Context, env *probe.Env) []verdict.Step {
			return []verdict.Step{runFrom(ctx, scratch, env.Nonce)}
		}, Why: "the same program starts from a folder of a Pod without restrictions"},
		Timeout: 20 * time.Second,
		Mutants: []string{"playground-workspace-read-only"},
	}
}

// runFrom copies this very program into a folder and starts the copy, which
// says how it is to be used.
func runFrom(ctx context.Context, dir, nonce string) verdict.Step {
	name := "start a program in " + dir
	path := filepath.Join(dir, ".stockade-program-"+nonce)
	defer os.Remove(path) //nolint:errcheck // the sandbox is thrown away
	if err := install(path); err != nil {
		return notStarted(name, err)
	}
	out, err := exec.CommandContext(ctx, path).CombinedOutput()
	switch {
	case strings.Contains(string(out), "usage"):
		return probe.Reached(name, "it answered %.60q", out)
	case ctx.Err() != nil:
		// Slow is not broken.
		return probe.Failed(name, verdict.Unknown, "out of time")
	case err == nil:
		return probe.Failed(name, verdict.Unknown, "it said %.60q", out)
	}
	return notStarted(name, err)
}

// notStarted reads why a program did not start. That the run has no more
// processes or files is its other attacks' doing, of which many are made at a
// time, and says nothing of the folder. It is a pure function.
func notStarted(name string, err error) verdict.Step {
	step := probe.Denied(name, err)
	if step.Class == verdict.ResourceLimit {
		step.Class = verdict.Unknown
	}
	return step
}

func install(path string) (err error) {
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
