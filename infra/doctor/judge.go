// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Level says how bad a finding is.
type Level string

const (
	// OK needs no attention.
	OK Level = "ok"
	// Warn works, with a limit that is worth knowing.
	Warn Level = "warn"
	// Fail keeps the local cluster from working.
	Fail Level = "fail"
)

// Finding is the outcome of one check.
type Finding struct {
	Name   string `json:"name"` // of the check
	Level  Level  `json:"level"`
	Detail string `json:"detail,omitempty"`
	// Remedy is what to do; empty when there is nothing to do.
	Remedy string `json:"remedy,omitempty"`
}

// Facts is what Judge decides on. The zero value is the worst machine there is.
type Facts struct {
	Arch   string // as runtime.GOARCH
	Root   bool
	Kernel string // release

	// Features holds what the kernel offers, by name in kernelFeatures. A
	// feature that could not be told is not in it.
	Features map[string]bool

	Cgroup      int  // 1 or 2; 0 when nothing is mounted
	SysResource bool // CAP_SYS_RESOURCE is in the bounding set

	Programs map[string]bool // by name in programs, found on PATH
	Go       string          // go version, such as go1.26.0
	GoWanted string          // the least that is needed

	MemoryAvailable int64 // bytes
	DiskFree        int64 // bytes, where STOCKADE_HOME is or will be
	Home            string

	DockerSocket bool // somebody's Docker engine answers at the usual place

	// What is there of ours.
	Namespace bool     // the sealed network namespace
	Engine    bool     // our engine runs
	Leftovers []string // mounts, or a namespace without an engine
	Images    ImageState
}

// ImageState says what of the images is built.
type ImageState struct {
	Checked bool // a checkout was found to compare with
	Cached  bool
	Detail  string // what was found, or why that cannot be told
}

// Check is one question about the machine.
type Check struct {
	Name string
	// Run judges; it must not look at anything but the facts.
	Run func(Facts) Finding
}

// program is a command that is needed, and the Debian package that has it.
type program struct {
	name, pkg string
	need      Level // what its absence is
	why       string
}

// programs are all that a machine has to have, beside what a checkout is made with (git
// and make) and what every Debian has, and some that help. The README and CI install those whose absence is
// a Fail.
var programs = []program{
	{"docker", "docker.io", Fail, "talks to the engine"},
	{"dockerd", "docker.io", Fail, "is the engine"},
	{"containerd", "containerd", Fail, "runs the engine's containers"},
	{"runc", "runc", Fail, "starts containers"},
	{"ip", "iproute2", Fail, "makes the seal and the range's routes"},
	{"iptables", "iptables", Fail, "is called by Docker"},
	{"debootstrap", "debootstrap", Fail, "builds the node image"},
	{"tcpdump", "tcpdump", Warn, "helps when a flow has to be looked at"},
}

// feature is something the kernel must offer.
type feature struct {
	name string
	need Level
	why  string
}

var kernelFeatures = []feature{
	{"veth", Fail, "links nodes and Pods"},
	{"bridge", Fail, "links the nodes"},
	{"nf_tables", Fail, "Docker's and Cilium's rules"},
	{"tproxy", Fail, "the range answers for every address by it"},
	{"overlay", Fail, "container file systems"},
	{"bpf", Fail, "Cilium's datapath"},
	{"btf", Warn, "Cilium falls back to programs without it"},
	{"vxlan", Warn, "needed only with a tunnel between nodes"},
	{"fuse", Warn, "needed only on file systems that overlay does not support"},
	{"ipv6", Warn, "the cluster gets IPv4 only, and IPv6 attacks are not applicable"},
	{"kvm", Warn, "gVisor uses its slower systrap platform"},
}

const gib = int64(1) << 30

// Least and recommended resources, measured: two nodes with Cilium and a dozen
// gVisor Pods take 4 GiB; building Kubernetes from source takes 5 GiB more.
const (
	memoryNeeded = 6 * gib
	memoryWanted = 12 * gib
	diskNeeded   = 15 * gib
	diskWanted   = 30 * gib
)

// Checks lists all checks in the order in which they are worth reading.
func Checks() []Check {
	return []Check{
		{"operating system", func(f Facts) Finding {
			return Finding{Level: OK, Detail: strings.TrimSpace("Linux " + f.Kernel + " " + f.Arch)}
		}},
		{"privileges", func(f Facts) Finding {
			if !f.Root {
				return Finding{Level: Fail, Detail: "not root", Remedy: "run the command with sudo: network namespaces and the engine need root"}
			}
			return Finding{Level: OK, Detail: "root"}
		}},
		{"kernel features", judgeFeatures},
		{"cgroups", func(f Facts) Finding {
			switch f.Cgroup {
			case 2:
				return Finding{Level: OK, Detail: "version 2"}
			case 1:
				return Finding{Level: OK, Detail: "version 1; the cluster is adapted to it"}
			}
			return Finding{Level: Fail, Detail: "no hierarchy is mounted at /sys/fs/cgroup", Remedy: "mount one (systemd does)"}
		}},
		{"CAP_SYS_RESOURCE", func(f Facts) Finding {
			if f.SysResource {
				return Finding{Level: OK, Detail: "in the bounding set"}
			}
			return Finding{Level: OK, Detail: "missing; runc is wrapped, and containers do without it"}
		}},
		{"programs", judgePrograms},
		{"Go", func(f Facts) Finding {
			if f.Go == "" {
				return Finding{Level: Fail, Detail: "no go command on PATH", Remedy: "install Go " + f.GoWanted + " or later: everything is built from source"}
			}
			if !goAtLeast(f.Go, f.GoWanted) {
				return Finding{Level: Fail, Detail: f.Go, Remedy: "install Go " + f.GoWanted + " or later"}
			}
			return Finding{Level: OK, Detail: f.Go}
		}},
		{"memory", func(f Facts) Finding {
			return f.shared(judgeSize("available", f.MemoryAvailable, memoryNeeded, memoryWanted, "close other programs, or use a larger machine"))
		}},
		{"disk", func(f Facts) Finding {
			return f.shared(judgeSize("free at "+f.Home, f.DiskFree, diskNeeded, diskWanted, "free some space (`stockade images prune` removes old images), or set STOCKADE_HOME to a larger disk"))
		}},
		{"other Docker engine", func(f Facts) Finding {
			if f.DockerSocket {
				return Finding{Level: OK, Detail: "one is running; it is not used and not touched"}
			}
			return Finding{Level: OK, Detail: "none"}
		}},
		{"our engine", judgeOwn},
		{"images", func(f Facts) Finding {
			switch {
			case !f.Images.Checked:
				return Finding{Level: Warn, Detail: f.Images.Detail, Remedy: "run the command in a checkout of Stockade"}
			case !f.Images.Cached && f.Images.Detail != "":
				return Finding{Level: Warn, Detail: f.Images.Detail, Remedy: "mend this first: `stockade up` will meet it too"}
			case !f.Images.Cached:
				return Finding{Level: Warn, Detail: "not built yet", Remedy: "run `stockade images build`; the first build takes 15 to 30 minutes, mostly compiling"}
			}
			return Finding{Level: OK, Detail: f.Images.Detail}
		}},
	}
}

