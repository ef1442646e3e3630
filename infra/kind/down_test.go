// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/infra/node/engine"
	"github.com/stockade-dev/stockade/infra/progress"
)

func TestWithoutAnEngineThereIsNothingToRemoveUnlessNobodyAsked(t *testing.T) {
	home, err := os.MkdirTemp("", "down") // a socket's path must be short
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(home)) })
	e, err := engine.New(engine.Options{Home: home})
	require.NoError(t, err)
	o := Options{Home: home, Engine: e}
	require.NoError(t, Down(t.Context(), o))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Down(ctx, o), context.Canceled)
}

func TestAnInterruptRemovesNoCluster(t *testing.T) {
	home := recorded(t, "1-2-3")
	e, err := engine.New(engine.Options{Home: home})
	require.NoError(t, err)
	o, err := Options{Home: home, Engine: e}.orDefaults()
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("ctrl-c"))
	require.ErrorContains(t, o.remove(ctx), "ctrl-c", "what stays must not count as removed")
	_, err = ReadIdentity(home)
	require.NoError(t, err, "the next `up` finds its cluster")

	var said bytes.Buffer
	require.NoError(t, o.giveUp(ctx, progress.New(&said, func(s string) string { return s })), "half a cluster goes all the same")
	_, err = ReadIdentity(home)
	require.ErrorIs(t, err, fs.ErrNotExist)
	assert.Contains(t, said.String(), "removing the half-made cluster")
}
