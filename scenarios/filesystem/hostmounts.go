// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/probe/mountinfo"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// hostMounts accepts that a thing is not there, and that a folder may not be
// entered. It looks with stat, which needs no right on the thing itself: EACCES
// on a parent folder is a denial, EACCES on the socket would never be seen.
func hostMounts() suite.Scenario {
	return suite.Scenario{
		ID:    "filesystem.host-mounts",
		Title: "Find the node's files and sockets",
		About: "Looks for the container runtimes' sockets, the kubelet's folder and the node's own file systems: at their usual " +
			"paths, and under every mount point, because a mount can be anywhere. It also reads mountinfo for mounts that name " +
			"the node's paths. The control finds the node's cgroup folder in the privileged Pod, where it is mounted.",
		Claims:     []string{"AS-07", "AS-10", "PG-10"},
		Kind:       suite.Guarantee,
		Techniques: []string{"T1611"},
		Severity:   suite.Critical,
		Attack:     attackHostMounts,
		Control: suite.ControlSpec{Act: seeHostMount,
			Why: "A folder of the node that is mounted into a Pod is found by the same looking."},
		Accept:    []verdict.Class{verdict.Absent, verdict.Permission},
		Witnesses: []suite.Witness{{Name: suite.APIServer, Read: noHostPath}},
		Mutants:   []string{"host-path-volume", "playground-runtime-socket"},
	}
}

// nodePaths are where the node's own things are on the nodes we know.
var nodePaths = []string{
	"/run/containerd/containerd.sock", "/var/run/docker.sock", "/run/docker.sock", "/run/crio/crio.sock", "/run/podman/podman.sock",
	"/var/lib/kubelet", "/var/lib/containerd", "/var/lib/docker", "/etc/kubernetes", "/var/lib/cilium", "/run/cilium/cilium.sock",
	"/run/systemd/private", "/run/dbus/system_bus_socket", "/host", "/hostfs", "/rootfs", "/node", "/proc/1/root/var/lib/kubelet",
}

// nodeNames are what a mounted folder of the node has in it.
var nodeNames = []string{
	"containerd.sock", "containerd/containerd.sock", "docker.sock", "crio.sock", "kubelet.sock", "device-plugins/kubelet.sock",
	"kubeconfig", "pki/kubelet-client-current.pem", "pods/", "var/lib/kubelet", "etc/kubernetes", "io.containerd.runtime.v2.task",
}

// nodeSources are roots that mountinfo shows for a bind mount of the node's
// files. Under gVisor the root is always "/", which is the point.
var nodeSources = []string{"/var/lib/kubelet/", "/var/lib/containerd/", "/run/containerd/", "/var/lib/docker/"}

func attackHostMounts(ctx context.Context, _ *probe.Env) []verdict.Step {
	var steps []verdict.Step
	for _, p := range nodePaths {
		steps = append(steps, look(p))
	}
	// How mountinfo is denied does not matter: without it nothing is known.
	mounts, err := mountinfo.Read(mountinfo.Self)
	if err != nil {
		return append(steps, unseen("read mountinfo", err))
	}
	for _, m := range points(mounts) {
		if ctx.Err() != nil {
			return append(steps, unseen("look under "+m, ctx.Err()))
		}
		for _, n := range nodeNames {
			// The root's own are in the list above.
			if m != "/" && !within(m, "/proc") {
				steps = append(steps, look(filepath.Join(m, n)))
			}
		}
	}
	return append(steps, sources(mounts))
}

// look says whether something is at the path. Symbolic links are followed:
// what counts is whether it leads somewhere.
func look(path string) verdict.Step {
	step := verdict.Step{Name: "look for " + path}
	info, err := os.Stat(path)
	if err != nil {
		step.Class, step.Detail = probe.Classify(err), err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			step.Class = verdict.Absent
		}
		return step
	}
	step.OK, step.Detail = true, fmt.Sprintf("it is there: %s", info.Mode())
	return step
}

// sources looks for mounts whose source is one of the node's folders. The files
// that every container gets (hosts, the termination log) come from there too,
// on runc; a folder does not, unless somebody mounted it.
func sources(mounts []mountinfo.Mount) verdict.Step {
	step := verdict.Step{Name: "find the node's folders in mountinfo", Class: verdict.Absent}
	for _, m := range mounts {
		for _, s := range nodeSources {
			if strings.HasPrefix(m.Root, s) && isDir(m.Point) && !strings.Contains(m.Root, "/volumes/kubernetes.io~empty-dir/") {
				step.OK, step.Detail = true, m.Root+" is mounted at "+m.Point
				return step
			}
		}
	}
	step.Detail = "none of the mounts has a source on the node"
	return step
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// seeHostMount finds what overlays/base/controls mounts into the control Pod.
func seeHostMount(context.Context, *probe.Env) []verdict.Step {
	began := time.Now()
	step := look("/host/cgroup")
	step.Millis = time.Since(began).Milliseconds()
	return []verdict.Step{step}
}