// Judge runs all checks.
func Judge(f Facts) []Finding {
	var findings []Finding
	for _, c := range Checks() {
		finding := c.Run(f)
		finding.Name = c.Name
		findings = append(findings, finding)
	}
	return findings
}

func judgeFeatures(f Facts) Finding {
	level := OK
	var missing, unknown []string
	for _, k := range kernelFeatures {
		has, told := f.Features[k.name]
		switch {
		case !told:
			unknown = append(unknown, k.name)
			// What cannot be told must not count as present.
			level = worse(level, Warn)
		case !has:
			missing = append(missing, k.name+" ("+k.why+")")
			level = worse(level, k.need)
		}
	}
	if level == OK {
		return Finding{Level: OK, Detail: "all present"}
	}
	var parts []string
	if missing != nil {
		parts = append(parts, "missing: "+strings.Join(missing, ", "))
	}
	if unknown != nil {
		parts = append(parts, "cannot be told: "+strings.Join(unknown, ", "))
	}
	finding := Finding{Level: level, Detail: strings.Join(parts, "; ")}
	if level == Fail {
		finding.Remedy = "load the modules (modprobe), or use a distribution's kernel"
	}
	return finding
}

func worse(a, b Level) Level {
	if a == Fail || b == Fail {
		return Fail
	}
	if a == Warn || b == Warn {
		return Warn
	}
	return OK
}

func judgePrograms(f Facts) Finding {
	level := OK
	var missing, packages []string
	for _, p := range programs {
		if f.Programs[p.name] {
			continue
		}
		missing = append(missing, p.name+" ("+p.why+")")
		if !slices.Contains(packages, p.pkg) {
			packages = append(packages, p.pkg)
		}
		level = worse(level, p.need)
	}
	if missing == nil {
		return Finding{Level: OK, Detail: "all on PATH"}
	}
	return Finding{
		Level:  level,
		Detail: "missing: " + strings.Join(missing, ", "),
		Remedy: "apt-get install --no-install-recommends " + strings.Join(packages, " "),
	}
}

// shared softens a finding about memory or disk space where an engine runs already:
// the cluster in it has taken its share, so that less has to be free than before
// there was one.
func (f Facts) shared(found Finding) Finding {
	if f.Engine && found.Level == Fail {
		found.Level = Warn
		found.Detail += " before there is a cluster, and one stands"
	}
	return found
}

func judgeSize(what string, have, needed, wanted int64, remedy string) Finding {
	detail := fmt.Sprintf("%.1f GiB %s", float64(have)/float64(gib), what)
	switch {
	case have < needed:
		return Finding{Level: Fail, Detail: fmt.Sprintf("%s, %d GiB are needed", detail, needed/gib), Remedy: remedy}
	case have < wanted:
		return Finding{Level: Warn, Detail: fmt.Sprintf("%s, %d GiB are recommended for the first build", detail, wanted/gib)}
	}
	return Finding{Level: OK, Detail: detail}
}

func judgeOwn(f Facts) Finding {
	switch {
	case f.Engine:
		return Finding{Level: OK, Detail: "running in its seal"}
	case len(f.Leftovers) > 0:
		return Finding{Level: Warn, Detail: "not running, but left behind: " + strings.Join(f.Leftovers, ", "),
			Remedy: "`stockade up` takes over what is left, `stockade down` removes it"}
	}
	return Finding{Level: OK, Detail: "not running, nothing left behind"}
}

// goAtLeast compares versions such as go1.26.3 and 1.26. A version that cannot
// be read, such as that of a development build, is let through: the compiler
// itself will say what it lacks.
func goAtLeast(have, want string) bool {
	h, okH := parseGo(have)
	w, okW := parseGo(want)
	if !okH || !okW {
		return true
	}
	return h[0] > w[0] || h[0] == w[0] && h[1] >= w[1]
}

func parseGo(s string) (v [2]int, ok bool) {
	n, err := fmt.Sscanf(strings.TrimPrefix(s, "go"), "%d.%d", &v[0], &v[1])
	return v, err == nil && n == 2
}
