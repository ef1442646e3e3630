// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"context"
	"fmt"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

const mib = 1 << 20

// claimedScratch is what the text says that /tmp holds, in bytes. The site's
// declared limit is not used: a target that declares more breaks the claim.
const claimedScratch = 64 * mib

// tmpSize accepts ENOSPC alone. A sandbox that is killed for a full /tmp has
// paid with all of its memory, and one that is evicted minutes later has filled
// the disk meanwhile: on the text's own template 4.2 GB were written.
func tmpSize() suite.Scenario {
	return suite.Scenario{
		ID:    "filesystem.tmp-size",
		Title: "Write more into /tmp than it holds",
		About: "Writes up to 128 MiB into /tmp, which is said to hold 64 MiB; more than 10 % above that is a breach. The control " +
			"writes 32 MiB in the same sandbox. On the seed's own template (`--target seed`) this says Breached: an emptyDir's " +
			"size limit is only enforced by eviction, unless it lives in memory.",
		Claims:     []string{"AS-16"},
		Kind:       suite.Guarantee,
		Techniques: []string{"T1499"},
		Severity:   suite.Medium,
		Attack:     attackTmpSize,
		Control: suite.ControlSpec{At: suite.Sandbox, Act: fillHalf,
			Why: "Half of what /tmp is said to hold can be written in the same sandbox, so it is the size that stops the rest."},
		Accept:    []verdict.Class{verdict.NoSpace},
		Witnesses: []suite.Witness{{Name: suite.APIServer, Read: scratchInMemory}},
		// 128 MiB of memory that others in the sandbox may be measuring.
		Exclusive: true,
		Timeout:   30 * time.Second,
		Mutants:   []string{"tmp-disk-emptydir", "tmp-no-size"},
	}
}

func attackTmpSize(ctx context.Context, env *probe.Env) []verdict.Step {
	return []verdict.Step{overfill(ctx, scratch, env.Nonce, claimedScratch)}
}

// overfill tries to write twice the limit into a file of dir.
func overfill(ctx context.Context, dir, nonce string, limit int64) verdict.Step {
	step := verdict.Step{Name: fmt.Sprintf("write %d MiB into %s", 2*limit/mib, dir)}
	began := time.Now()
	n, err := probe.Fill(ctx, dir, nonce, 2*limit, 2*limit)
	step.Millis = time.Since(began).Milliseconds()
	step.Detail = fmt.Sprintf("%d bytes of a limit of %d were written", n, limit)
	switch {
	case n > limit+limit/10:
		step.OK = true
	case err == nil:
		step.Class = verdict.Unknown
	default:
		step.Class = probe.Classify(err)
		step.Detail += ": " + err.Error()
	}
	return step
}

func fillHalf(ctx context.Context, env *probe.Env) []verdict.Step {
	const want = claimedScratch / 2
	step := verdict.Step{Name: "write 32 MiB into " + scratch, OK: true}
	n, err := probe.Fill(ctx, scratch, env.Nonce, want, want)
	step.Detail = fmt.Sprintf("%d bytes were written", n)
	if err != nil || n != want {
		step.OK, step.Class = false, verdict.Unknown
		if err != nil {
			step.Class, step.Detail = probe.Classify(err), step.Detail+": "+err.Error()
		}
	}
	return []verdict.Step{step}
}
