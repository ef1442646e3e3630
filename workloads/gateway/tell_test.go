// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/stockade-dev/stockade/workloads/gateway/sandboxes"
	"github.com/stockade-dev/stockade/workloads/runner/wire"
)

func TestAClientIsToldWhatItCanDoAndNothingOfTheInside(t *testing.T) {
	inside := errors.New(`Post "https://10.96.0.1/apis": connection refused`)
	for want, err := range map[string]error{
		"end another session first": fmt.Errorf("%w: %w", sandboxes.ErrTooMany, inside),
		"sandbox was lost":          fmt.Errorf("%w: %w", ErrLost, inside),
		"too many calls":            errQueueFull,
		"(run r1): try again later": inside,
	} {
		got := tell("r1", err).Error()
		assert.Contains(t, got, want)
		assert.NotContains(t, got, "10.96.0.1")
	}
}

func TestAResultIsShownAsText(t *testing.T) {
	r := wire.Result{Build: wire.Build{OK: true}, Started: true, ExitCode: 3, Stdout: "out", StdoutTruncated: true, Stderr: "err\n",
		Violations: []wire.Violation{wire.Output}}
	assert.Equal(t, "The program exited with code 3.\nLimit met: output-limit.\n--- stdout\nout\n[cut here]\n--- stderr\nerr\n", show(r))
	assert.Equal(t, "The build failed.\n--- build\nx\n", show(wire.Result{Build: wire.Build{Output: "x"}}))
	assert.Equal(t, "The program was ended by a signal: killed.\n", show(wire.Result{Build: wire.Build{OK: true}, Signal: "killed"}))
}
