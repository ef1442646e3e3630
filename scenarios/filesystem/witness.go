// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"strings"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// The API server sees no file of a sandbox. It does see what the live Pod's spec
// gives it, and a sandbox that lies about its files cannot lie about that. What
// it says is no breach: a mutant must be caught by the attack itself.

// nothingWritable demands a read-only root file system and no writable mount
// outside of /tmp.
func nothingWritable(r suite.Reading) verdict.Statement {
	var found []string
	if !r.Pod.ReadOnlyRoot {
		found = append(found, "a writable root file system")
	}
	for _, path := range r.Pod.Writable {
		if !within(path, scratch) {
			found = append(found, "a writable mount at "+path)
		}
	}
	return declares(r, found, "a read-only root, and no writable mount outside of "+scratch)
}

// noHostPath demands that no volume is a folder of the node.
func noHostPath(r suite.Reading) verdict.Statement {
	var found []string
	for _, v := range r.Pod.Volumes {
		if strings.HasPrefix(v, "hostPath:") {
			found = append(found, "the volume "+v)
		}
	}
	return declares(r, found, "no volume of the node's")
}

func declares(r suite.Reading, found []string, good string) verdict.Statement {
	s := verdict.Statement{Witness: suite.APIServer, Live: r.Pod.Phase == "Running" && r.Pod.Declared,
		Agrees: len(found) == 0, Detail: "the Pod's spec has " + good}
	if !s.Agrees {
		s.Detail = "the Pod's spec has " + strings.Join(found, ", ")
	}
	return s
}
