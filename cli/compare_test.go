// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/report"
	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/scenarios/all"
)

// A run of single scenarios, or of another target, must not stand for a profile
// that was run as a whole before.
func TestTheNewestWholeReportStandsForItsProfile(t *testing.T) {
	p, ok := suite.ProfileByID("playground")
	require.True(t, ok)
	scenarios := p.Of(all.Registry.All())
	var errs bytes.Buffer
	a := &App{Home: t.TempDir(), Registry: all.Registry, Stderr: &errs}
	keep := func(id, target string, at time.Duration, some []*suite.Scenario) {
		begin := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC).Add(at)
		run := &runner.Run{ID: id, Profile: p.ID, Target: target, Started: begin, Ended: begin}
		for _, s := range some {
			run.Outcomes = append(run.Outcomes, runner.Outcome{Scenario: s})
		}
		r, err := report.From(run, nil)
		require.NoError(t, err)
		_, err = a.save(r)
		require.NoError(t, err)
	}
	found := func() string {
		newest, err := a.newest([]string{p.ID})
		require.NoError(t, err)
		if r := newest[p.ID]; r != nil {
			return r.ID
		}
		return ""
	}
	keep("part", p.Target, 0, scenarios[:1])
	assert.Equal(t, "part", found(), "a part is better than nothing")
	keep("whole", p.Target, time.Hour, scenarios)
	keep("later-part", p.Target, 2*time.Hour, scenarios[:1])
	keep("mutant", "mutant-x", 3*time.Hour, scenarios)
	assert.NotContains(t, errs.String(), "later run")
	assert.Equal(t, "whole", found())
	assert.Contains(t, errs.String(), "playground is as the run whole found it; the later run later-part, of a part of it, says 0 held of 1, 1 not run",
		"what was found since is not kept from who compares")
	keep("later-whole", p.Target, 4*time.Hour, scenarios)
	// A home keeps hundreds of reports, and to judge one again takes a tenth of a second.
	require.NoError(t, os.WriteFile(filepath.Join(a.reportsDir(), "20260101T000000Z-older.json"),
		[]byte(`{"profile": "playground", "target": "playground"}`), 0o600))
	errs.Reset()
	assert.Equal(t, "later-whole", found())
	assert.Empty(t, errs.String(), "what is older than a whole one is not read")
	require.NoError(t, os.WriteFile(filepath.Join(a.reportsDir(), "20270101T000000Z-odd.json"), []byte("{"), 0o600))
	assert.Equal(t, "later-whole", found())
	assert.Contains(t, errs.String(), "passing over")
}
