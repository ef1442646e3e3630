// SPDX-License-Identifier: Apache-2.0

//go:build linux

package engine

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/stockade-dev/stockade/conformance/probe/mountinfo"
)

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
