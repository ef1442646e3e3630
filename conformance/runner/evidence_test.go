// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

func TestAReaderThatEndedBeforeTheAttemptSawNothingOfIt(t *testing.T) {
	s := scenario("resources.burn-cpu", denied)
	s.Exclusive = true
	s.Witnesses = []suite.Witness{{Name: suite.Cgroup, Read: func(suite.Reading) verdict.Statement {
		return verdict.Statement{Live: true, Agrees: true}
	}}}
	f := setup(t, s)
	honest := f.carrier.Programs["control"]
	f.carrier.Set("control", func(ctx context.Context, pod target.Pod, mode string, args []string, in io.Reader, out io.Writer) (int, error) {
		if mode != "cgroup" {
			return honest(ctx, pod, mode, args, in, out)
		}
		for range 2 {
			_ = json.NewEncoder(out).Encode(probe.Sample{Values: map[string]float64{"cpuacct.usage": 1}})
		}
		return 1, nil
	})
	o := only(t, f.run(t))
	assert.Equal(t, verdict.WitnessDead, o.Result.Reason(), said(o))
}
