// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// runtimeHandler is decided by its witness: a RuntimeClass may have any name,
// "gvisor" among them, and its handler is what the node's containerd starts. So
// a handler that is not gVisor's is a breach whatever the kernel in the sandbox
// says of itself.
func runtimeHandler() suite.Scenario {
	return suite.Scenario{
		ID:    "kernel.runtime-handler",
		Title: "Run under a RuntimeClass that is gVisor by name only",
		About: "Compares what the API server says of the live Pod's runtime with what the kernel in it says. " +
			"A RuntimeClass named gvisor with the handler runc gives every sandbox the node's kernel, and no manifest shows it.",
		Claims: []string{"AS-01", "KG-01", "PG-01"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1611", "T1562.001"},
		Refs:       []string{"https://kubernetes.io/docs/concepts/containers/runtime-class/"},
		Needs:      []suite.Feature{suite.GVisor},
		Attack:     askUname,
		Control:    suite.ControlSpec{Why: "in a runc twin the node's kernel answers, so an answer of gVisor's is not what every Pod gets"},
		Accept:     []verdict.Class{verdict.Confined},
		Witnesses:  []suite.Witness{{Name: suite.APIServer, Read: demandHandler}},
		Mutants:    []string{"runtime-class-runc", "gvisor-named-runc", "playground-runc", "kode-gopher-runc"},
	}
}

func askUname(context.Context, *probe.Env) []verdict.Step {
	return []verdict.Step{signalUname()}
}

func demandHandler(r suite.Reading) verdict.Statement {
	s := readHandler(r)
	s.Breach = s.Live && !s.Agrees
	return s
}
