// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// impersonal are the kinds of volume that bring nothing which speaks for somebody.
// A projected volume may hold a token, a CSI driver's a secret of any store, and a
// folder of the node has the tokens of its Pods.
var impersonal = []string{"emptyDir", "configMap", "downwardAPI", "image"}

// noIdentity lets the API server say that the Pod was given no volume that can
// hold a token: a sandbox that lies about its files cannot lie about its spec.
func noIdentity(r suite.Reading) verdict.Statement {
	var found []string
	for _, v := range r.Pod.Volumes {
		if kind, _, _ := strings.Cut(v, ":"); !slices.Contains(impersonal, kind) {
			found = append(found, v)
		}
	}
	return said(r, found, "volumes")
}

// noSecrets lets it say the same of the variables and arguments that the spec
// sets: that no variable comes out of a Secret or a ConfigMap, that each is on the
// list, and that no argument hands over a secret.
func noSecrets(r suite.Reading) verdict.Statement {
	found := slices.Clone(r.Pod.EnvFrom)
	for _, name := range r.Pod.Env {
		if !allowed.MatchString(name) {
			found = append(found, name)
		}
	}
	for _, arg := range r.Pod.Args {
		if handsOver(arg) {
			found = append(found, "an argument of digest "+probe.Digest([]byte(arg)))
		}
	}
	return said(r, found, "variables and arguments")
}

// said is no breach: what the Pod was given has yet to be found, and a mutant
// must be caught by the finding.
func said(r suite.Reading, found []string, what string) verdict.Statement {
	s := verdict.Statement{Witness: suite.APIServer, Live: r.Pod.Phase == "Running" && r.Pod.Declared, Agrees: len(found) == 0}
	s.Detail = "no " + what + " of the Pod's spec can hold an identity or a secret"
	if !s.Agrees {
		s.Detail = what + " of the Pod's spec: " + strings.Join(found, ", ")
	}
	return s
}
