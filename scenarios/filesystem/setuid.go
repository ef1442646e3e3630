// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"bufio"
	"bytes"
	"context"
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

// setuidAndDeviceNodes accepts EPERM (no capability), EROFS (the image's file
// cannot be changed), that the image has no set-user-id program, and Confined:
// the program ran, and its effective user stayed the caller's. That last one has
// two causes here, so that taking away one of them alone is no mutant: the
// container's no_new_privs, and that gVisor ignores set-user-id bits unless it
// is told otherwise.
func setuidAndDeviceNodes() suite.Scenario {
	return suite.Scenario{
		ID:    "filesystem.setuid-and-device-nodes",
		Title: "Become root through a file",
		About: "Makes device nodes in /tmp, gives a file to root, and starts a set-user-id program of the image to see as whom it " +
			"runs. The control makes a device node in the privileged Pod.",
		Claims:     []string{"AS-07", "AS-10"},
		Kind:       suite.Guarantee,
		Techniques: []string{"T1548.001", "T1611"},
		Severity:   suite.High,
		Attack:     attackSetuid,
		Control: suite.ControlSpec{Act: makeNode,
			Why: "A privileged Pod can make the node that the sandbox may not."},
		Accept:  []verdict.Class{verdict.Permission, verdict.ReadOnly, verdict.Absent, verdict.Confined},
		Timeout: 15 * time.Second,
		Mutants: []string{"run-as-root"},
	}
}

// device is a node to make. All are harmless to have made: none is opened
// unless the sandbox may, and then only for reading.
type device struct {
	name         string
	mode         uint32
	major, minor int
}

var devices = []device{
	{"the node's memory", syscall.S_IFCHR, 1, 1},
	{"the first SCSI disk", syscall.S_IFBLK, 8, 0},
	{"the first virtual disk", syscall.S_IFBLK, 254, 0},
	{"KVM", syscall.S_IFCHR, 10, 232},
}

func attackSetuid(ctx context.Context, env *probe.Env) []verdict.Step {
	var steps []verdict.Step
	for _, d := range devices {
		steps = append(steps, mknod(d, env.Nonce))
	}
	steps = append(steps, giveToRoot(env.Nonce))
	return append(steps, runSetuid(ctx))
}

func makeNode(_ context.Context, env *probe.Env) []verdict.Step {
	// The null device: a control Pod should not have the node's disk lying about.
	return []verdict.Step{mknod(device{"the null device", syscall.S_IFCHR, 1, 3}, env.Nonce)}
}

func mknod(d device, nonce string) verdict.Step {
	step := verdict.Step{Name: "make a device node: " + d.name}
	name := filepath.Join(scratch, ".stockade-node-"+nonce)
	// The kernel's dev_t for small numbers.
	if err := syscall.Mknod(name, d.mode|0o600, d.major<<8|d.minor); err != nil {
		step.Class, step.Detail = probe.Classify(err), err.Error()
		return step
	}
	_ = os.Remove(name) // the sandbox is thrown away
	step.OK, step.Detail = true, fmt.Sprintf("node %d:%d was made", d.major, d.minor)
	return step
}

// giveToRoot makes a program that would run as root, if it could be given away.
func giveToRoot(nonce string) verdict.Step {
	step := verdict.Step{Name: "make a set-user-id program of root's"}
	name := filepath.Join(scratch, ".stockade-suid-"+nonce)
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"), 0o700); err != nil { //nolint:gosec // it has to be a program
		step.Class, step.Detail = verdict.Unknown, err.Error()
		return step
	}
	defer os.Remove(name) //nolint:errcheck // the sandbox is thrown away
	if os.Geteuid() == 0 {
		step.OK, step.Detail = true, "the sandbox runs as root already"
		return step
	}
	if err := os.Chown(name, 0, 0); err != nil {
		step.Class, step.Detail = probe.Classify(err), err.Error()
		return step
	}
	step.OK, step.Detail = true, "the file is root's now"
	return step
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
	cmd := exec.CommandContext(ctx, program) //nolint:gosec // a program of the image, found above
	in, err := cmd.StdinPipe()               // stays open: the program waits
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
