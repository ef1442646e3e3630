// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatEndsTheControlPlaneIsTheCauseOfAllElse(t *testing.T) {
	unplugged, refused := errors.New("the control plane is gone"), errors.New("connection refused")
	noticed := make(chan struct{})
	err := beside(t.Context(), func() error { <-noticed; return unplugged }, func(context.Context) error { close(noticed); return refused })
	require.ErrorIs(t, err, unplugged)
	nothing := func() error { return nil }
	require.ErrorIs(t, beside(t.Context(), nothing, func(context.Context) error { return refused }), refused)
	require.NoError(t, beside(t.Context(), nothing, func(context.Context) error { return nil }))
	// Nobody waits for a control plane that will not come.
	require.ErrorIs(t, beside(t.Context(), func() error { return unplugged }, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }), unplugged)
}

func TestKindsLogKeepsTheLastLines(t *testing.T) {
	log := &kindLog{}
	log.Warn("one")
	log.V(0).Infof("two %d\n", 2)
	log.V(1).Info("detail")
	log.Errorf("three")
	assert.Equal(t, "two 2\nthree", log.tail(2))
	assert.Equal(t, "one\ntwo 2\nthree", log.tail(10))
}
