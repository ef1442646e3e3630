// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/conformance/suite"
)

// MaxPids is the largest podPidsLimit that counts as a limit. GKE takes 1024
// to 4194304, and a node's kernel runs out of PIDs at 4194304.
const MaxPids = 16384

// reservedKey is the key of the label and the taint that GKE sets itself.
const reservedKey = "sandbox.gke.io/runtime"

// sandboxed tells whether a pool runs gVisor, where that is known.
func sandboxed(r Resource) (yes bool, st state) {
	for _, path := range []string{"nodeConfig.sandboxConfig.sandboxType", "nodeConfig.sandboxConfig.type"} {
		if s, st := r.text(path); st != absent {
			return strings.EqualFold(s, "gvisor"), st
		}
	}
	return false, absent
}

func isSandboxed(r Resource) bool { yes, st := sandboxed(r); return yes && st == known }

func noPools(p Profile) string {
	return unless(!p.Autopilot, "Autopilot makes its own nodes, with gVisor and the GKE metadata server")
}

func hasPools(g Graph) bool { return len(g.of(typePool)) > 0 }

// ownNodes tells whether the cluster is born with a node of its own. Also where
// that pool is removed, which is what our rules want, it is there for minutes.
func ownNodes(c Resource) bool {
	on, st := c.flag("enableAutopilot")
	return st == absent || st == known && !on
}

// firstPool tells whether the cluster says what that node is like. It must where it
// is made, and cannot be held to it later: Google may tell nothing any more of a pool
// that is gone, and then nor does a stack that was refreshed.
func firstPool(c Resource) bool {
	_, st := c.find("nodeConfig")
	return ownNodes(c) && st != absent
}

// autoProvisioning is where a Standard cluster lets GKE make pools as it sees fit.
const autoProvisioning = "clusterAutoscaling.enabled"

// pools are the pools of the graph, for rules that look at each of them. What a
// cluster has beside them is not judged, so where something stays nothing holds.
func (l *look) pools() []Resource {
	for _, c := range l.of(typeCluster) {
		if !ownNodes(c) {
			continue
		}
		if gone, st := c.flag("removeDefaultNodePool"); st != known || !gone {
			l.unsure(c.String()+": removeDefaultNodePool", "the pool that the cluster is born with stays, and is none of those in the graph")
		}
		if on, st := c.flag(autoProvisioning); st == unknown || on {
			l.unsure(c.String()+": "+autoProvisioning, "GKE makes pools of its own choice, and they are none of those in the graph")
		}
		l.inlinePools(c)
	}
	return l.each(typePool)
}

