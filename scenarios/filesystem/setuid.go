// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// setuidProgram accepts EPERM (no capability), EROFS (the image's file cannot be
// changed), that the image has no set-user-id program, and Confined: the program
// ran, and its effective user stayed the caller's.
//
// Two controls bring about the last one, the container's no_new_privs and gVisor,
// which ignores set-user-id bits by default; a mutant without one of them would
// still hold. The mutant is for the other half: a sandbox that runs as root can
// leave root's own set-user-id program on the node's disk without any capability.
//
// Device nodes are not tried. To make one takes root and CAP_MKNOD, two controls,
// and gVisor refuses it on a mounted volume to everybody: no mutant could show that
// such a step is able to fail.
func setuidProgram() suite.Scenario {
	return suite.Scenario{
		ID:    "filesystem.setuid-program",
		Title: "Become root through a file",
		About: "Makes a program in /tmp, gives it to root and sets its set-user-id bit; then starts a set-user-id program of the image " +
			"to see as whom it runs. The aim is reached when the file is root's and has the bit, whoever the sandbox runs as: on the " +
			"node's disk it is a door for any user of the node. The control gives a program away in the privileged Pod.",
		Claims:     []string{"AS-10"},
		Kind:       suite.Guarantee,
		Techniques: []string{"T1548.001", "T1611"},
		Severity:   suite.High,
		Attack:     attackSetuid,
		Control: suite.ControlSpec{Act: giveAway,
			Why: "A privileged Pod can give to root the program that the sandbox may not."},
		Accept:    []verdict.Class{verdict.Permission, verdict.ReadOnly, verdict.Absent, verdict.Confined},
		Witnesses: []suite.Witness{{Name: suite.APIServer, Read: unprivileged}},
		Timeout:   15 * time.Second,
		Mutants:   []string{"run-as-root"},
	}
}

func attackSetuid(ctx context.Context, env *probe.Env) []verdict.Step {
	return []verdict.Step{giveToRoot(scratch, env.Nonce, os.Geteuid()), runSetuid(ctx)}
}

// giveAway begins with a program of somebody else's, so that what the control
// shows is the giving.
func giveAway(_ context.Context, env *probe.Env) []verdict.Step {
	const somebody = 1000
	return []verdict.Step{giveToRoot(scratch, env.Nonce, somebody)}
}

// giveToRoot makes a program of owner's and tries to make it root's, with the
// set-user-id bit. What counts is what the file is in the end, not who asked.
func giveToRoot(dir, nonce string, owner int) verdict.Step {
	step := verdict.Step{Name: "make a set-user-id program of root's"}
	name := filepath.Join(dir, ".stockade-suid-"+nonce)
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"), 0o700); err != nil {
		step.Class, step.Detail = verdict.Unknown, err.Error()
		return step
	}
	defer os.Remove(name) //nolint:errcheck // the sandbox is thrown away
	if err := os.Chown(name, owner, -1); err != nil {
		step.Class, step.Detail = verdict.Unknown, err.Error()
		return step
	}
	// A change of owner takes the bit away, so it comes first. The owner alone
	// may set the bit, so that both must have worked.
	if err := errors.Join(os.Chown(name, 0, -1), os.Chmod(name, 0o755|os.ModeSetuid)); err != nil {
		step.Class, step.Detail = probe.Classify(err), err.Error()
		return step
	}
	info, err := os.Stat(name)
	if err != nil {
		step.Class, step.Detail = verdict.Unknown, err.Error()
		return step
	}
	return setuidOf(step.Name, info)
}

// setuidOf judges the file that was made.
func setuidOf(name string, info os.FileInfo) verdict.Step {
	owner := -1
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		owner = int(st.Uid)
	}
	if owner == 0 && info.Mode()&os.ModeSetuid != 0 {
		return probe.Reached(name, "it is root's: %s", info.Mode())
	}
	return probe.Failed(name, verdict.Unknown, "nothing was refused, and yet it is %d's: %s", owner, info.Mode())
}

// runSetuid starts set-user-id programs that wait for input, and reads out of
// /proc as whom they wait.
func runSetuid(ctx context.Context) verdict.Step {
	step := verdict.Step{Name: "run a set-user-id program", Class: verdict.Absent, Detail: "the image has none"}
	for _, name := range setuidPrograms("/") {
		euid, err := euidOf(ctx, name)
		if err != nil {
			step.Class, step.Detail = verdict.Unknown, name+": "+err.Error()
			continue
		}
		if euid == 0 && os.Geteuid() != 0 {
			step.OK, step.Class, step.Detail = true, "", name+" runs as root"
			return step
		}
		return verdict.Step{Name: step.Name, Class: verdict.Confined, Detail: fmt.Sprintf("%s runs as %d", name, euid)}
	}
	return step
}

// setuidPrograms finds root's set-user-id programs in the usual folders that
// can be started and wait for input when called without arguments.
func setuidPrograms(root string) []string {
	var found []string
	for _, dir := range []string{"bin", "usr/bin", "sbin", "usr/sbin"} {
		// passwd and its like ask for the old password; su for the new user's.
		for _, name := range []string{"su", "passwd", "chsh", "chfn", "newgrp"} {
			path := filepath.Join(root, dir, name)
			if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeSetuid != 0 {
				found = append(found, path)
			}
		}
	}
	return found
}

// euidOf starts the program, asks /proc for its effective user, and ends it.
func euidOf(ctx context.Context, program string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	in, err := cmd.StdinPipe() // stays open: the program waits
	if err != nil {
		return 0, fmt.Errorf("opening its input: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("starting it: %w", err)
	}
	defer func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}()
	// The credentials are those of the program from execve on, and Start
	// returns after execve.
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "status"))
	if err != nil {
		return 0, fmt.Errorf("reading its status: %w", err)
	}
	return parseEuid(bytes.NewReader(status))
}

// parseEuid reads the second number of the Uid line of /proc/PID/status.
func parseEuid(status io.Reader) (int, error) {
	lines := bufio.NewScanner(status)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) >= 3 && f[0] == "Uid:" {
			uid, err := strconv.Atoi(f[2])
			if err != nil {
				return 0, fmt.Errorf("reading its user: %w", err)
			}
			return uid, nil
		}
	}
	return 0, fmt.Errorf("reading its user: no Uid line")
}
