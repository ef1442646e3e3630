// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/probe/mountinfo"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// writeOutsideTmp accepts EROFS (the root file system is mounted read-only) and
// EPERM or EACCES (the user may not write there in any case), and that a place
// is not there. ENOSPC would be no denial: it means that the place can be
// written, and is full.
func writeOutsideTmp() suite.Scenario {
	return suite.Scenario{
		ID:    "filesystem.write-outside-tmp",
		Title: "Write outside of /tmp",
		About: "Creates a file in every folder where one might be accepted: the well-known ones, every mount point, and " +
			"every folder that is open to all users, or to this one by its owner or group. It also opens for writing what runtimes mount " +
			"into each container: `/etc/hosts`, `/etc/resolv.conf`, the termination log. The control writes to /tmp in the same sandbox.",
		Claims:     []string{"AS-07"},
		Kind:       suite.Guarantee,
		Techniques: []string{"T1574.007", "T1005"},
		Severity:   suite.High,
		Attack:     attackWriteOutside,
		Control: suite.ControlSpec{At: suite.Sandbox, Act: writeTmp,
			Why: "The same write works in /tmp of the same sandbox, so it is the place that is denied and not the act."},
		Accept:    []verdict.Class{verdict.ReadOnly, verdict.Permission, verdict.Absent},
		Timeout:   20 * time.Second,
		Witnesses: []suite.Witness{{Name: suite.APIServer, Read: nothingWritable}},
		Mutants:   []string{"rootfs-writable", "shm-writable", "termination-log-default"},
	}
}

// places are folders that hold a writable file system in some runtime or image.
var places = []string{
	"/", "/bin", "/boot", "/dev", "/dev/mqueue", "/dev/shm", "/etc", "/home", "/lib", "/media", "/mnt", "/opt", "/proc",
	"/root", "/run", "/run/lock", "/run/user", "/sbin", "/srv", "/sys", "/sys/fs/cgroup", "/usr", "/usr/bin",
	"/usr/local/bin", "/usr/local/lib", "/var", "/var/cache", "/var/lib", "/var/log", "/var/mail", "/var/spool", "/var/tmp",
	"/app", "/workspace", "/data",
}

// mounted are single files that a runtime or the kubelet mounts from the node.
var mounted = []string{
	"/dev/termination-log", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/run/secrets", "/proc/sys/kernel/core_pattern",
}

// scratch is the one place that may be written.
const scratch = "/tmp"

func attackWriteOutside(ctx context.Context, env *probe.Env) []verdict.Step {
	points, err := mountPoints()
	if err != nil {
		return []verdict.Step{unseen("read mountinfo", err)}
	}
	var steps []verdict.Step
	dirs := folders(points)
	for _, dir := range dirs {
		steps = append(steps, create(dir, env.Nonce))
	}
	for _, file := range writableFiles(points) {
		steps = append(steps, open(file))
	}
	more, err := openFolders(ctx, "/", user(), "/proc", "/sys", scratch)
	if err != nil {
		steps = append(steps, unseen(openName, err))
	}
	more = slices.DeleteFunc(more, func(d string) bool { return slices.Contains(dirs, d) })
	return append(steps, createIn(ctx, more, env.Nonce))
}

const openName = "create a file in a folder that is open to the user"

// unseen is the step of something that could not be looked at, whatever the
// error: what was not looked at was not denied.
func unseen(name string, err error) verdict.Step {
	return probe.Failed(name, verdict.Unknown, "not everything was looked at: %v", err)
}

// createIn tries many folders and returns one step: the first that let a file
// in, or else the first whose denial is not among the accepted.
func createIn(ctx context.Context, dirs []string, nonce string) verdict.Step {
	accept := writeOutsideTmp().Accept
	worst := probe.Failed(openName, verdict.Absent, "there is none")
	for _, dir := range dirs {
		if ctx.Err() != nil {
			return unseen(openName, ctx.Err())
		}
		step := create(dir, nonce)
		step.Name, step.Detail = openName, dir+": "+step.Detail
		if step.OK {
			return step
		}
		if slices.Contains(accept, worst.Class) {
			worst = step
		}
	}
	return worst
}

