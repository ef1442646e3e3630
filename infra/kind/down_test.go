// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/infra/node/engine"
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