var poolRules = []*Rule{
	{
		ID: "plan.gvisor-pool", Title: "Find no pool that runs gVisor",
		About:  "On Standard a pool of its own on cos_containerd with GKE's sandbox; on Autopilot none of ours, because GKE makes them. A template that does not ask for gVisor gets the node's own runtime on either.",
		Claims: []string{"AS-17", "KG-01", "PG-01"}, Severity: suite.Critical,
		Mutants: []Mutant{
			{"ubuntu-nodes", "the gVisor pool has another node image", setWhere(typePool, isSandboxed, "nodeConfig.imageType", "UBUNTU_CONTAINERD")},
			{"pool-on-autopilot", "there is a pool beside Autopilot", func(g *Graph) bool {
				if len(g.of(typeCluster)) == 0 || hasPools(*g) {
					return false
				}
				g.Resources = append(g.Resources, Resource{Type: typePool, Name: "mutant", Inputs: map[string]any{"nodeConfig": map[string]any{}}})
				return true
			}},
			{"template-without-gvisor", "a template asks for no runtime", func(g *Graph) bool {
				for _, r := range g.Resources {
					if isTemplate(r) {
						return r.put(runtimeClass, "")
					}
				}
				return false
			}},
		},
		judge: judgeGVisorPool,
	},
	{
		ID: "plan.default-pool", Title: "Find nodes that no pool of the program describes",
		About: "A cluster is born with a pool of Google's choice: nodes without gVisor that run as the project's default account, with a metadata server that gives out " +
			"their own identity. Nothing of them stands in the plan, so that no other rule sees them; they have to be removed. Node auto-provisioning makes more of the kind later.",
		Claims: []string{"AS-17", "AS-03", "KG-09"}, Severity: suite.High,
		skip: noPools, present: hasPools,
		Mutants: []Mutant{
			{"default-pool-kept", "the pool that the cluster was born with stays", set(typeCluster, "removeDefaultNodePool", false)},
			{"auto-provisioned-pools", "GKE makes pools of its own choice", set(typeCluster, autoProvisioning, true)},
		},
		judge: func(l *look) {
			for _, c := range l.each(typeCluster) {
				if !autopilot(c) {
					l.wants(c, "removeDefaultNodePool", true)
					l.off(c, autoProvisioning, true)
				}
			}
		},
	},
	{
		ID: "plan.system-pool", Title: "Find gVisor on the only pool",
		About:  "GKE's own Pods do not run under gVisor: GKE refuses a cluster whose only pool is sandboxed, and the controller must not share a node with what it controls.",
		Claims: []string{"AS-17", "AS-13"}, Severity: suite.High,
		skip: noPools, present: hasPools,
		Mutants: []Mutant{{"only-gvisor", "every pool but the gVisor one is gone", drop(func(r Resource) bool { return r.Type == typePool && !isSandboxed(r) })}},
		judge: func(l *look) {
			plain := 0
			l.shared()
			for _, p := range l.each(typePool) {
				switch yes, st := sandboxed(p); {
				case st == unknown:
					l.missing(p, "nodeConfig.sandboxConfig.sandboxType", st)
					return
				case !yes:
					plain++
				}
			}
			if plain > 0 {
				l.sound("pools without gVisor", "there are %d", plain)
			} else if hasPools(l.Graph) {
				l.weak("pools without gVisor", "there is none")
			}
		},
	},
	{
		ID: "plan.reserved-taint", Title: "Find the sandbox's taint or label set by hand",
		About:  "GKE sets " + reservedKey + " itself and answers 400 to a pool that names it; where it is taken, every later plan wants to replace the pool.",
		Claims: []string{"AS-17", "AS-13"}, Severity: suite.Medium,
		skip: noPools, present: hasPools,
		Mutants: []Mutant{{"manual-taint", "the program sets the taint", setWhere(typePool, isSandboxed, "nodeConfig.taints",
			[]any{map[string]any{"key": reservedKey, "value": "gvisor", "effect": "NO_SCHEDULE"}})}},
		judge: func(l *look) {
			for _, p := range l.pools() {
				l.reserved(p)
			}
		},
	},
	{
		ID: "plan.metadata-mode", Title: "Find nodes whose metadata server gives out their own identity",
		About:  "GCE_METADATA shows every Pod the node's token; GKE_METADATA only the Pod's own.",
		Claims: []string{"KG-07", "KG-09", "AS-03"}, Severity: suite.Critical,
		skip: noPools, present: hasPools,
		Mutants: []Mutant{
			{"gce-metadata", "Pods see the node's metadata server", setWhere(typePool, isSandboxed, "nodeConfig.workloadMetadataConfig.mode", "GCE_METADATA")},
			{"gce-metadata-first-pool", "Pods on the cluster's first node see its metadata server", setWhere(typeCluster, firstPool, "nodeConfig.workloadMetadataConfig.mode", "GCE_METADATA")},
		},
		judge: func(l *look) {
			const path = "nodeConfig.workloadMetadataConfig.mode"
			for _, p := range l.pools() {
				l.wants(p, path, "GKE_METADATA")
			}
			for _, c := range l.of(typeCluster) {
				if firstPool(c) {
					l.wants(c, path, "GKE_METADATA")
				}
			}
		},
	},
	{
		ID: "plan.pids-limit", Title: "Find gVisor nodes without a limit of processes",
		About:  "gVisor's own limits end at its sentry: podPidsLimit bounds what one Pod takes of the node.",
		Claims: []string{"PG-07"}, Severity: suite.Medium,
		skip: noPools, present: hasPools,
		Mutants: []Mutant{{"no-pids-limit", "the limit is as high as GKE takes it", setWhere(typePool, isSandboxed, "nodeConfig.kubeletConfig.podPidsLimit", float64(4194304))}},
		judge: func(l *look) {
			found := false
			for _, p := range l.pools() {
				if yes, st := sandboxed(p); !yes && st != unknown {
					continue
				}
				found = true
				const path = "nodeConfig.kubeletConfig.podPidsLimit"
				v, st := p.find(path)
				n, ok := v.(float64)
				switch {
				case st != known:
					l.missing(p, path, st)
				case !ok:
					l.missing(p, path, unknown)
				case n >= 1 && n <= MaxPids:
					l.sound(p.String()+": "+path, "it is %.0f", n)
				default:
					l.weak(p.String()+": "+path, "%.0f is not between 1 and %d", n, MaxPids)
				}
			}
			if !found && hasPools(l.Graph) {
				l.unsure("gVisor pools", "there is none in the graph")
			}
		},
	},
	{
		ID: "plan.cpu-quota", Title: "Find nodes that do not hold Pods to their CPU limit",
		About:  "With cpuCfsQuota off a limit is written down and nothing keeps it; a kubelet block that leaves it out has been read as off.",
		Claims: []string{"AS-09"}, Severity: suite.High,
		skip: noPools, present: hasPools,
		Mutants: []Mutant{{"no-cfs-quota", "CPU limits are not kept", setWhere(typePool, isSandboxed, "nodeConfig.kubeletConfig.cpuCfsQuota", false)}},
		judge: func(l *look) {
			for _, p := range l.pools() {
				l.wants(p, "nodeConfig.kubeletConfig.cpuCfsQuota", true)
			}
		},
	},
	{
		ID: "plan.shielded-nodes", Title: "Find nodes that boot what is not signed",
		About:    "Secure Boot and integrity monitoring keep an escape from outliving the node's next boot.",
		Claims:   []string{"AS-17"},
		Severity: suite.Medium,
		skip:     noPools, present: hasPools,
		Mutants: []Mutant{{"no-secure-boot", "Secure Boot is off", setWhere(typePool, isSandboxed, "nodeConfig.shieldedInstanceConfig.enableSecureBoot", false)}},
		judge: func(l *look) {
			for _, c := range l.each(typeCluster) {
				if !autopilot(c) {
					l.wants(c, "enableShieldedNodes", true)
				}
			}
			for _, p := range l.pools() {
				l.wants(p, "nodeConfig.shieldedInstanceConfig.enableSecureBoot", true)
				l.wants(p, "nodeConfig.shieldedInstanceConfig.enableIntegrityMonitoring", true)
			}
		},
	},
	{
		ID: "plan.kubelet-port", Title: "Find the kubelet's port that asks nobody",
		About:    "Port 10255 tells every caller on the network which Pods run, with their environments' names.",
		Claims:   []string{"KG-07"},
		Severity: suite.Medium,
		Mutants: []Mutant{
			{"kubelet-read-only-port", "the read-only port is open", setWhere(typePool, isSandboxed, "nodeConfig.kubeletConfig.insecureKubeletReadonlyPortEnabled", "TRUE")},
			{"kubelet-read-only-port-autopilot", "the read-only port is open", setWhere(typeCluster, autopilot, "nodePoolAutoConfig.nodeKubeletConfig.insecureKubeletReadonlyPortEnabled", "TRUE")},
		},
		judge: func(l *look) {
			const key = "insecureKubeletReadonlyPortEnabled"
			l.nodes("nodePoolAutoConfig.nodeKubeletConfig."+key, "nodeConfig.kubeletConfig."+key,
				func(r Resource, path string) { l.wants(r, path, "FALSE") })
		},
	},
	{
		ID: "plan.node-identity", Title: "Find nodes that run as the project's default account",
		About:  "The default Compute Engine account is an editor of the project in many of them; a node needs to write logs and to pull images.",
		Claims: []string{"KG-09"}, Severity: suite.High,
		Mutants: []Mutant{
			{"default-account", "nodes run as the default account", setWhere(typePool, isSandboxed, "nodeConfig.serviceAccount", "default")},
			{"default-account-first-pool", "the cluster's first node runs as the default account", setWhere(typeCluster, firstPool, "nodeConfig.serviceAccount", "default")},
			{"default-account-autopilot", "nodes run as the default account", setWhere(typeCluster, autopilot, "clusterAutoscaling.autoProvisioningDefaults.serviceAccount", "default")},
		},
		judge: func(l *look) {
			l.nodes("clusterAutoscaling.autoProvisioningDefaults.serviceAccount", "nodeConfig.serviceAccount", l.account)
			for _, c := range l.of(typeCluster) {
				if firstPool(c) {
					l.account(c, "nodeConfig.serviceAccount")
				}
			}
		},
	},
}

