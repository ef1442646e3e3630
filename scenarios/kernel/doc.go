// SPDX-License-Identifier: Apache-2.0

// Package kernel asks whose kernel answers. The claim is that code in the
// sandbox talks to gVisor's kernel and never to the node's, so the aim of each
// step here is an answer that only the node's kernel can have given.
//
// The steps open, ask and pass arguments that are invalid on purpose; nothing
// is written and nothing exploited. The same actions run in a privileged Pod
// on runc, on the sandbox's own node, so they must be harmless there too.
//
// Left out, and why:
//   - User namespaces with a mount inside (CVE-2022-0185): gVisor grants them
//     within its own kernel, and on runc the default seccomp profile denies
//     them. No single weakened control makes the attack succeed, so a verdict
//     on it would be worth nothing.
//   - The container's seccomp mode: 0 is right on gVisor, 2 on runc. It says
//     nothing about the claim.
//   - /dev/fuse and /dev/net/tun: gVisor has its own, which lead nowhere else.
package kernel

import (
	"fmt"
	"strings"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// Scenarios returns the family's scenarios.
func Scenarios() []suite.Scenario {
	return []suite.Scenario{
		identitySignals(), dangerousSyscalls(), exoticSockets(), hostDevices(), capabilities(), runtimeHandler(),
	}
}

// onGVisor lets the API server say by which handler the Pod runs. It does not
// call another handler a breach: that is [runtimeHandler]'s verdict, and the
// other scenarios must be able to find a breach by themselves.
func onGVisor() suite.Witness {
	return suite.Witness{Name: suite.APIServer, Read: readHandler}
}

func readHandler(r suite.Reading) verdict.Statement {
	return verdict.Statement{
		Witness: suite.APIServer,
		// A Pod that is not seen running tells nothing about its runtime.
		Live:   r.Pod.Node != "" && r.Pod.Phase == "Running",
		Agrees: r.Pod.RuntimeClass != "" && suite.IsGVisor(r.Pod.Handler),
		Detail: fmt.Sprintf("runtime class %q, handler %q, phase %q on node %q", r.Pod.RuntimeClass, r.Pod.Handler, r.Pod.Phase, r.Pod.Node),
	}
}

// unprivileged lets the API server say the same, and that the spec leaves no
// container a privilege: whom gVisor's kernel takes a process for, only that
// kernel could say, and a sandbox may lie in its name.
func unprivileged(r suite.Reading) verdict.Statement {
	s := readHandler(r)
	s.Live = s.Live && r.Pod.Declared
	s.Agrees = s.Agrees && len(r.Pod.Privileges) == 0
	if len(r.Pod.Privileges) > 0 {
		s.Detail += ", and the Pod's spec leaves it " + strings.Join(r.Pod.Privileges, ", ")
	}
	return s
}
