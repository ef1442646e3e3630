// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// serviceLinks accepts Absent, and for the first process Permission: the runner
// lets nobody read its environment. The attack's own, which the kubelet makes of
// the same Pod spec, is always read; one that cannot be read for another reason
// has proved nothing. The control is not planted: it is the same reading in a Pod of
// the same namespace that does have service links, so that the Services which a
// sandbox is not told of are there to be told of.
func serviceLinks() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.service-links",
		Title: "Read the namespace's Services out of the environment",
		About: "Looks in its own environment, and in that of the sandbox's first process, for the variables by which the kubelet tells a container of the Services " +
			"around it. Only those of the cluster's API may be there (`KUBERNETES_*`), which the kubelet always sets. They name what there is to attack, with address and port, " +
			"and no DNS question has to be asked.",
		Claims: []string{"KG-04"}, Kind: suite.Guarantee, Severity: suite.Low,
		Techniques: []string{"T1613", "T1016"},
		Refs:       []string{"https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables"},
		Attack:     readServices,
		Control: suite.ControlSpec{At: suite.Router,
			Why: "a Pod of the same namespace that has service links finds the namespace's Services by the same reading"},
		Accept:    []verdict.Class{verdict.Absent, verdict.Permission},
		Witnesses: []suite.Witness{{Name: suite.APIServer, Read: noServiceLinks}},
		Mutants:   []string{"kode-gopher-service-links"},
	}
}

func readServices(context.Context, *probe.Env) []verdict.Step {
	first, err := os.ReadFile("/proc/1/environ")
	return []verdict.Step{
		services("find a Service in the environment", os.Environ(), nil),
		services("find a Service in the first process's environment", strings.FieldsFunc(string(first), func(r rune) bool { return r == 0 }), err),
	}
}

// services looks for the one variable that every Service has that has an address.
func services(name string, environ []string, err error) verdict.Step {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return probe.Denied(name, err) // a process that is not dumpable keeps it to itself
	case err != nil:
		return probe.Failed(name, verdict.Unknown, "it cannot be read: %v", err)
	case len(environ) == 0:
		return probe.Failed(name, verdict.Unknown, "it is empty, which no container's is")
	}
	var found []string
	for _, e := range environ {
		key, value, _ := strings.Cut(e, "=")
		if service, ok := strings.CutSuffix(key, "_SERVICE_HOST"); ok && service != "KUBERNETES" {
			found = append(found, fmt.Sprintf("%.60q at %.40q", service, value))
		}
	}
	if len(found) > 0 {
		return probe.Reached(name, "%d Services, the first of them %s", len(found), found[0])
	}
	return probe.Failed(name, verdict.Absent, "none of %d variables tells of a Service but the cluster's API", len(environ))
}

// noServiceLinks reads the live Pod's spec, so that a sandbox cannot hide what it
// was told.
func noServiceLinks(r suite.Reading) verdict.Statement {
	return verdict.Statement{
		Witness: suite.APIServer, Live: r.Pod.Declared && r.Pod.Phase == "Running", Agrees: !r.Pod.ServiceLinks,
		Detail: fmt.Sprintf("the Pod is %q, its enableServiceLinks is %t", r.Pod.Phase, r.Pod.ServiceLinks),
	}
}
