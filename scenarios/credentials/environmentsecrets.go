// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// environmentSecrets judges variables by a list of what may be there, since no
// list of what a secret looks like is ever complete. It accepts Absent, and for
// the first process Permission as well: what it may not read, an attacker cannot
// take there. The attack's own environment, which the same Pod spec makes, is
// always read, and the spec is the witness. Any other failure to read has proved
// nothing.
func environmentSecrets() suite.Scenario {
	return suite.Scenario{
		ID:    "credentials.environment-secrets",
		Title: "Find a secret in the environment or in an argument",
		About: "Reads its own environment, that of the sandbox's first process, and every process's arguments. Allowed are what shells, " +
			"images and locales set, and what the kubelet sets in every container (`KUBERNETES_*`). Anything else was given to this sandbox.",
		Claims: []string{"AS-02", "KG-09"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1552", "T1552.007"},
		Refs:       []string{"https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables"},
		Attack: func(context.Context, *probe.Env) []verdict.Step {
			return []verdict.Step{
				variables("read the environment", os.Environ(), nil),
				firstProcess("/proc/1/environ"),
				arguments("/proc", nil),
			}
		},
		Control: suite.ControlSpec{
			At:  suite.Sandbox,
			Act: plantProcess,
			Why: "a process that the control starts in the same sandbox, with a secret in its environment and its arguments, is found by the same reading",
		},
		Accept:    []verdict.Class{verdict.Absent, verdict.Permission},
		Witnesses: []suite.Witness{{Name: suite.APIServer, Read: noSecrets}},
		Mutants:   []string{"secret-env", "secret-argv", "kode-gopher-secret-env"},
	}
}

// allowed are the names that may be there: POSIX's and the shell's own, those
// that the official Python images publish of themselves, the name under which
// Google's libraries look for the metadata server, and the address of the
// cluster's API, which the kubelet sets whatever enableServiceLinks says.
var allowed = regexp.MustCompile(`^(PATH|HOME|HOSTNAME|PWD|OLDPWD|SHLVL|TERM|LANG|LC_[A-Z]+|LANGUAGE|TZ|USER|LOGNAME|SHELL|TMPDIR|_|` +
	`DEBIAN_FRONTEND|GPG_KEY|GCE_METADATA_HOST|PYTHON_[A-Z0-9_]+|PYTHON[A-Z]+|` +
	`KUBERNETES_(SERVICE_HOST|SERVICE_PORT|SERVICE_PORT_HTTPS|PORT|PORT_443_TCP|PORT_443_TCP_(PROTO|PORT|ADDR)))$`)

// secretValue is what no variable may hold, whatever its name.
var secretValue = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY|\bAKIA[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_-]{35}\b|\bgh[pousr]_[0-9A-Za-z]{36}|\bya29\.[0-9A-Za-z_-]+|` + jwtForm.String())

// secretArgument is a flag that hands over a secret by its name.
var secretArgument = regexp.MustCompile(`(?i)^-{0,2}[a-z0-9_-]*(password|passwd|secret|token|api[_-]?key|credential)s?=.+`)

// handsOver tells whether an argument holds a secret, by its name or its look.
func handsOver(arg string) bool {
	return secretArgument.MatchString(arg) || secretValue.MatchString(arg)
}

func variables(name string, environ []string, err error) verdict.Step {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return probe.Denied(name, err) // a process that is not dumpable keeps it to itself
	case err != nil:
		return probe.Failed(name, verdict.Unknown, "it cannot be read: %v", err)
	}
	if len(environ) == 0 {
		return probe.Failed(name, verdict.Unknown, "it is empty, which no container's is")
	}
	for _, e := range environ {
		key, value, _ := strings.Cut(e, "=")
		if !allowed.MatchString(key) || secretValue.MatchString(value) {
			return probe.Reached(name, "%.80q is set, value of digest %s", key, probe.Digest([]byte(value)))
		}
	}
	return probe.Failed(name, verdict.Absent, "all %d variables are on the list", len(environ))
}

func firstProcess(path string) verdict.Step {
	b, err := os.ReadFile(path)
	return variables("read the first process's environment", split(b), err)
}

// plantedArgument opens what the control plants beside the attack, which must
// not find it: the nonce follows.
const plantedArgument = "--api-key=stockade-canary-"

// arguments looks at every process's command line for a secret: for wanted, or
// if that is nil for any that the control did not plant.
func arguments(proc string, wanted func(string) bool) verdict.Step {
	const name = "read the processes' arguments"
	files, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "cmdline")) // the pattern is well-formed
	read := 0
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		read++
		for _, arg := range split(b) {
			switch {
			case wanted != nil && !wanted(arg), wanted == nil && strings.HasPrefix(arg, plantedArgument):
				continue
			case handsOver(arg):
				return probe.Reached(name, "%s holds one, digest %s", f, probe.Digest([]byte(arg)))
			}
		}
	}
	if read == 0 {
		return probe.Failed(name, verdict.Unknown, "no process can be seen in %s, not even this one", proc)
	}
	return probe.Failed(name, verdict.Absent, "%d processes have none", read)
}

func split(b []byte) []string {
	return slices.DeleteFunc(strings.Split(string(b), "\x00"), func(s string) bool { return s == "" })
}

// plantProcess shows that the readings see what is there, in the /proc of the
// attack: it starts a shell with a secret in its environment and its arguments,
// reads both, and ends it. Start may return while execve still lays out what
// /proc shows, so the shell says when it runs. Where the probe could be delivered,
// there is a shell.
func plantProcess(ctx context.Context, env *probe.Env) []verdict.Step {
	const name = "start a process with a secret"
	secret := plantedArgument + env.Nonce
	cmd := exec.CommandContext(ctx, "sh", "-c", "echo; read wait", "stockade", secret)
	cmd.Env = append(os.Environ(), "STOCKADE_API_KEY=stockade-canary")
	in, err := cmd.StdinPipe() // stays open: the shell waits for a line
	if err != nil {
		return []verdict.Step{probe.Denied(name, err)}
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return []verdict.Step{probe.Denied(name, err)}
	}
	if err := cmd.Start(); err != nil {
		return []verdict.Step{probe.Denied(name, err)}
	}
	defer func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}()
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		return []verdict.Step{probe.Failed(name, verdict.Unknown, "it ended before it ran: %v", err)}
	}
	environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "environ"))
	return []verdict.Step{
		variables("read its environment", split(environ), err),
		arguments("/proc", func(arg string) bool { return arg == secret }),
	}
}