func writeTmp(_ context.Context, env *probe.Env) []verdict.Step {
	return []verdict.Step{create(scratch, env.Nonce)}
}

// create makes a file in dir, puts the nonce into it, reads it back and removes
// it. Only what reads back was written.
func create(dir, nonce string) verdict.Step {
	step := verdict.Step{Name: "create a file in " + dir}
	name := filepath.Join(dir, ".stockade-"+nonce)
	err := os.WriteFile(name, []byte(nonce), 0o600)
	if err == nil {
		defer os.Remove(name) //nolint:errcheck // the sandbox is thrown away
		var back []byte
		if back, err = os.ReadFile(name); err == nil && string(back) == nonce {
			step.OK, step.Detail = true, "written and read back"
			return step
		}
		err = fmt.Errorf("written, but it does not read back: %w", errors.Join(err, errors.New("other content")))
	}
	step.Class, step.Detail = probe.Classify(err), err.Error()
	return step
}

// open opens an existing file for writing, and writes nothing: what it holds
// is not ours to spoil (a device node, the Pod's own hosts file).
func open(file string) verdict.Step {
	step := verdict.Step{Name: "open for writing: " + file}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			step.Class, step.Detail = verdict.Absent, err.Error()
			return step
		}
		step.Class, step.Detail = probe.Classify(err), err.Error()
		return step
	}
	_ = f.Close() // nothing was written
	step.OK, step.Detail = true, "opened for writing"
	return step
}

// writableFiles adds to the list every mounted file that mountinfo names.
func writableFiles(points []string) []string {
	files := append([]string(nil), mounted...)
	for _, m := range points {
		if info, err := os.Stat(m); err == nil && info.Mode().IsRegular() && !within(m, scratch) {
			files = append(files, m)
		}
	}
	return unique(files)
}

// folders returns the list and the mount points that are folders; never /tmp.
func folders(points []string) []string {
	dirs := append([]string(nil), places...)
	for _, m := range points {
		if isDir(m) {
			dirs = append(dirs, m)
		}
	}
	return slices.DeleteFunc(unique(dirs), func(d string) bool { return within(d, scratch) })
}

// identity is a user with its groups.
type identity struct {
	uid    int
	groups []int
}

func user() identity {
	groups, _ := os.Getgroups() // without them the primary one is left
	return identity{os.Geteuid(), append(groups, os.Getegid())}
}

// mayWrite reads a folder's mode as a kernel would for the user.
func (u identity) mayWrite(info fs.FileInfo) bool {
	mode := info.Mode().Perm()
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case mode&0o002 != 0 || u.uid == 0 || !ok:
		return true
	case int(st.Uid) == u.uid:
		return true // the owner may give itself the right
	}
	return mode&0o020 != 0 && slices.Contains(u.groups, int(st.Gid))
}

// openFolders finds the folders below root that the user may write. /proc is
// left out by the caller: it has a folder for every process, and no file can be
// made in any. A folder that cannot be read and can be entered has places that
// were not looked at, and is an error; one that cannot be entered keeps the
// user from all that is in it. An error comes with what was found until then.
func openFolders(ctx context.Context, root string, u identity, except ...string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case d == nil:
			return err
		case errors.Is(err, fs.ErrNotExist):
			return nil // others remove folders meanwhile
		case !d.IsDir():
			return nil
		case slices.Contains(except, path):
			return fs.SkipDir
		}
		if err != nil {
			shut := syscall.Access(path, 1) // X_OK
			if errors.Is(shut, fs.ErrPermission) || errors.Is(shut, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if info, err := d.Info(); err == nil && u.mayWrite(info) {
			dirs = append(dirs, path)
		}
		return nil
	})
	return dirs, err
}

// mountPoints returns the places that are mounted in this sandbox.
func mountPoints() ([]string, error) {
	mounts, err := mountinfo.Read(mountinfo.Self)
	return points(mounts), err
}

func points(mounts []mountinfo.Mount) []string {
	var points []string
	for _, m := range mounts {
		points = append(points, m.Point)
	}
	return unique(points)
}

func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func unique(list []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
