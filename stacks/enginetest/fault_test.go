// SPDX-License-Identifier: Apache-2.0

//go:build pulumi

package enginetest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/infra/gke/standin"
)

// faults are how a call may fail in the middle of an update.
var faults = map[string]standin.Fault{
	// Nothing was made.
	"quota": {Status: 403},
	// It was made, and is not well.
	"partial": {Status: 500, Partial: true},
}

// Every resource in turn fails to be made. Each time a second update finishes
// what the first began, and afterwards everything can be taken away.
func TestASecondUpdateFinishesWhatAFaultStopped(t *testing.T) {
	for _, name := range clouds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for what, fault := range faults {
				t.Run(what, func(t *testing.T) {
					t.Parallel() // the engine leaves one of two cores idle
					r := start(t, name, nil, run)
					r.up()
					all := r.created()
					r.destroy()
					r.engine.terse = true
					for _, c := range all {
						if !t.Run(c.Type+" "+c.Name(), func(t *testing.T) {
							fault.Call, fault.Type, fault.Name = "create", c.Type, c.Name()
							r.cloud.Inject(fault)
							_, err := r.stack.Up(t.Context())
							require.ErrorContains(t, err, "the stand-in was told so")
							assert.Zero(t, r.cloud.Pending(), "the fault was met")
							_, err = r.stack.Up(t.Context())
							require.NoError(t, err)
							assert.Len(t, r.cloud.Resources(), len(all))
							_, err = r.stack.Destroy(t.Context())
							require.NoError(t, err)
							assert.Empty(t, r.cloud.Resources())
						}) {
							// What is left would only make the next ones fail.
							return
						}
					}
				})
			}
		})
	}
}

// A destroy that is stopped can be repeated, too.
func TestASecondDestroyFinishesWhatAFaultStopped(t *testing.T) {
	t.Parallel()
	r := start(t, "gke-shared", nil, run)
	r.up()
	for _, n := range []int{1, 9, 5, 9} {
		r.cloud.Inject(standin.Fault{Call: "delete", Nth: n, Status: 429})
		_, err := r.stack.Destroy(t.Context())
		require.ErrorContains(t, err, "rateLimitExceeded")
	}
	r.destroy()
}

// A resource whose making was never confirmed is nobody's: Pulumi cannot know
// that it is ours, and says that it exists. docs/gke.md tells what to do then.
func TestAnAnswerThatWasLostIsAConflictForAPerson(t *testing.T) {
	t.Parallel()
	r := start(t, "gke", nil, run)
	r.cloud.Inject(standin.Fault{Call: "create", Type: "gcp:container/cluster:Cluster", Status: 500, Lost: true})
	_, err := r.stack.Up(t.Context())
	require.Error(t, err)
	_, err = r.stack.Up(t.Context())
	require.ErrorContains(t, err, "409")
	for _, x := range r.cloud.Resources() {
		if x.Type == "gcp:container/cluster:Cluster" {
			require.NoError(t, r.cloud.Drop(x.Type, x.ID))
		}
	}
	r.up()
	r.destroy()
}
