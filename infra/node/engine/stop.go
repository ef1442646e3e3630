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
	"path/filepath"
	"slices"
	"strings"

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
