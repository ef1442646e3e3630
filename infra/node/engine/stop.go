// SPDX-License-Identifier: Apache-2.0

//go:build linux

package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Stop removes all containers, ends the engine's processes, unmounts what they
// mounted, and removes the namespace. Images stay on disk for the next start.
// Only processes that provably belong to this engine are ended. Stopping an
// engine that does not run clears away whatever a killed one left.
func (e *Engine) Stop(ctx context.Context) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("stopping the engine: root is needed; run the command with sudo")
	}
	done := e.opts.Progress.Step("stopping the sealed engine")
	defer func() { done("", err) }()

	if e.healthy(ctx) {
		if err := e.removeContainers(ctx); err != nil {
			// What Docker cannot do is done below, by force.
			e.opts.Progress.Note("%v", err)
		}
	}
	for _, name := range []string{gateName, "dockerd", "containerd"} {
		r, err := readRecord(e.recordPath(name))
		if err != nil {
			return fmt.Errorf("stopping the engine: %w", err)
		}
		if err := r.end(ctx, e.opts.Timeouts.Stop); err != nil {
			return fmt.Errorf("stopping the engine: %w", err)
		}
	}
	if err := e.clear(ctx); err != nil {
		return fmt.Errorf("stopping the engine: %w", err)
	}
	if _, err := os.Lstat(e.nsPath()); err == nil {
		if err := run(ctx, "ip", "netns", "delete", e.opts.Name); err != nil {
			return fmt.Errorf("removing the seal: %w", err)
		}
	}
	return nil
}

func (e *Engine) removeContainers(ctx context.Context) error {
	ids, err := e.Docker(ctx, "ps", "--all", "--quiet")
	if err == nil && ids != "" {
		_, err = e.Docker(ctx, append([]string{"rm", "--force", "--volumes"}, strings.Fields(ids)...)...)
	}
	if err != nil {
		return fmt.Errorf("removing containers: %w", err)
	}
	return nil
}

// clear makes a clean slate for dockerd: no process, mount, cgroup or socket of
// an earlier engine is left. It must not be called while the engine is healthy.
func (e *Engine) clear(ctx context.Context) error {
	for _, name := range []string{gateName, "dockerd", "containerd"} {
		r, err := readRecord(e.recordPath(name))
		if err != nil {
			return err
		}
		if err := r.end(ctx, e.opts.Timeouts.Stop); err != nil {
			return err
		}
	}
	ids, err := e.containerIDs()
	if err != nil {
		return err
	}
	// Killed twice: while the first round goes on, a shim may still start
	// something, but not once it is dead.
	for range 2 {
		if err := e.endLeftovers(ctx, ids); err != nil {
			return err
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("listing mounts: %w", err)
	}
	for _, target := range mountsBelow(string(mounts), e.dir) {
		// Lazily: a process of the user's that looks into the folder must not
		// keep us from cleaning up.
		err := unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("unmounting %s: %w", target, err)
		}
	}
	for _, id := range ids {
		removeCgroups("/sys/fs/cgroup", id)
		if err := forbidRestart(e.path("data/containers/" + id + "/hostconfig.json")); err != nil {
			return err
		}
	}
	for _, dir := range []string{
		"run",
		// Docker keeps networks here, and takes them up again with bridges
		// that went with the namespace.
		"data/network",
		// dockerd keeps its images itself; here are only dead tasks.
		"containerd",
	} {
		if err := os.RemoveAll(e.path(dir)); err != nil {
			return fmt.Errorf("removing the rest of an engine: %w", err)
		}
	}
	return nil
}

// containerIDs lists the containers this engine has made, running or not.
func (e *Engine) containerIDs() ([]string, error) {
	entries, err := os.ReadDir(e.path("data/containers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing containers: %w", err)
	}
	var ids []string
	for _, entry := range entries {
		// A short name would match too much below.
		if len(entry.Name()) == 64 {
			ids = append(ids, entry.Name())
		}
	}
	return ids, nil
}