// runtimeClass is where a template, or a sandbox, says under which runtime it runs.
const runtimeClass = "spec.podTemplate.spec.runtimeClassName"

// gvisorClass is the name of the class that GKE makes, and of its handler.
const gvisorClass = "gvisor"

// runtimes records whether sandboxes ask for gVisor, by the name of GKE's own class.
func (l *look) runtimes() {
	for _, r := range l.Resources {
		name, _ := r.text("metadata.name")
		switch {
		case strings.HasPrefix(r.Type, prefixKubernetes+"node.k8s.io/") && name == gvisorClass:
			l.wants(r, "handler", gvisorClass)
		case isSandboxPatch(r):
			l.unsure(r.String(), "it changes a sandbox that is made elsewhere, and is not understood")
		case !isTemplate(r) && !isSandbox(r):
		case r.is(runtimeClass, absent):
			l.weak(r.String()+": "+runtimeClass, "it is not set, and the default is the node's own runtime")
		default:
			l.wants(r, runtimeClass, gvisorClass)
		}
	}
}

func judgeGVisorPool(l *look) {
	l.runtimes()
	clusters, standard := l.each(typeCluster), 0
	for _, c := range clusters {
		on, st := c.flag("enableAutopilot")
		switch {
		case st == unknown:
			l.missing(c, "enableAutopilot", st)
			return
		case on && hasPools(l.Graph):
			l.weak("pools beside Autopilot", "there are %d", len(l.of(typePool)))
		case on:
			l.sound("pools beside Autopilot", "there is none: GKE makes them, with gVisor on")
		case l.Autopilot:
			l.weak(c.String()+": enableAutopilot", "it is off where Autopilot is declared")
		default:
			standard++
		}
	}
	if len(clusters) > 0 && standard == 0 {
		return
	}
	l.shared()
	found, undecided := 0, false
	for _, p := range l.each(typePool) {
		switch yes, st := sandboxed(p); {
		case st == unknown:
			undecided = true
			l.missing(p, "nodeConfig.sandboxConfig.sandboxType", st)
		case yes:
			found++
			image, st := p.text("nodeConfig.imageType")
			if st != known {
				l.missing(p, "nodeConfig.imageType", st)
				continue
			}
			// Google takes either spelling.
			l.compare(p.String()+": nodeConfig.imageType", strings.ToUpper(image), "COS_CONTAINERD")
		}
	}
	if found == 0 && !undecided && hasPools(l.Graph) {
		l.weak("pools with gVisor", "there is none")
	}
}

