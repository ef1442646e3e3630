// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// socket is one kind of socket that no code interpreter needs.
type socket struct {
	name string
	why  string
	do   func() error
}

// exoticSockets asks for what no code interpreter needs. gVisor registers a
// handful of families: Unsupported (EAFNOSUPPORT, EPROTONOSUPPORT,
// ESOCKTNOSUPPORT) is how the rest looks, and Permission is its answer for raw
// and packet sockets without CAP_NET_RAW. A socket that opens is a protocol of
// the node's kernel, most of them rarely read code.
func exoticSockets() suite.Scenario {
	return suite.Scenario{
		ID:    "kernel.exotic-socket-families",
		Title: "Open sockets of families that only the node's kernel has",
		About: "Opens, and closes at once, sockets of families and netlink protocols through which Linux was broken. " +
			"On a node that loads modules on demand, an unconfined sandbox loads them by asking.",
		Claims: []string{"AS-01", "KG-01"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1068", "T1040"},
		Refs: []string{
			"https://nvd.nist.gov/vuln/detail/CVE-2020-14386", "https://nvd.nist.gov/vuln/detail/CVE-2021-43267",
			"https://nvd.nist.gov/vuln/detail/CVE-2017-16939",
		},
		Needs:  []suite.Feature{suite.GVisor},
		Attack: openSockets,
		Control: suite.ControlSpec{
			Act: controlSockets,
			Why: "in a privileged runc twin packet and raw sockets open, so a denial in the sandbox is the sandbox's doing",
		},
		Accept:    []verdict.Class{verdict.Unsupported, verdict.Permission},
		Witnesses: []suite.Witness{onGVisor()},
		Mutants:   []string{"runtime-class-runc", "kode-gopher-runc"},
	}
}

func openSockets(context.Context, *probe.Env) []verdict.Step { return socketSteps(sockets()) }

func socketSteps(all []socket) []verdict.Step {
	steps := make([]verdict.Step, 0, len(all))
	for _, s := range all {
		if err := s.do(); err != nil {
			steps = append(steps, probe.Denied("open "+s.name, err))
			continue
		}
		steps = append(steps, probe.Reached("open "+s.name, "it opened; notable for: %s", s.why))
	}
	return steps
}

// controlSockets opens only what every node has: in a privileged Pod the other
// families would make the node load modules, which would stay behind.
func controlSockets(context.Context, *probe.Env) []verdict.Step {
	all := sockets()
	return socketSteps(all[:min(2, len(all))])
}
