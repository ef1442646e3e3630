// SPDX-License-Identifier: Apache-2.0

//go:build cluster && linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/e2e-framework/pkg/env"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
)

var (
	testenv  env.Environment
	stockade string // path of the command under test
)

func TestMain(m *testing.M) {
	code, err := prepare(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func prepare(m *testing.M) (int, error) {
	cfg, err := envconf.NewFromFlags()
	if err != nil {
		return 0, fmt.Errorf("reading the framework's flags: %w", err)
	}
	// A dry run prints PASS without having looked at anything.
	if cfg.DryRunMode() {
		return 0, fmt.Errorf("--dry-run would pass without a test; `stockade run --dry-run` lists what there is")
	}
	testenv = env.NewWithConfig(cfg)
	if os.Geteuid() != 0 {
		return 0, fmt.Errorf("these tests watch the machine's uplink and need root")
	}
	folder, err := os.MkdirTemp("", "stockade-e2e-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	stockade = filepath.Join(folder, "stockade")
	build := exec.Command("go", "build", "-o", stockade, "./cmd/stockade")
	build.Dir = "../.."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building the command: %w\n%s", err, out)
	}
	return testenv.Run(m), nil
}

// result is what a command of stockade left.
type result struct {
	code           int
	stdout, stderr string
}

// command prepares a call of stockade. It ends with the test.
func command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, stockade, args...)
	cmd.Dir = "../.."
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// call runs stockade to its end.
func call(t *testing.T, stdin io.Reader, args ...string) result {
	t.Helper()
	// Cleanups call it too, when the test's own context has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
	defer cancel()
	cmd := command(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatalf("starting stockade %s: %v", strings.Join(args, " "), err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// kubectl runs the kubectl that was built, inside the seal.
func kubectl(t *testing.T, stdin io.Reader, args ...string) result {
	t.Helper()
	return call(t, stdin, append([]string{"exec", "--", "kubectl"}, args...)...)
}

// claims returns the names of the suite's own SandboxClaims in the cluster.
func claims(t *testing.T) []string {
	t.Helper()
	r := kubectl(t, nil, "get", "sandboxclaims", "-A", "-l", "stockade.dev/run", "-o", "name")
	if r.code != 0 {
		t.Fatalf("listing the claims: %s", r.stderr)
	}
	return strings.Fields(r.stdout)
}

func decode[T any](t *testing.T, doc string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(doc), &v); err != nil {
		t.Fatalf("decoding %q: %v", doc, err)
	}
	return v
}
