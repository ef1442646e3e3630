// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"context"
	"strings"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// BelowRestricted asks, in dry runs, for a compliant Pod of the target's with one
// thing changed, for each thing that Pod Security's level restricted forbids. A
// refusal by anybody else, by another level or for another thing is no denial: what
// was asked for may be allowed.
func BelowRestricted(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	steps := make([]verdict.Step, 0, len(demands))
	for _, d := range demands {
		pod := env.Pod()
		d.broken(Child(pod, "spec"))
		steps = append(steps, d.own(DryRun(ctx, env, d.name, pod)))
	}
	return steps
}

// demand is one of the level's, with a part of its words for it.
type demand struct {
	name, says string
	broken     Change
}

// demands begin with those of the level baseline.
var demands = []demand{
	{"privileged", "privileged", InContainers(func(c Object) {
		s := Child(c, "securityContext")
		s["privileged"] = true
		delete(s, "allowPrivilegeEscalation") // the API server takes no false beside it
	})},
	{"hostNetwork", "host namespaces", Set("hostNetwork", true)},
	{"hostPID", "host namespaces", Set("hostPID", true)},
	{"hostIPC", "host namespaces", Set("hostIPC", true)},
	{"a folder of the node", "volume", Volume(Object{"hostPath": Object{"path": "/run/containerd"}})},
	{"a port of the node", "hostPort", InContainers(Set("ports", []any{
		Object{"containerPort": int64(8080), "hostPort": int64(8080), "protocol": "TCP"}}))},
	{"a capability added", "capabilities", InContainers(Security("capabilities", Object{"drop": []any{"ALL"}, "add": []any{"NET_RAW"}}))},
	{"an unsafe sysctl", "sysctls", Security("sysctls", []any{Object{"name": "kernel.msgmax", "value": "65536"}})},

	{"privilege escalation allowed", "allowPrivilegeEscalation", InContainers(Security("allowPrivilegeEscalation", true))},
	{"capabilities kept", "capabilities", InContainers(Security("capabilities", Object{}))},
	{"no seccomp profile", "seccompProfile", leftOut("seccompProfile")},
	{"runAsNonRoot left out", "runAsNonRoot", leftOut("runAsNonRoot")},
	{"runAsUser 0", "runAsUser", Security("runAsUser", int64(0))},
	{"a disk of the network", "volume", Volume(Object{"nfs": Object{"server": "stockade.test", "path": "/"}})},
}

// leftOut takes a field out of every security context, the Pod's and the containers'.
func leftOut(field string) Change {
	without := func(o Object) { delete(Child(o, "securityContext"), field) }
	return func(spec Object) {
		without(spec)
		InContainers(without)(spec)
	}
}

func (d demand) own(step verdict.Step) verdict.Step {
	_, why, restricted := strings.Cut(step.Detail, `violates PodSecurity "restricted`)
	if step.Class == verdict.AdmissionDenied && (!restricted || !strings.Contains(why, d.says)) {
		step.Class, step.Detail = verdict.Unknown, "refused, but not for this by Pod Security's level restricted: "+step.Detail
	}
	return step
}
