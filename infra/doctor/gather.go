// SPDX-License-Identifier: Apache-2.0

//go:build linux

package doctor

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/stockade-dev/stockade/infra/kind"
	"github.com/stockade-dev/stockade/infra/node"
	"github.com/stockade-dev/stockade/infra/node/engine"
)

// goWanted is the least version of Go that builds everything.
const goWanted = "1.26"

// dockerSocket is where a Docker engine of the user's listens by default.
const dockerSocket = "/var/run/docker.sock"

// Gather reads the facts off this machine for the given home, whose network
// namespace has the given name. What cannot be read counts as absent; an error
// means that the home itself makes no sense.
func Gather(ctx context.Context, home, namespace string) (Facts, error) {
	f := Facts{
		Arch: runtime.GOARCH, Root: os.Geteuid() == 0,
		Programs: map[string]bool{}, GoWanted: goWanted, Home: home,
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err == nil {
		f.Kernel = unix.ByteSliceToString(uts.Release[:])
	}
	f.Features = features(f.Kernel)
	if host, err := kind.DetectHost(); err == nil {
		f.SysResource = host.SysResource
		f.Features["ipv6"] = host.IPv6
		if host.CgroupV2 {
			f.Cgroup = 2
		} else if entries, err := os.ReadDir("/sys/fs/cgroup"); err == nil && len(entries) > 0 {
			f.Cgroup = 1
		}
	}
	for _, p := range programs {
		_, err := exec.LookPath(p.name)
		f.Programs[p.name] = err == nil
	}
	if out, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output(); err == nil {
		f.Go = strings.TrimSpace(string(out))
	}
	f.MemoryAvailable = memoryAvailable()
	f.DiskFree = diskFree(home)
	if conn, err := new(net.Dialer).DialContext(ctx, "unix", dockerSocket); err == nil {
		f.DockerSocket = true
		_ = conn.Close() // nothing was sent
	}

	e, err := engine.New(engine.Options{Home: home, Name: namespace})
	if err != nil {
		return f, err
	}
	status, err := e.Status(ctx)
	if err == nil {
		f.Namespace, f.Engine = status.Exists, status.Running
	}
	if !f.Engine {
		f.Leftovers = leftovers(e, f.Namespace)
	}
	f.Images = images(ctx, home)
	return f, nil
}

func images(ctx context.Context, home string) ImageState {
	source, err := node.FindSource()
	if err != nil {
		return ImageState{Detail: err.Error()}
	}
	found, ok, err := node.Cached(ctx, node.Options{Home: home, Source: source})
	switch {
	case err != nil:
		return ImageState{Checked: true, Detail: err.Error()}
	case !ok:
		return ImageState{Checked: true}
	}
	return ImageState{Checked: true, Cached: true, Detail: "built: " + found.NodeTag}
}

func leftovers(e *engine.Engine, namespace bool) []string {
	var left []string
	if namespace {
		left = append(left, "network namespace "+e.Name())
	}
	if mounts, err := e.Mounts(); err == nil && len(mounts) > 0 {
		left = append(left, fmt.Sprintf("%d mounts below %s", len(mounts), e.Dir()))
	}
	return left
}

// kernelOptions are the build options behind the features that leave no other
// trace before they are used.
var kernelOptions = map[string]string{
	"veth":      "CONFIG_VETH",
	"bridge":    "CONFIG_BRIDGE",
	"vxlan":     "CONFIG_VXLAN",
	"nf_tables": "CONFIG_NF_TABLES",
	"tproxy":    "CONFIG_NETFILTER_XT_TARGET_TPROXY",
	"overlay":   "CONFIG_OVERLAY_FS",
	"fuse":      "CONFIG_FUSE_FS",
	"bpf":       "CONFIG_BPF_SYSCALL",
}

// features tells what the kernel offers from its configuration, where it is
// published, and from what is loaded already. Nothing is loaded or made.
func features(release string) map[string]bool {
	found := map[string]bool{}
	if text, err := kernelConfig(release); err == nil {
		for name, option := range kernelOptions {
			found[name] = strings.Contains(text, "\n"+option+"=y") || strings.Contains(text, "\n"+option+"=m")
		}
	}
	for name, path := range map[string]string{
		"veth": "/sys/module/veth", "bridge": "/sys/module/bridge", "vxlan": "/sys/module/vxlan",
		"nf_tables": "/sys/module/nf_tables", "overlay": "/sys/module/overlay", "fuse": "/dev/fuse",
		"tproxy": "/sys/module/xt_TPROXY", "bpf": "/sys/fs/bpf",
	} {
		if _, err := os.Stat(path); err == nil {
			found[name] = true
		}
	}
	for name, path := range map[string]string{"btf": "/sys/kernel/btf/vmlinux", "kvm": "/dev/kvm"} {
		_, err := os.Stat(path)
		found[name] = err == nil
	}
	return found
}

// kernelConfig returns the running kernel's build configuration.
func kernelConfig(release string) (string, error) {
	if f, err := os.Open("/proc/config.gz"); err == nil {
		defer f.Close() //nolint:errcheck // it was only read
		z, err := gzip.NewReader(f)
		if err != nil {
			return "", fmt.Errorf("reading the kernel's configuration: %w", err)
		}
		text, err := io.ReadAll(io.LimitReader(z, 4<<20))
		if err != nil {
			return "", fmt.Errorf("reading the kernel's configuration: %w", err)
		}
		return "\n" + string(text), nil
	}
	text, err := os.ReadFile("/boot/config-" + release)
	if err != nil {
		return "", fmt.Errorf("reading the kernel's configuration: %w", err)
	}
	return "\n" + string(text), nil
}

func memoryAvailable() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close() //nolint:errcheck // it was only read
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "MemAvailable:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				return 0
			}
			return kb << 10
		}
	}
	return 0
}

// diskFree asks for the first folder above path that exists.
func diskFree(path string) int64 {
	for {
		var st unix.Statfs_t
		if err := unix.Statfs(path, &st); err == nil {
			return int64(st.Bavail) * st.Bsize //nolint:gosec // no disk has 2^63 blocks
		}
		parent := filepath.Dir(path)
		if parent == path {
			return 0
		}
		path = parent
	}
}