// forbidRestart keeps dockerd from booting a container of an earlier engine
// when it starts: the nodes of a cluster that is going to be replaced.
func forbidRestart(path string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // killed before it was written
	}
	if err != nil {
		return fmt.Errorf("reading the settings of a dead container: %w", err)
	}
	var config map[string]json.RawMessage
	if err := json.Unmarshal(data, &config); err != nil {
		return nil //nolint:nilerr // dockerd skips a container that it cannot read
	}
	config["RestartPolicy"] = json.RawMessage(`{"Name":"no","MaximumRetryCount":0}`)
	if data, err = json.Marshal(config); err != nil {
		return fmt.Errorf("writing the settings of a dead container: %w", err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("writing the settings of a dead container: %w", err)
	}
	return nil
}

// process is what is needed to tell whose a process is.
type process struct {
	PID     int
	Args    []string
	Cgroups string // /proc/PID/cgroup
}

// ours reports whether a process belongs to the engine in dir with the given
// containers: its shims carry the path of our containerd's socket, dockerd's
// and containerd's command lines name our configuration, and whatever runs in
// a container is in a cgroup named after it.
func ours(p process, dir string, containers []string) bool {
	if len(p.Args) > 0 {
		switch filepath.Base(p.Args[0]) {
		case "containerd", "dockerd", "containerd-shim-runc-v2", "containerd-shim", "runc", "runc-wrapper":
			if slices.ContainsFunc(p.Args[1:], func(a string) bool { return strings.HasPrefix(a, dir+"/") }) {
				return true
			}
		}
	}
	return slices.ContainsFunc(containers, func(id string) bool { return strings.Contains(p.Cgroups, id) })
}

// endLeftovers kills what is left of this engine's processes, and docker-proxy
// processes in our namespace, which carry no other mark.
func (e *Engine) endLeftovers(ctx context.Context, containers []string) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("listing processes: %w", err)
	}
	netns, _ := os.Stat(e.nsPath()) // nil when the namespace is gone, and then nothing is in it
	var victims []record
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		dir := filepath.Join("/proc", entry.Name())
		cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue // it has ended meanwhile
		}
		cgroups, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err != nil {
			continue
		}
		p := process{pid, strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00"), string(cgroups)}
		mine := ours(p, e.dir, containers)
		if !mine && filepath.Base(p.Args[0]) == "docker-proxy" && netns != nil {
			in, err := os.Stat(filepath.Join(dir, "ns/net"))
			mine = err == nil && os.SameFile(in, netns)
		}
		if !mine {
			continue
		}
		// The record is taken before the signal, so a process id that is
		// reused in between is not waited for.
		if r, err := newRecord(pid); err == nil {
			victims = append(victims, r)
		}
	}
	for _, r := range victims {
		if !r.alive() {
			continue
		}
		if err := syscall.Kill(r.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("ending process %d: %w", r.PID, err)
		}
	}
	wait, cancel := context.WithTimeout(ctx, e.opts.Timeouts.Stop)
	defer cancel()
	err = poll(wait, func() (bool, error) {
		return !slices.ContainsFunc(victims, record.alive), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the processes of a killed engine to end: %w", err)
	}
	return nil
}

// mountsBelow returns the mount points under dir, the deepest and latest first.
func mountsBelow(mountinfo, dir string) []string {
	var targets []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		target := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(fields[4])
		if strings.HasPrefix(target, dir+"/") {
			targets = append(targets, target)
		}
	}
	slices.Reverse(targets) // what was mounted last goes first
	slices.SortStableFunc(targets, func(a, b string) int {
		return cmp.Compare(strings.Count(b, "/"), strings.Count(a, "/"))
	})
	return targets
}

// removeCgroups removes the cgroups of a container below root, in every
// hierarchy. They are empty by now; one that is not stays, and does no harm.
func removeCgroups(root, id string) {
	// <root>/<parent>/<id> on v2, <root>/<controller>/<parent>/<id> on v1;
	// with systemd the last is called docker-<id>.scope.
	for _, pattern := range []string{"*/*" + id + "*", "*/*/*" + id + "*"} {
		found, _ := filepath.Glob(filepath.Join(root, pattern)) // fails on a bad pattern only
		for _, dir := range found {
			var dirs []string
			_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					dirs = append(dirs, p)
				}
				return nil
			})
			for _, d := range slices.Backward(dirs) {
				_ = syscall.Rmdir(d)
			}
		}
	}
}
