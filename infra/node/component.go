// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"strings"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// Component is a set of third-party programs that are pinned together, in one
// module under tools/, and built with one call of the go command.
type Component struct {
	Name     string   // also the folder under tools/
	Module   string   // the Go module whose version is the component's version
	Programs []Binary // what is built

	// Stamp holds -X assignments for the linker: most programs learn their
	// version only this way. $version is the module's version (v1.36.3),
	// $bare the same without the v, $major and $minor its parts.
	Stamp []string

	// Embed names JSON files of the module that a program of ours beside the
	// pins embeds, by their path there. They are minified for the build, and in
	// no checkout: the module's pin covers their content.
	Embed map[string]string

	// Memory is what compiling and linking take at most, in bytes, measured
	// on two cores: components run in parallel as far as their sum fits.
	Memory int64
	// Disk is the size of the programs in bytes, rounded up.
	Disk int64
	// Cache is what a cold build adds to Go's build and module caches, in bytes.
	Cache int64
}

// Binary is one program of a component.
type Binary struct {
	Package string // import path, or ./path inside the tools module
	Name    string // file name under bin/<component>-<key>/
}

// Components lists every third-party program, the slow ones first so that a
// parallel build ends sooner.
func Components() []Component {
	return []Component{
		{
			Name:   "kubernetes",
			Module: "k8s.io/kubernetes",
			Programs: []Binary{
				{"k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver"},
				{"k8s.io/kubernetes/cmd/kube-controller-manager", "kube-controller-manager"},
				{"k8s.io/kubernetes/cmd/kube-scheduler", "kube-scheduler"},
				{"k8s.io/kubernetes/cmd/kubeadm", "kubeadm"},
				{"k8s.io/kubernetes/cmd/kubelet", "kubelet"},
				{"k8s.io/kubernetes/cmd/kubectl", "kubectl"},
			},
			// Without these kubeadm takes itself for v0.0.0 and refuses the
			// version it is asked to install. kubectl reads client-go's copy.
			Stamp: []string{
				"k8s.io/component-base/version.gitVersion=$version",
				"k8s.io/component-base/version.gitMajor=$major",
				"k8s.io/component-base/version.gitMinor=$minor",
				"k8s.io/component-base/version.gitTreeState=clean",
				"k8s.io/client-go/pkg/version.gitVersion=$version",
				"k8s.io/client-go/pkg/version.gitMajor=$major",
				"k8s.io/client-go/pkg/version.gitMinor=$minor",
			},
			Memory: 5 * gib, Disk: 500 * mib, Cache: 4 * gib,
		},
		{
			Name:   "cilium",
			Module: "github.com/cilium/cilium",
			Programs: []Binary{
				{"github.com/cilium/cilium/daemon", "cilium-agent"},
				{"github.com/cilium/cilium/plugins/cilium-cni", "cilium-cni"},
				{"github.com/cilium/cilium/cilium-dbg", "cilium-dbg"},
			},
			// The agent parses this string as "version revision date" and
			// compares it with what the CNI plugin reports.
			Stamp: []string{
				`github.com/cilium/cilium/pkg/version.ciliumVersion=$bare source 1970-01-01T00:00:00Z`,
			},
			Memory: 4 * gib, Disk: 400 * mib, Cache: 4 * gib,
		},
		{
			Name:   "coredns",
			Module: "github.com/coredns/coredns",
			Programs: []Binary{
				// CoreDNS with fewer plugins; see tools/coredns/coredns.
				{"./coredns", "coredns"},
			},
			Memory: 2 * gib, Disk: 100 * mib, Cache: gib,
		},
		{
			Name:   "containerd",
			Module: "github.com/containerd/containerd/v2",
			Programs: []Binary{
				{"github.com/containerd/containerd/v2/cmd/containerd", "containerd"},
				{"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2", "containerd-shim-runc-v2"},
				{"github.com/containerd/containerd/v2/cmd/ctr", "ctr"},
			},
			Stamp:  []string{"github.com/containerd/containerd/v2/version.Version=$version"},
			Memory: 2 * gib, Disk: 100 * mib, Cache: gib,
		},
		{
			Name:   "agent-sandbox",
			Module: "sigs.k8s.io/agent-sandbox",
			Programs: []Binary{
				{"sigs.k8s.io/agent-sandbox/cmd/agent-sandbox-controller", "agent-sandbox-controller"},
				{"sigs.k8s.io/agent-sandbox/sandbox-router/cmd", "sandbox-router"},
			},
			Stamp:  []string{"sigs.k8s.io/agent-sandbox/internal/version.gitVersion=$version"},
			Memory: 2 * gib, Disk: 120 * mib, Cache: gib,
		},
		{
			Name:   "gvisor",
			Module: "gvisor.dev/gvisor",
			Programs: []Binary{
				{"gvisor.dev/gvisor/runsc", "runsc"},
				// Our main around gVisor's shim; see tools/gvisor/shim.
				{"./shim", "containerd-shim-runsc-v1"},
			},
			Stamp:  []string{"gvisor.dev/gvisor/runsc/version.version=$version"},
			Memory: 2 * gib, Disk: 80 * mib, Cache: gib,
		},
		{
			Name:   "etcd",
			Module: "go.etcd.io/etcd/server/v3",
			Programs: []Binary{
				{"go.etcd.io/etcd/server/v3", "etcd"},
			},
			Memory: gib, Disk: 40 * mib, Cache: gib / 2,
		},
		{
			Name:   "crictl",
			Module: "sigs.k8s.io/cri-tools",
			Programs: []Binary{
				{"sigs.k8s.io/cri-tools/cmd/crictl", "crictl"},
			},
			Stamp:  []string{"sigs.k8s.io/cri-tools/pkg/version.Version=$version"},
			Memory: gib, Disk: 40 * mib, Cache: gib / 2,
		},
		{
			Name:   "kind",
			Module: "sigs.k8s.io/kind",
			Programs: []Binary{
				{"sigs.k8s.io/kind", "kind"},
			},
			Memory: gib, Disk: 20 * mib, Cache: gib / 4,
		},
		{
			Name:   "cni",
			Module: "github.com/containernetworking/plugins",
			Programs: []Binary{
				{"github.com/containernetworking/plugins/plugins/main/loopback", "loopback"},
				{"github.com/containernetworking/plugins/plugins/main/ptp", "ptp"},
				{"github.com/containernetworking/plugins/plugins/ipam/host-local", "host-local"},
				{"github.com/containernetworking/plugins/plugins/meta/portmap", "portmap"},
			},
			Memory: gib, Disk: 20 * mib, Cache: gib / 4,
		},
	}
}

