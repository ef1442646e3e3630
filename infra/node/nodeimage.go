// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

//go:embed scripts/storage.yaml
var storageManifest []byte

// runtimeConfig gives containerd the runtime handler "runsc", in the (version
// 2) format of kind's own file, so that kind's containerdConfigPatches apply.
const runtimeConfig = `
# gVisor, for the RuntimeClass handler "runsc".
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runsc]
  runtime_type = "io.containerd.runsc.v1"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runsc.options]
    TypeUrl = "io.containerd.runsc.v1.options"
    ConfigPath = "/etc/containerd/runsc.toml"
`

// runscConfig is for the cgroupfs driver, the only one gVisor supports on
// cgroup v1; runscSystemdConfig for a kubelet with the systemd driver. systrap
// needs neither KVM nor hardware support.
const (
	runscConfig = `[runsc_config]
  platform = "systrap"
`
	runscSystemdConfig = runscConfig + `  systemd-cgroup = "true"
`
)

// Files of kind's base image that are made differently here, or have no
// program behind them in this image.
var notFromKind = []string{
	"etc/containerd/config.toml",
	"etc/systemd/system/containerd-fuse-overlayfs.service",
	"usr/local/bin/clean-install",
	"LICENSES/README.txt",
}

// nodeImage is the image of a cluster's nodes: what kind's own build makes out
// of kind's files, with gVisor and the Cilium plugin added.
func (b *builder) nodeImage() imageSpec {
	k8s := b.components["kubernetes"]
	entries := []entry{
		{
			Tree: filepath.Join(b.moduleDirs["kind"], "images", "base", "files"),
			ID:   b.components["kind"].id("files"), ModeOf: kindMode,
		},
		{Path: "kind/version", Mode: 0o644, Content: []byte(k8s.Version)},
		{Path: "kind/manifests/default-storage.yaml", Mode: 0o644, Content: storageManifest},
		{Path: "etc/kubernetes/manifests", Mode: 0o755},
		{Path: "etc/containerd/runsc.toml", Mode: 0o644, Content: []byte(runscConfig)},
		{Path: "etc/containerd/runsc-systemd.toml", Mode: 0o644, Content: []byte(runscSystemdConfig)},
		// The host's kernel log would be confusing in a node's journal.
		{Path: "etc/systemd/journald.conf.d/10-node.conf", Mode: 0o644, Content: []byte("[Journal]\nReadKMsg=no\n")},
		// Registered formats would be the whole host's.
		{Path: "etc/systemd/system/systemd-binfmt.service", Link: "/dev/null"},
		// Debian's runc where kind's image has its own.
		{Path: "usr/local/sbin/runc", Link: "/usr/sbin/runc"},
	}
	for _, unit := range []string{"containerd", "kubelet", "undo-mount-hacks"} {
		entries = append(entries, entry{
			Path: "etc/systemd/system/multi-user.target.wants/" + unit + ".service",
			Link: "/etc/systemd/system/" + unit + ".service",
		})
	}
	for component, folder := range map[string]string{
		"containerd": "usr/local/bin", "gvisor": "usr/local/bin", "crictl": "usr/local/bin", "cni": "opt/cni/bin",
	} {
		for _, p := range b.components[component].Programs {
			entries = append(entries, b.program(component, p.Name, folder+"/"+p.Name))
		}
	}
	// kubelet's unit, which is kind's, has this path.
	for _, p := range []string{"kubeadm", "kubelet", "kubectl"} {
		entries = append(entries, b.program("kubernetes", p, "usr/bin/"+p))
	}
	entries = append(entries, b.program("cilium", "cilium-cni", "opt/cni/bin/cilium-cni"))

	return imageSpec{
		Trees:   []debianTree{minimalTree, nodeTree},
		Entries: entries,
		Config: v1.Config{
			Entrypoint: []string{"/usr/local/bin/entrypoint", "/sbin/init"},
			// How systemd learns that it runs in a container.
			Env: []string{"container=docker", searchPath},
			// systemd re-executes itself on SIGTERM.
			StopSignal: "SIGRTMIN+3",
		},
	}
}

// kindMode gives kind's files the modes that kind's build gives them; the
// module cache keeps none.
func kindMode(p string) fs.FileMode {
	if slices.Contains(notFromKind, p) {
		return 0
	}
	if strings.HasPrefix(p, "usr/local/bin/") || strings.HasPrefix(p, "kind/bin/") {
		return 0o755
	}
	return 0o644
}

// generated are the node's files that can only be made once the programs are
// there: containerd's configuration, and the OCI spec kind's containers get.
func (b *builder) generated(ctx context.Context, pause string) ([]entry, error) {
	kinds, err := os.ReadFile(filepath.Join(b.moduleDirs["kind"], "images", "base", "files", "etc", "containerd", "config.toml"))
	if err != nil {
		return nil, fmt.Errorf("reading kind's containerd configuration: %w", err)
	}
	config, err := containerdConfig(kinds, pause)
	if err != nil {
		return nil, err
	}
	containerd := b.components["containerd"]
	raw, err := command{Lock: b.lock, Args: []string{containerd.path("ctr"), "oci", "spec"}}.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("making the base OCI spec: %w", err)
	}
	spec, err := baseSpec(raw)
	if err != nil {
		return nil, err
	}
	return []entry{
		{Path: "etc/containerd/config.toml", Mode: 0o644, Content: config},
		{Path: "etc/containerd/cri-base.json", Mode: 0o644, Content: spec},
	}, nil
}

var sandboxImage = regexp.MustCompile(`(?m)^(\s*sandbox_image\s*=\s*)"[^"\n]*"`)

// containerdConfig is kind's configuration with our pause image and gVisor.
func containerdConfig(kinds []byte, pause string) ([]byte, error) {
	if n := len(sandboxImage.FindAll(kinds, -1)); n != 1 {
		return nil, fmt.Errorf("adapting kind's containerd configuration: it sets sandbox_image %d times instead of once; compare with this version of kind", n)
	}
	out := sandboxImage.ReplaceAll(kinds, []byte(`${1}"`+pause+`"`))
	return append(bytes.TrimRight(out, "\n"), []byte("\n"+runtimeConfig)...), nil
}

// baseSpec adapts containerd's default OCI spec the way kind's image build
// does: a hook that hides the host's product name, and no limits of its own,
// so that containers inherit the node's.
func baseSpec(raw []byte) ([]byte, error) {
	var spec map[string]any
	if err := json.Unmarshal(raw, &spec); err != nil {
		return nil, fmt.Errorf("reading containerd's default spec: %w", err)
	}
	process, ok := spec["process"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("adapting containerd's default spec: it has no process")
	}
	delete(process, "rlimits")
	hooks, _ := spec["hooks"].(map[string]any)
	if hooks == nil {
		hooks = map[string]any{}
		spec["hooks"] = hooks
	}
	list, _ := hooks["createContainer"].([]any)
	hooks["createContainer"] = append(list, map[string]any{"path": "/kind/bin/mount-product-files.sh"})
	out, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the base OCI spec: %w", err)
	}
	return out, nil
}
