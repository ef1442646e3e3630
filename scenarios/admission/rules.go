// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

// object is short for the shape all cases are written in.
type object = manifest.Object

// rule is one demand of the admission policy, with the Pods that break it. A
// Pod breaks nothing but this rule: two violations in one request would hide
// which of two rules is missing.
type rule struct {
	id    string // the scenario's name within the family
	title string
	about string
	// says is a part of the policy's message for this rule and for no other. A
	// rejection with another message is not this rule's doing. The test of
	// package overlays compares it with the pinned policy.
	says     string
	mutants  []string
	severity suite.Severity
	cases    []variant
}

// variant is one way to break the rule.
type variant struct {
	name   string
	change func(pod object)
}

// The policy's demands, in its order: first what must be there, then what must
// not be.
var rules = []rule{
	{
		id: "require-runtime-class", title: "Create a sandbox outside of gVisor",
		about: "A Sandbox without the gVisor RuntimeClass would run on the node's own kernel. What a class is called says nothing of another whose name begins so.",
		says:  "runtimeClassName: gvisor", severity: suite.Critical,
		mutants: []string{"admission-no-runtime-class", "admission-audit-only", "admission-runtime-class-prefix"},
		cases: []variant{
			{"no runtimeClassName", manifest.Without("runtimeClassName")},
			{"another runtimeClassName", manifest.Set("runtimeClassName", "runc")},
			{"a runtimeClassName that begins alike", manifest.Set("runtimeClassName", "gvisor-runc")},
		},
	}, {
		id: "require-no-token", title: "Create a sandbox with a service account token",
		about: "The field must be false; leaving it out mounts a token of the namespace's default account.",
		says:  "'automountServiceAccountToken'", severity: suite.Critical,
		mutants: []string{"admission-no-token-rule"},
		cases: []variant{
			{"automountServiceAccountToken left out", manifest.Without("automountServiceAccountToken")},
			{"automountServiceAccountToken true", manifest.Set("automountServiceAccountToken", true)},
		},
	}, {
		id: "require-drop-all", title: "Create a sandbox that keeps its capabilities",
		about: "Every container has to drop ALL; dropping some of them is not enough.",
		says:  "drop 'ALL'", severity: suite.High,
		mutants: []string{"admission-no-drop-all"},
		cases: inEveryContainer(
			variant{"nothing dropped", manifest.Security("capabilities", object{})},
			variant{"only NET_RAW dropped", manifest.Security("capabilities", object{"drop": []any{"NET_RAW"}})},
		),
	}, {
		id: "require-cpu-limit", title: "Create a sandbox without a CPU limit",
		about: "An endless loop without a limit takes the node from its neighbours. A limit of 0 is none to the kubelet. How much is too much, the policy leaves open.",
		says:  "resource limits", severity: suite.Medium,
		mutants: []string{"admission-no-limits-rule", "admission-limits-of-zero"},
		cases:   inEveryContainer(variant{"no limits.cpu", limitless("cpu")}, variant{"limits.cpu of 0", unlimited("cpu")}),
	}, {
		id: "require-memory-limit", title: "Create a sandbox without a memory limit",
		about: "A runaway allocation without a limit presses on the whole node. A limit of 0 is none to the kubelet. How much is too much, the policy leaves open.",
		says:  "resource limits", severity: suite.Medium,
		mutants: []string{"admission-no-limits-rule", "admission-limits-of-zero"},
		cases:   inEveryContainer(variant{"no limits.memory", limitless("memory")}, variant{"limits.memory of 0", unlimited("memory")}),
	}, {
		id: "require-non-root", title: "Create a sandbox that runs as root",
		about: "The demand may be met for the Pod or for each container, and no container may take it back.",
		says:  "'runAsNonRoot: true'", severity: suite.High,
		mutants: []string{"admission-no-non-root-rule"},
		cases: append([]variant{{"runAsNonRoot left out everywhere", func(pod object) {
			leftOut := func(o object) { delete(manifest.Map(o, "securityContext"), "runAsNonRoot") }
			leftOut(pod)
			manifest.InContainers(leftOut)(pod)
		}}}, inEveryContainer(variant{"runAsNonRoot false", manifest.Security("runAsNonRoot", false)})...),
	}, {
		id: "require-node-selector", title: "Create a sandbox for any node",
		about: "Without the selector the Pod may be put on a node that has no gVisor.",
		says:  "nodeSelector", severity: suite.Medium,
		mutants: []string{"admission-no-node-selector-rule"},
		cases: []variant{
			{"no nodeSelector", manifest.Without("nodeSelector")},
			{"another node's selector", manifest.Set("nodeSelector", object{"sandbox.gke.io/runtime": "runc"})},
		},
	}, {
		id: "require-toleration", title: "Create a sandbox that gVisor's nodes turn away",
		about: "A sandbox that cannot go to the tainted nodes stays pending, or tempts somebody to take the taint away.",
		says:  "tolerate the gVisor taint", severity: suite.Low,
		mutants: []string{"admission-no-toleration-rule"},
		cases: []variant{
			{"no tolerations", manifest.Without("tolerations")},
			{"a toleration of another value", manifest.Set("tolerations", []any{object{
				"key": "sandbox.gke.io/runtime", "operator": "Equal", "value": "other", "effect": "NoSchedule"}})},
		},
	},

	{
		id: "reject-host-network", title: "Create a sandbox in the node's network",
		about: "The node's network has the node's own metadata credentials, and no NetworkPolicy applies in it.",
		says:  "'hostNetwork: true'", severity: suite.Critical,
		mutants: []string{"admission-no-host-network-rule"},
		cases:   []variant{{"hostNetwork", manifest.Set("hostNetwork", true)}},
	}, {
		id: "reject-host-pid", title: "Create a sandbox among the node's processes",
		about: "The node's process table leads to the file systems and the environments of everything on it.",
		says:  "'hostPID' and 'hostIPC'", severity: suite.Critical,
		mutants: []string{"admission-no-host-pid-rule"},
		cases:   []variant{{"hostPID", manifest.Set("hostPID", true)}},
	}, {
		id: "reject-host-ipc", title: "Create a sandbox in the node's IPC namespace",
		about: "Shared memory of other Pods on the node is in reach there.",
		says:  "'hostPID' and 'hostIPC'", severity: suite.High,
		mutants: []string{"admission-no-host-pid-rule"},
		cases:   []variant{{"hostIPC", manifest.Set("hostIPC", true)}},
	}, {
		id: "reject-privileged", title: "Create a privileged sandbox",
		about: "Privilege undoes nearly every other restriction; an init container has it just as well.",
		says:  "Privileged containers", severity: suite.Critical,
		mutants: []string{"admission-no-privileged-rule", "admission-containers-only"},
		cases:   inEveryContainer(variant{"privileged", manifest.Security("privileged", true)}),
	}, {
		id: "reject-host-path", title: "Create a sandbox with a folder of the node",
		about: "A hostPath volume leads to the container runtime's socket, and from there to the node.",
		says:  "HostPath volumes", severity: suite.Critical,
		mutants: []string{"admission-no-host-path-rule"},
		cases: []variant{
			{"the root folder", manifest.Volume(object{"hostPath": object{"path": "/"}})},
			{"the runtime's socket", manifest.Volume(object{"hostPath": object{"path": "/run/containerd/containerd.sock", "type": "Socket"}})},
		},
	}, {
		id: "reject-host-port", title: "Create a sandbox with a port of the node",
		about: "A host port is reached past the network policy that guards the Pod.",
		says:  "'hostPort'", severity: suite.Medium,
		mutants: []string{"admission-no-host-port-rule"},
		cases: inEveryContainer(variant{"hostPort", manifest.Set("ports", []any{
			object{"containerPort": int64(8080), "hostPort": int64(8080), "protocol": "TCP"}})}),
	}, {
		id: "reject-added-capability", title: "Create a sandbox with a capability added",
		about: "Dropping ALL and adding one back gives the one.",
		says:  "Capabilities.add", severity: suite.High,
		mutants: []string{"admission-no-added-capability-rule", "admission-one-capability-excepted"},
		cases: inEveryContainer(
			variant{"NET_RAW added", manifest.Security("capabilities", object{"drop": []any{"ALL"}, "add": []any{"NET_RAW"}})},
			variant{"SYS_ADMIN added", manifest.Security("capabilities", object{"drop": []any{"ALL"}, "add": []any{"SYS_ADMIN"}})},
			// Pod Security takes this one at every level.
			variant{"NET_BIND_SERVICE added", manifest.Security("capabilities", object{"drop": []any{"ALL"}, "add": []any{"NET_BIND_SERVICE"}})},
		),
	}, {
		id: "reject-projected-identity", title: "Create a sandbox with a projected identity",
		about: "A projected volume brings a token or a certificate where automounting is off.",
		says:  "Projected Service Account", severity: suite.Critical,
		mutants: []string{"admission-no-projected-rule"},
		cases: []variant{
			{"a service account token", projected(object{"serviceAccountToken": object{"path": "token", "audience": "stockade.test"}})},
			{"a cluster trust bundle", projected(object{"clusterTrustBundle": object{"name": "bundle", "path": "bundle.pem"}})},
			{"a Pod certificate", projected(object{"podCertificate": object{
				"signerName": "stockade.test/signer", "keyType": "ED25519", "credentialBundlePath": "bundle.pem"}})},
		},
	}, {
		id: "reject-sysctl", title: "Create a sandbox with a sysctl",
		about: "Kernel settings of the Pod are not the tenant's to choose.",
		says:  "'sysctls'", severity: suite.Low,
		mutants: []string{"admission-no-sysctl-rule"},
		cases: []variant{{"a sysctl", func(pod object) {
			manifest.Child(pod, "securityContext")["sysctls"] = []any{object{"name": "net.ipv4.ip_unprivileged_port_start", "value": "1"}}
		}}},
	}, {
		id: "reject-proc-mount", title: "Create a sandbox with an unmasked /proc",
		about: "The masked parts of /proc tell about the node, and some of them change it.",
		says:  "'procMount'", severity: suite.Medium,
		mutants: []string{"admission-no-proc-mount-rule"},
		cases:   inEveryContainer(variant{"procMount Unmasked", manifest.Security("procMount", "Unmasked")}),
	},
}

func limitless(resource string) func(object) {
	return func(c object) { delete(manifest.Child(manifest.Child(c, "resources"), "limits"), resource) }
}

// unlimited sets a limit that is none. A Pod could not exist that requests more.
func unlimited(resource string) func(object) {
	return func(c object) {
		for _, field := range []string{"limits", "requests"} {
			manifest.Child(manifest.Child(c, "resources"), field)[resource] = "0"
		}
	}
}

func projected(source object) func(object) {
	return manifest.Volume(object{"projected": object{"sources": []any{source}}})
}

// inEveryContainer turns changes of a container into changes of a Pod: once in
// its ordinary containers, and once in an init container beside compliant
// ordinary ones, which a policy that reads one list only would miss.
func inEveryContainer(changes ...variant) []variant {
	var all []variant
	for _, v := range changes {
		all = append(all,
			variant{v.name + ", in a container", manifest.InContainers(v.change)},
			variant{v.name + ", in an init container", func(pod object) {
				for _, c := range manifest.Containers(pod) {
					twin := manifest.Clone(c)
					twin["name"] = "attack"
					v.change(twin)
					pod["initContainers"] = []any{twin}
				}
			}})
	}
	return all
}
