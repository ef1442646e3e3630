// SPDX-License-Identifier: Apache-2.0

//go:build linux

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/stockade-dev/stockade/infra/node/engine/ociwrap"
	"github.com/stockade-dev/stockade/infra/node/engine/seal"
)

// Start makes the seal if needed, proves it, and starts containerd and dockerd
// inside. It is idempotent: an engine that runs and answers is left alone, the
// rest of one that was killed is cleared away first, containers included.
//
// Errors: no root, missing packages, an open seal (*seal.OpenError), or a
// daemon that does not come up; the end of its log is in the error.
func (e *Engine) Start(ctx context.Context) (err error) {
	if err := e.Seal(ctx); err != nil {
		return err
	}
	if err := e.Prove(ctx); err != nil {
		return err
	}
	if stands, err := e.stands(ctx); err != nil || stands {
		return err
	}
	done := e.opts.Progress.Step("starting the sealed engine")
	defer func() { done("", err) }()

	for _, program := range []string{"containerd", "dockerd", "docker", "iptables", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("starting the engine: %w; install the packages docker.io, iptables and runc", err)
		}
	}
	if err := e.clear(ctx); err != nil {
		return fmt.Errorf("clearing away an engine that was killed: %w", err)
	}
	if err := e.configure(ctx); err != nil {
		return fmt.Errorf("starting the engine: %w", err)
	}
	if err := e.launchDaemons(ctx); err != nil {
		return err
	}
	// What was there before this start belongs to a cluster that is dead, and
	// its volumes are gigabytes.
	return e.removeContainers(ctx)
}