// KubernetesProvider is the version that the Kubernetes provider goes by: that of
// the SDK in our go.mod, which looks for a provider of at least its own version.
const KubernetesProvider = "4.32.0"

// PulumiComponents lists what `pulumi up` takes beside our own programs. It is a
// list of its own because no image of a cluster has to wait for it.
func PulumiComponents() []Component {
	return []Component{
		{
			Name:   "pulumi-kubernetes",
			Module: "github.com/pulumi/pulumi-kubernetes/provider/v4",
			Programs: []Binary{
				{"./pulumi-resource-kubernetes", "pulumi-resource-kubernetes"},
			},
			// The module's own version is a date: it is tagged for its SDK only.
			Stamp: []string{"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version.Version=" + KubernetesProvider},
			Embed: map[string]string{
				"pulumi-resource-kubernetes/schema.json":            "cmd/pulumi-resource-kubernetes/schema.json",
				"pulumi-resource-kubernetes/terraform-mapping.json": "cmd/pulumi-resource-kubernetes/terraform-mapping.json",
			},
			Memory: 5 * gib, Disk: 200 * mib, Cache: 4 * gib,
		},
		{
			Name:   "pulumi",
			Module: "github.com/pulumi/pulumi/pkg/v3",
			Programs: []Binary{
				{"github.com/pulumi/pulumi/pkg/v3/cmd/pulumi", "pulumi"},
			},
			// Without it the engine has no version, and the Automation API
			// refuses to drive it.
			Stamp:  []string{"github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=$version"},
			Memory: 2 * gib, Disk: 150 * mib, Cache: 3 * gib,
		},
	}
}

// ldflags returns the linker flags for a component at version.
func (c Component) ldflags(version string) string {
	bare := strings.TrimPrefix(version, "v")
	parts := append(strings.SplitN(bare, ".", 3), "", "")
	fill := strings.NewReplacer("$version", version, "$bare", bare, "$major", parts[0], "$minor", parts[1])

	// Symbols and debug data would double the size of every image.
	flags := []string{"-s", "-w"}
	for _, x := range c.Stamp {
		flags = append(flags, "-X '"+fill.Replace(x)+"'")
	}
	return strings.Join(flags, " ")
}

// version reads the component's version out of its tools module's go.mod.
func (c Component) version(gomod []byte) (string, error) {
	line := regexp.MustCompile(`(?m)^\s*(?:require\s+)?` + regexp.QuoteMeta(c.Module) + `\s+(v\S+)`)
	m := line.FindSubmatch(bytes.ReplaceAll(gomod, []byte("\r"), nil))
	if m == nil {
		return "", fmt.Errorf("reading the version of %s: tools/%s/go.mod does not require %s", c.Name, c.Name, c.Module)
	}
	return string(m[1]), nil
}

// defaultName is the file name the go command gives to the program built from
// a package: the last element of its path that is not a major version.
func defaultName(pkg string) string {
	base := path.Base(pkg)
	if regexp.MustCompile(`^v[0-9]+$`).MatchString(base) {
		base = path.Base(path.Dir(pkg))
	}
	return base
}
