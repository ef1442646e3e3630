// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
)

// The cluster's addresses. Cilium's configuration names the Pods' prefixes too.
const (
	PodSubnets     = "10.244.0.0/16,fd00:10:244::/56"
	ServiceSubnets = "10.96.0.0/16,fd00:10:96::/112"
)

// GKE's label and taint of nodes for gVisor Pods.
const (
	SandboxKey   = "sandbox.gke.io/runtime"
	SandboxValue = "gvisor"
)

// podPidsLimit bounds the tasks of a Pod, as seen by the node. GKE accepts no
// less than 1024, but half a core starts some ten processes a second under
// gVisor, and the attack on the limit goes up to it. A sandbox under the whole
// suite was seen with some fifty tasks, so there is room enough.
const podPidsLimit = 256

// HostFacts is what this host differs in from an ordinary developer machine.
type HostFacts struct {
	// CgroupV2 says that the unified hierarchy is mounted at /sys/fs/cgroup.
	CgroupV2 bool
	// SysResource says that CAP_SYS_RESOURCE is in the bounding set.
	SysResource bool
	// IPv6 says that the kernel has IPv6.
	IPv6 bool
}

// DetectHost reads the facts of this host.
func DetectHost() (HostFacts, error) {
	var f HostFacts
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		f.CgroupV2 = true
	}
	if _, err := os.Stat("/proc/sys/net/ipv6"); err == nil {
		f.IPv6 = true
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return f, fmt.Errorf("reading this process's capabilities: %w", err)
	}
	f.SysResource, err = hasSysResource(string(status))
	return f, err
}

// hasSysResource reads the bounding set out of /proc/PID/status.
func hasSysResource(status string) (bool, error) {
	const capSysResource = 24 // linux/capability.h
	for line := range strings.Lines(status) {
		rest, ok := strings.CutPrefix(line, "CapBnd:")
		if !ok {
			continue
		}
		var set uint64
		if _, err := fmt.Sscanf(strings.TrimSpace(rest), "%x", &set); err != nil {
			return false, fmt.Errorf("reading this process's capabilities: %w", err)
		}
		return set&(1<<capSysResource) != 0, nil
	}
	return false, fmt.Errorf("reading this process's capabilities: no CapBnd in its status")
}

// Files are written on the host and mounted into the nodes, by path in a node.
type Files map[string]string

const (
	dropInPath = "/etc/systemd/system/kubelet.service.d/20-stockade.conf"
	auditPath  = "/etc/kubernetes/stockade/audit.yaml"
	resolvPath = "/etc/kubernetes/stockade/resolv.conf"
	// dnsPath is in a folder of its own, which kubeadm reads by its files' names.
	dnsPath = "/etc/kubernetes/stockade/patches/corednsdeployment.yaml"
	// offPath configures gVisor for the runtime handler without a network.
	offPath = "/etc/containerd/runsc-no-network.toml"
	// AuditLog is the API server's audit log in the control-plane node.
	AuditLog = "/var/log/kubernetes/audit.log"
)

// NodeFiles returns the files that nodes on such a host need.
func NodeFiles(f HostFacts) Files {
	return Files{
		dropInPath: kubeletDropIn(f),
		auditPath:  auditPolicy,
		resolvPath: "nameserver " + ResolverAddress + "\n",
		offPath:    offConfig(f),
		dnsPath:    dnsPatch,
	}
}

// offConfig is gVisor's configuration with its network off: what is in the
// sandbox has the loopback and nothing else, whatever the Pod is given.
func offConfig(f HostFacts) string {
	text := "# Written by Stockade.\n[runsc_config]\n  platform = \"systrap\"\n  network = \"none\"\n"
	if f.CgroupV2 {
		text += "  systemd-cgroup = \"true\"\n"
	}
	return text
}

// offHandler is the runtime handler of the class gvisor-no-network.
const offHandler = `[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runsc-no-network]
  runtime_type = "io.containerd.runsc.v1"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runsc-no-network.options]
    TypeUrl = "io.containerd.runsc.v1.options"
    ConfigPath = "` + offPath + `"
`

// ResolverAddress is the DNS server behind CoreDNS. Like every address it does
// not exist in the seal until the range answers for it; being reserved for
// documentation (RFC 5737), it would be plain to see if it leaked. Docker's own
// resolver, which kind's nodes use, is out of the Pods' reach behind Cilium.
const ResolverAddress = "192.0.2.53"

// kubeletDropIn prepares a node before its kubelet starts.
func kubeletDropIn(f HostFacts) string {
	lines := []string{
		"# Written by Stockade.",
		"[Service]",
		// Cilium pins its maps and attaches to cgroups by these mounts, and
		// both have to be visible from its Pod and back.
		"ExecStartPre=/bin/sh -c 'mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf; mount --make-shared /sys/fs/bpf'",
		"ExecStartPre=/bin/sh -c 'mkdir -p /run/cilium/cgroupv2; mountpoint -q /run/cilium/cgroupv2 || mount -t cgroup2 none /run/cilium/cgroupv2'",
	}
	if !f.CgroupV2 {
		// kind's entrypoint mounts the kubelet's cgroups over themselves, and
		// runsc then computes paths from a mount point that is not the
		// hierarchy's root. systemd does not remove cgroups that are in use.
		lines = append(lines, "ExecStartPre=/bin/sh -c 'for c in /sys/fs/cgroup/*/kubelet /sys/fs/cgroup/*/kubelet.slice; do ! mountpoint -q $c || umount -l $c; done'")
	}
	return strings.Join(lines, "\n") + "\n"
}

