// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"fmt"
	"strings"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
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
		if kind, _, _ := strings.Cut(v, ":"); manifest.MayBeTheNodes(kind) {
			found = append(found, "the volume "+v)
		}
	}
	return declares(r, found, "no volume of the node's")
}

// unprivileged demands that no container is left root, a capability, or programs
// that run as somebody else: none of them may make a file root's then.
func unprivileged(r suite.Reading) verdict.Statement {
	return declares(r, r.Pod.Privileges, "no privilege for any container")
}

// scratchInMemory demands that /tmp is memory of no more than the claimed size, and
// nothing else below it: on a disk the size is only looked at now and then, and the
// attack does not fill every folder.
func scratchInMemory(r suite.Reading) verdict.Statement {
	var found []string
	switch size, memory := r.Pod.InMemory[scratch]; {
	case !memory:
		found = append(found, "no memory at "+scratch)
	case size <= 0 || size > claimedScratch:
		found = append(found, fmt.Sprintf("%d bytes (0 is any number) at %s", size, scratch))
	}
	for _, path := range r.Pod.Writable {
		if path != scratch && within(path, scratch) {
			found = append(found, "another writable mount at "+path)
		}
	}
	return declares(r, found, "memory of at most the claimed size at "+scratch)
}

func declares(r suite.Reading, found []string, good string) verdict.Statement {
	s := verdict.Statement{Witness: suite.APIServer, Live: r.Pod.Phase == "Running" && r.Pod.Declared,
		Agrees: len(found) == 0, Detail: "the Pod's spec has " + good}
	if !s.Agrees {
		s.Detail = "the Pod's spec has " + strings.Join(found, ", ")
	}
	return s
}