// shared records that it cannot be told whose a pool is, where several clusters have
// some: what one of them has, another may lack.
func (l *look) shared() {
	n := 0
	for _, c := range l.of(typeCluster) {
		if !autopilot(c) {
			n++
		}
	}
	if n > 1 {
		l.unsure("pools of several clusters", fmt.Sprintf("there are %d clusters with pools, and whose a pool is, is not read: judge each by itself", n))
	}
	for _, p := range l.of(typePool) {
		if l.elsewhere(p) {
			l.unsure(p.String()+": cluster", "it is of a cluster that is not in the graph")
		}
	}
}

// elsewhere tells whether a pool names a cluster that is none of the graph's. What is
// not known yet is made by the program.
func (l *look) elsewhere(p Resource) bool {
	of, st := p.text("cluster")
	if st != known {
		return false
	}
	of = of[strings.LastIndexByte(of, '/')+1:]
	return !slices.ContainsFunc(l.of(typeCluster), func(c Resource) bool {
		name, st := c.text("name")
		return st != known || name == of
	})
}

// reserved records whether a pool names the key that GKE keeps for itself.
func (l *look) reserved(p Resource) {
	before := len(l.steps)
	labels, st := p.find("nodeConfig.labels")
	switch m, ok := labels.(map[string]any); {
	case st == unknown, st == known && !ok:
		l.missing(p, "nodeConfig.labels", unknown)
	case m[reservedKey] != nil:
		l.weak(p.String()+": nodeConfig.labels", "it sets %s", reservedKey)
	}
	taints, st := p.objects("nodeConfig.taints")
	if st == unknown {
		l.missing(p, "nodeConfig.taints", st)
	}
	for _, t := range taints {
		key, st := t.text("key")
		switch {
		case st != known:
			l.missing(p, "nodeConfig.taints.key", st)
		case key == reservedKey:
			l.weak(p.String()+": nodeConfig.taints", "it sets %s", reservedKey)
		}
	}
	if len(l.steps) == before {
		l.sound(p.String(), "it names neither a label nor a taint %s", reservedKey)
	}
}

// account records whether the account at path is one of the project's own, and whether
// the graph makes it: what another may do is said elsewhere.
func (l *look) account(r Resource, path string) {
	const domain = ".iam.gserviceaccount.com"
	l.suits(r, path, "is not an account made for it", func(email string) bool { return strings.HasSuffix(email, domain) })
	email, _ := r.text(path)
	id, of, _ := strings.Cut(strings.TrimSuffix(email, domain), "@")
	if !strings.HasSuffix(email, domain) || slices.ContainsFunc(l.of(typeAccount), func(a Resource) bool {
		made, st := a.text("accountId")
		project, projectState := a.text("project")
		return st == known && made == id && (projectState != known || project == of)
	}) {
		return
	}
	l.unsure(r.String()+": "+path, fmt.Sprintf("%.120q is not made in the graph, and nor are all of its roles", email))
}

// nodes checks the settings of all nodes: on Autopilot the cluster has them, at
// a path of its own, elsewhere its pools.
func (l *look) nodes(autopilotPath, poolPath string, check func(r Resource, path string)) {
	standard := false
	for _, c := range l.each(typeCluster) {
		if autopilot(c) {
			check(c, autopilotPath)
		} else {
			standard = true
		}
	}
	if standard || hasPools(l.Graph) {
		for _, p := range l.pools() {
			check(p, poolPath)
		}
	}
}
