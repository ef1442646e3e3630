// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"os"
	"strings"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// capabilities are the second wall: within gVisor's kernel they decide what
// an attacker may ask of it. Absent means that the set is empty or the door
// shut, Permission is the refusal of setuid(0).
func capabilities() suite.Scenario {
	return suite.Scenario{
		ID:    "kernel.capabilities",
		Title: "Find a capability, or a way to become root",
		About: "Reads the process's capability sets, its user and its no_new_privs flag, and asks for user id 0. " +
			"An empty bounding set is demanded too: whatever is left in it can be had back by the first set-user-id program.",
		Claims: []string{"AS-01", "AS-10", "KG-01", "PG-02"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1548.001"},
		Refs:       []string{"https://man7.org/linux/man-pages/man7/capabilities.7.html", "https://docs.kernel.org/userspace-api/no_new_privs.html"},
		Attack:     findPrivileges,
		Control:    suite.ControlSpec{Why: "a privileged Pod has capabilities, root and no no_new_privs, so the same reading can find them"},
		Accept:     []verdict.Class{verdict.Absent, verdict.Permission},
		Witnesses:  []suite.Witness{{Name: suite.APIServer, Read: unprivileged}},
		Mutants: []string{"capabilities-kept", "capability-added", "run-as-root", "privilege-escalation-allowed",
			"kode-gopher-run-as-root", "kode-gopher-shared-privilege-escalation"},
	}
}

func findPrivileges(context.Context, *probe.Env) []verdict.Step {
	var steps []verdict.Step
	for _, s := range []struct{ name, field string }{
		{"hold an effective capability", "CapEff"},
		{"hold a permitted capability", "CapPrm"},
		{"keep a capability in the bounding set", "CapBnd"},
	} {
		v, err := status(s.field)
		steps = append(steps, capability(s.name, v, err))
	}
	return append(steps, flagStep(noNewPrivs()), rootStep(os.Geteuid()), setuidStep(becomeRoot()))
}

// capability judges a set in hex as /proc shows it.
func capability(name, hex string, err error) verdict.Step {
	switch {
	case err != nil:
		// That the field cannot be read is no proof that the set is empty.
		return probe.Failed(name, verdict.Unknown, "the set cannot be read: %v", err)
	case hex == "":
		return probe.Failed(name, verdict.Unknown, "the set is not shown")
	case strings.Trim(hex, "0") == "":
		return probe.Failed(name, verdict.Absent, "the set is empty")
	}
	return probe.Reached(name, "the set is %.32s", hex)
}

func flagStep(set bool, err error) verdict.Step {
	const name = "run without no_new_privs"
	switch {
	case err != nil:
		return probe.Failed(name, verdict.Unknown, "the flag cannot be read: %v", err)
	case set:
		return probe.Failed(name, verdict.Absent, "no_new_privs is set")
	}
	return probe.Reached(name, "no_new_privs is not set")
}

func rootStep(uid int) verdict.Step {
	if uid == 0 {
		return probe.Reached("be root", "the effective user id is 0")
	}
	return probe.Failed("be root", verdict.Absent, "the effective user id is %d", uid)
}

func setuidStep(err error) verdict.Step {
	if err == nil {
		return probe.Reached("become root", "setuid(0) succeeded")
	}
	return probe.Denied("become root", err)
}