// dnsPatch has the cluster's DNS asked every second whether it is ready. kubeadm
// asks every ten, and the first time it is a moment too early.
const dnsPatch = `# Written by Stockade.
spec:
  template:
    spec:
      containers:
      - name: coredns
        readinessProbe: {periodSeconds: 1}
`

// auditPolicy keeps who did what, without bodies: they may hold secrets. Reads
// by the cluster's own components would drown everything else.
const auditPolicy = `# Written by Stockade.
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  userGroups: ["system:nodes"]
  verbs: [get, list, watch, patch, update, create]
- level: None
  users: ["system:kube-controller-manager", "system:kube-scheduler", "system:apiserver"]
- level: None
  nonResourceURLs: ["/livez*", "/readyz*", "/healthz*", "/version", "/openapi/*"]
- level: None
  resources:
  - {group: coordination.k8s.io}
  - {group: "", resources: [events]}
- level: None
  users: ["system:serviceaccount:kube-system:cilium"]
- level: Metadata
`

// kubeadmPatches are kubeadm configuration for all nodes, one document each.
func kubeadmPatches(f HostFacts, repository string) []string {
	patches := []string{
		fmt.Sprintf(`kind: ClusterConfiguration
imageRepository: %s
apiServer:
  extraArgs:
  - {name: audit-policy-file, value: %s}
  - {name: audit-log-path, value: %s}
  - {name: audit-log-maxsize, value: "50"}
  - {name: audit-log-maxbackup, value: "2"}
  extraVolumes:
  - {name: audit-policy, hostPath: %[2]s, mountPath: %[2]s, readOnly: true, pathType: File}
  - {name: audit-log, hostPath: %[4]s, mountPath: %[4]s, pathType: DirectoryOrCreate}
etcd:
  local:
    extraArgs:
    # A cluster that is thrown away need not survive a power cut.
    - {name: unsafe-no-fsync, value: "true"}
`, repository, auditPath, AuditLog, filepath.Dir(AuditLog)),
	}
	kubelet := fmt.Sprintf("kind: KubeletConfiguration\npodPidsLimit: %d\nresolvConf: %s\n", podPidsLimit, resolvPath)
	if !f.CgroupV2 {
		kubelet += "cgroupDriver: cgroupfs\nfailCgroupV1: false\n"
	}
	return append(patches, kubelet)
}

// containerdPatches change containerd's configuration in all nodes.
func containerdPatches(f HostFacts) []string {
	patches := []string{offHandler}
	if !f.SysResource {
		patches = append(patches, `[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
`)
	}
	if !f.CgroupV2 {
		patches = append(patches, `[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.test-handler.options]
  SystemdCgroup = false
`)
	} else {
		// The kubelet uses the systemd driver there, and gVisor has to follow.
		patches = append(patches, `[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runsc.options]
  ConfigPath = "/etc/containerd/runsc-systemd.toml"
`)
	}
	return patches
}

// Config returns kind's configuration for a host. filesDir is the folder that
// holds NodeFiles, by base name.
func Config(f HostFacts, name, image, repository, filesDir string) *v1alpha4.Cluster {
	var mounts []v1alpha4.Mount
	for _, path := range slices.Sorted(maps.Keys(NodeFiles(f))) {
		mounts = append(mounts, v1alpha4.Mount{
			HostPath: filepath.Join(filesDir, filepath.Base(path)), ContainerPath: path, Readonly: true,
		})
	}
	family := v1alpha4.DualStackFamily
	pods, services := PodSubnets, ServiceSubnets
	if !f.IPv6 {
		family = v1alpha4.IPv4Family
		pods, _, _ = strings.Cut(PodSubnets, ",")
		services, _, _ = strings.Cut(ServiceSubnets, ",")
	}
	c := &v1alpha4.Cluster{
		TypeMeta: v1alpha4.TypeMeta{Kind: "Cluster", APIVersion: "kind.x-k8s.io/v1alpha4"},
		Name:     name,
		Networking: v1alpha4.Networking{
			IPFamily:          family,
			PodSubnet:         pods,
			ServiceSubnet:     services,
			DisableDefaultCNI: true,
			KubeProxyMode:     v1alpha4.ProxyMode("none"),
		},
		KubeadmConfigPatches:    kubeadmPatches(f, repository),
		ContainerdConfigPatches: containerdPatches(f),
		Nodes: []v1alpha4.Node{
			{
				Role: v1alpha4.ControlPlaneRole, Image: image, ExtraMounts: mounts,
				// With a worker present kubeadm would keep Pods off this node,
				// which is the system pool too.
				KubeadmConfigPatches: []string{fmt.Sprintf(
					"kind: InitConfiguration\nnodeRegistration:\n  taints: []\npatches: {directory: %s}\n", filepath.Dir(dnsPath))},
			},
			{
				Role: v1alpha4.WorkerRole, Image: image, ExtraMounts: mounts,
				Labels: map[string]string{SandboxKey: SandboxValue},
				KubeadmConfigPatches: []string{fmt.Sprintf(
					"kind: JoinConfiguration\nnodeRegistration:\n  taints:\n  - {key: %s, value: %s, effect: NoSchedule}\n", SandboxKey, SandboxValue)},
			},
		},
	}
	v1alpha4.SetDefaultsCluster(c)
	return c
}
