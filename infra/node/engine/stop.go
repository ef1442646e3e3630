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

	"github.com/stockade-dev/stockade/conformance/probe/mountinfo"
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

	stands, err := e.stands(ctx)
	if err != nil {
		return fmt.Errorf("stopping the engine: %w", err)
	}
	if stands {
		bounded, cancel := context.WithTimeout(ctx, e.opts.Timeouts.Remove)
		defer cancel()
		if err := e.removeContainers(bounded); err != nil {
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
	other, err := e.other()
	if err != nil {
		return fmt.Errorf("removing the seal: %w", err)
	}
	if other != "" {
		e.opts.Progress.Note("the network namespace %s stays: it is the seal of another home, %s", e.opts.Name, other)
		return nil
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
	all, err := processes()
	if err != nil {
		return err
	}
	ids = shimmed(all, e.dir, ids)
	// Killed twice: while the first round goes on, a shim may still start
	// something, but not once it is dead.
	for range 2 {
		if err := e.endLeftovers(ctx, ids); err != nil {
			return err
		}
	}
	mounts, err := e.Mounts()
	if err != nil {
		return err
	}
	for _, target := range mounts {
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

// idLength is the length of a container's id. A shorter name would match too much
// where processes and cgroups are looked for by it.
const idLength = 64

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
		if len(entry.Name()) == idLength {
			ids = append(ids, entry.Name())
		}
	}
	return ids, nil
}

// shimmed adds the containers for which a shim of this engine still runs. dockerd's
// own records of them are gone when somebody deletes the engine's folder while it
// runs.
func shimmed(all []process, dir string, containers []string) []string {
	for _, p := range all {
		if !ours(p, dir, nil) || !strings.HasPrefix(filepath.Base(p.Args[0]), "containerd-shim") {
			continue
		}
		i := slices.Index(p.Args, "-id") + 1
		if i == 0 || i == len(p.Args) || len(p.Args[i]) != idLength || slices.Contains(containers, p.Args[i]) {
			continue
		}
		containers = append(containers, p.Args[i])
	}
	return containers
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

// processes lists those of this machine but for this one. A process that ends
// meanwhile is left out.
func processes() ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var all []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		dir := filepath.Join("/proc", entry.Name())
		cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue
		}
		cgroups, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err != nil {
			continue
		}
		all = append(all, process{pid, strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00"), string(cgroups)})
	}
	return all, nil
}

// in reports whether the process lives in the network namespace behind a file. In
// one that is gone there is nobody.
func (p process) in(netns string) bool {
	want, err := os.Stat(netns)
	if err != nil {
		return false
	}
	have, err := os.Stat(filepath.Join("/proc", strconv.Itoa(p.PID), "ns/net"))
	return err == nil && os.SameFile(have, want)
}

// engineOf returns the folder of the engine that a daemon serves, by the
// configuration that it was started with; nothing for any other process.
func engineOf(p process) string {
	if len(p.Args) == 0 {
		return ""
	}
	configs := map[string]string{"containerd": "containerd.toml", "dockerd": "dockerd.json"}
	config, ok := configs[filepath.Base(p.Args[0])]
	if !ok {
		return ""
	}
	for _, a := range p.Args[1:] {
		if dir := filepath.Dir(a); filepath.IsAbs(a) && filepath.Base(a) == config && filepath.Base(dir) == "engine" {
			return dir
		}
	}
	return ""
}

// engineIn returns the folder of an engine that runs in the network namespace and
// does not live in dir; nothing if there is none. Every user's default home has the
// same name of a namespace.
func engineIn(all []process, netns, dir string) string {
	own, _ := os.Stat(dir) // nil before anything was made there
	for _, p := range all {
		found := engineOf(p)
		if found == "" || found == dir || !p.in(netns) {
			continue
		}
		// The same folder may have two paths.
		if info, err := os.Stat(found); err == nil && own != nil && os.SameFile(info, own) {
			continue
		}
		return found
	}
	return ""
}

// other returns the home of another engine in the namespace that carries our name.
func (e *Engine) other() (string, error) {
	all, err := processes()
	if err != nil {
		return "", err
	}
	if dir := engineIn(all, e.nsPath(), e.dir); dir != "" {
		return filepath.Dir(dir), nil
	}
	return "", nil
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
	all, err := processes()
	if err != nil {
		return err
	}
	netns := e.nsPath()
	if engineIn(all, netns, e.dir) != "" {
		netns = "" // then its proxies are that engine's
	}
	var victims []record
	for _, p := range all {
		if !ours(p, e.dir, containers) && (filepath.Base(p.Args[0]) != "docker-proxy" || !p.in(netns)) {
			continue
		}
		// The record is taken before the signal, so a process id that is
		// reused in between is not waited for.
		if r, err := newRecord(p.PID); err == nil {
			victims = append(victims, r)
		}
	}
	for _, r := range victims {
		if err := r.signal(syscall.SIGKILL); err != nil {
			return err
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

// Mounts returns the mount points below the engine's folder, as they are now.
func (e *Engine) Mounts() ([]string, error) {
	all, err := mountinfo.Read(mountinfo.Self)
	if err != nil {
		return nil, fmt.Errorf("listing mounts: %w", err)
	}
	return e.mounts(all), nil
}

// mounts returns which of all mount points are this engine's, in the order in which
// they can be undone. The kernel tells paths without symbolic links, and a home may
// well be one that leads to a larger disk.
func (e *Engine) mounts(all []mountinfo.Mount) []string {
	dir, err := filepath.EvalSymlinks(e.dir)
	if err != nil {
		dir = e.dir // not there, and nothing below it
	}
	return mountsBelow(all, dir)
}

// mountsBelow returns the mount points under dir, the deepest and latest first.
func mountsBelow(all []mountinfo.Mount, dir string) []string {
	var targets []string
	for _, m := range slices.Backward(all) { // what was mounted last goes first
		if strings.HasPrefix(m.Point, dir+"/") {
			targets = append(targets, m.Point)
		}
	}
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
