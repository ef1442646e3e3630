// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"slices"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// judged lets the scenario judge, outside of the sandbox, what came back from
// it, and decides anew. What was Inconclusive for a reason of the round's own
// (an interrupt, a listener that failed) stays so, unless a breach is seen.
func judged(s *suite.Scenario, rd Round) Round {
	if s.Judge == nil || len(rd.Evidence.Attempts) == 0 {
		return rd
	}
	e := rd.Evidence
	e.Attempts = slices.Clone(e.Attempts)
	for i, a := range e.Attempts {
		e.Attempts[i].Steps = s.Judge(a.Nonce, slices.Clone(a.Steps))
	}
	r := verdict.Decide(e)
	if was := rd.Result.Verdict(); was != verdict.Inconclusive || r.Verdict() == verdict.Breached {
		rd.Result = r
	}
	rd.Evidence = e
	return rd
}
