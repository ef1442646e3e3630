// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// environmentSecrets (CR-02, CR-03). Variables are judged by a list of what may
// be there, since no list of what a secret looks like is ever complete. Absent
// is the only right answer: a /proc that cannot be read has proved nothing.
func environmentSecrets() suite.Scenario {
	return suite.Scenario{
		ID:    "credentials.environment-secrets",
		Title: "Find a secret in the environment or in an argument",
		About: "Reads its own environment, that of the sandbox's first process, and every process's arguments. Allowed are what shells, " +
			"images and locales set, and what the kubelet sets in every container (`KUBERNETES_*`). Anything else was given to this sandbox.",
		Claims: []string{"AS-02"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1552", "T1552.007"},
		Refs:       []string{"https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables"},
		Attack: func(context.Context, *probe.Env) []verdict.Step {
			return []verdict.Step{
				variables("read the environment", os.Environ(), nil),
				firstProcess("/proc/1/environ"),
				arguments("/proc"),
			}
		},
		Control: suite.ControlSpec{
			Act: plantVariable,
			Why: "a variable and an argument that the control plants are found by the same reading",
		},
		Accept:  []verdict.Class{verdict.Absent},
		Mutants: []string{"secret-env", "secret-argv"},
	}
}

// allowed are the names that may be there: POSIX's and the shell's own, those
// that the official Python images publish of themselves, and the address of
// the cluster's API, which the kubelet sets whatever enableServiceLinks says.
var allowed = regexp.MustCompile(`^(PATH|HOME|HOSTNAME|PWD|OLDPWD|SHLVL|TERM|LANG|LC_[A-Z]+|LANGUAGE|TZ|USER|LOGNAME|SHELL|TMPDIR|_|` +
	`DEBIAN_FRONTEND|GPG_KEY|PYTHON_[A-Z0-9_]+|PYTHON[A-Z]+|` +
	`KUBERNETES_(SERVICE_HOST|SERVICE_PORT|SERVICE_PORT_HTTPS|PORT|PORT_443_TCP|PORT_443_TCP_(PROTO|PORT|ADDR)))$`)

// secretValue is what no variable may hold, whatever its name.
var secretValue = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY|\bAKIA[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_-]{35}\b|\bgh[pousr]_[0-9A-Za-z]{36}|\bya29\.[0-9A-Za-z_-]+|` + jwtForm.String())

// secretArgument is a flag that hands over a secret by its name.
var secretArgument = regexp.MustCompile(`(?i)^-{0,2}[a-z0-9_-]*(password|passwd|secret|token|api[_-]?key|credential)s?=.+`)

func variables(name string, environ []string, err error) verdict.Step {
	if err != nil {
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
	b, err := os.ReadFile(path) //nolint:gosec // the path is the attack
	return variables("read the first process's environment", split(b), err)
}

// arguments looks at every process's command line for a secret.
func arguments(proc string) verdict.Step {
	const name = "read the processes' arguments"
	files, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "cmdline")) // the pattern is well-formed
	read := 0
	for _, f := range files {
		b, err := os.ReadFile(f) //nolint:gosec // the path is the attack
		if err != nil {
			continue // it has ended
		}
		read++
		for _, arg := range split(b) {
			if secretArgument.MatchString(arg) || secretValue.MatchString(arg) {
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

// plantVariable shows that the three readings see what is there. It adds to a
// copy of what was read: the probe's own environment is shared by all attacks
// that run at the time.
func plantVariable(_ context.Context, env *probe.Env) []verdict.Step {
	const planted = "STOCKADE_API_KEY=stockade-canary"
	first, err := os.ReadFile("/proc/1/environ")
	steps := []verdict.Step{
		variables("read the environment", append(os.Environ(), planted), nil),
		variables("read the first process's environment", append(split(first), planted), err),
	}
	dir := filepath.Join(os.TempDir(), "stockade-argv-"+env.Nonce)
	defer os.RemoveAll(dir) //nolint:errcheck // a canary that stays harms nobody
	if err := os.MkdirAll(filepath.Join(dir, "1"), 0o700); err != nil {
		return append(steps, probe.Denied("plant an argument", err))
	}
	if err := os.WriteFile(filepath.Join(dir, "1", "cmdline"), []byte("app\x00--api-key=stockade-canary\x00"), 0o600); err != nil {
		return append(steps, probe.Denied("plant an argument", err))
	}
	return append(steps, arguments(dir))
}