// configure writes what the daemons read when they start.
func (e *Engine) configure(ctx context.Context) error {
	// Traversal for others is harmless and Docker wants it; the sockets have
	// modes of their own.
	for _, dir := range []string{"run", "bin", "data", "containerd"} {
		if err := os.MkdirAll(e.path(dir), 0o711); err != nil {
			return err
		}
	}
	wrapper, err := e.runtimeWrapper(ctx)
	if err != nil {
		return err
	}
	if err := os.WriteFile(e.path("containerd.toml"), []byte(e.containerdConfig()), 0o644); err != nil {
		return err
	}
	config, err := json.MarshalIndent(e.dockerdConfig(wrapper), "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(e.path("dockerd.json"), config, 0o644)
}

func (e *Engine) launchDaemons(ctx context.Context) error {
	containerd, err := e.launch("containerd", e.within, "containerd", "--config", e.path("containerd.toml"))
	if err != nil {
		return err
	}
	if err := e.await(ctx, "containerd", containerd, func() error {
		_, err := os.Stat(e.containerdSocket())
		return err
	}); err != nil {
		return err
	}
	dockerd, err := e.launch("dockerd", e.within, "dockerd", "--config-file", e.path("dockerd.json"))
	if err != nil {
		return err
	}
	return e.await(ctx, "dockerd", dockerd, func() error { return e.Ping(ctx) })
}

// stands is [Engine.healthy] for callers that clear away an engine which is not.
// When ctx ends before there is an answer, that is an error and no answer: a Ctrl-C
// must not end a cluster that is well.
func (e *Engine) stands(ctx context.Context) (bool, error) {
	healthy := e.healthy(ctx)
	if err := context.Cause(ctx); err != nil && !healthy {
		return false, fmt.Errorf("looking at the engine: %w", err)
	}
	return healthy, nil
}

// healthy reports whether both daemons are ours, run in the namespace that
// carries our name now, and answer.
func (e *Engine) healthy(ctx context.Context) bool {
	ns, err := seal.Inode(e.nsPath())
	if err != nil {
		return false
	}
	for _, name := range []string{"containerd", "dockerd"} {
		r, err := readRecord(e.recordPath(name))
		if err != nil || !r.alive() {
			return false
		}
		// Somebody may have removed the namespace and we have made another.
		if in, err := seal.Inode(fmt.Sprintf("/proc/%d/ns/net", r.PID)); err != nil || in != ns {
			return false
		}
	}
	return e.Ping(ctx) == nil
}

func (e *Engine) recordPath(name string) string { return e.path("run/" + name + ".json") }

// outside runs f where the calling process is.
func outside(f func() error) error { return f() }

// launch starts a daemon that outlives this process; where says on which side of
// the seal: [Engine.within] or [outside].
func (e *Engine) launch(name string, where func(func() error) error, program string, args ...string) (*exec.Cmd, error) {
	log, err := os.OpenFile(e.path(name+".log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	defer log.Close() //nolint:errcheck // the daemon has its own
	// Not CommandContext: the daemon stays when the context ends.
	cmd := exec.Command(program, args...) //nolint:noctx // see above
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.Env = daemonEnv(os.Environ())
	// A session of its own keeps the terminal's interrupts away.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := where(cmd.Start); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	r, err := newRecord(cmd.Process.Pid)
	if err == nil {
		err = r.write(e.recordPath(name))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", name, err), cmd.Process.Kill())
	}
	return cmd, nil
}

// daemonEnv leaves out what would make the daemons, and what lives in the seal, behave
// differently from one caller to the next: proxies (there is no way out), a user's Docker settings,
// systemd's socket activation.
func daemonEnv(environ []string) []string {
	var kept []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		upper := strings.ToUpper(name)
		if strings.HasSuffix(upper, "_PROXY") || strings.HasPrefix(upper, "DOCKER_") ||
			strings.HasPrefix(upper, "LISTEN_") || upper == "NOTIFY_SOCKET" || upper == enteredMark {
			continue
		}
		kept = append(kept, kv)
	}
	return kept
}

// await waits until ready returns nil, or the daemon ends.
func (e *Engine) await(ctx context.Context, name string, cmd *exec.Cmd, ready func() error) error {
	wait, cancel := context.WithTimeout(ctx, e.opts.Timeouts.Ready)
	defer cancel()
	var g errgroup.Group
	ended := make(chan struct{})
	// The only way to learn of a child's end at once. When the wait succeeds
	// this stays behind for the daemon's lifetime, or ours.
	g.Go(func() error {
		defer close(ended)
		return cmd.Wait()
	})
	err := poll(wait, func() (bool, error) {
		select {
		case <-ended:
			if err := g.Wait(); err != nil {
				return false, fmt.Errorf("it ended: %w", err)
			}
			return false, errors.New("it ended")
		default:
			return ready() == nil, nil
		}
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w; the end of its log:\n%s", name, err, tail(e.path(name+".log"), 15))
	}
	return nil
}

// containerdConfig is for containerd 1.6, Debian's, and later. The CRI plugin
// would open a port and set up networks; Docker does not use it.
func (e *Engine) containerdConfig() string {
	return fmt.Sprintf(`version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = %q
`, e.path("containerd"), e.path("run/containerd"), e.containerdSocket())
}

// dockerdConfig lacks the hosts and everything else that would be shared with
// another Docker. wrapper is empty where runc can be used directly.
func (e *Engine) dockerdConfig(wrapper string) map[string]any {
	c := map[string]any{
		"hosts":      []string{e.Host()},
		"containerd": e.containerdSocket(),
		"data-root":  e.path("data"),
		"exec-root":  e.path("run/docker"),
		"pidfile":    e.path("run/dockerd.pid"),
		// Members of a docker group must not get our root-equivalent socket.
		"group":  "root",
		"bridge": "none", // only networks of our own making
		// A node writes its boot log there for as long as it lives.
		"log-driver": "json-file",
		"log-opts":   map[string]string{"max-size": "10m", "max-file": "2"},
	}
	if wrapper != "" {
		c["runtimes"] = map[string]any{runtimeName: map[string]string{"path": wrapper}}
		c["default-runtime"] = runtimeName
	}
	return c
}

const runtimeName = "stockade-runc"

// runtimeWrapper builds the runtime wrapper where this host needs it, and
// returns its path, or nothing where it does not. The go command's cache makes
// this quick when nothing has changed.
func (e *Engine) runtimeWrapper(ctx context.Context) (string, error) {
	have, err := ociwrap.ReadPrivileges()
	if err != nil {
		return "", err
	}
	if have.CanRaise() {
		return "", nil
	}
	path := e.path("bin/runc-wrapper")
	if e.opts.Source == "" {
		if _, err := os.Stat(path); err == nil {
			return path, nil // from an earlier start
		}
		return "", errors.New("this host lacks CAP_SYS_RESOURCE, so a wrapper around runc has to be built, and no checkout of Stockade was given; run the command in a checkout")
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", path, "./cmd/runc-wrapper")
	cmd.Dir = e.opts.Source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly", "GO111MODULE=on")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the wrapper around runc: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return path, nil
}

// tail returns the last n lines of a file, for error messages.
func tail(path string, n int) string {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "(no log: " + filepath.Base(path) + ")"
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
