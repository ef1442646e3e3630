// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFillCountsWhatTheFilesHoldAndRemovesThem(t *testing.T) {
	for _, piece := range []int64{fillBlock / 2, fillBlock, 2*fillBlock + 1, 8 * fillBlock} {
		dir := t.TempDir()
		n, err := Fill(t.Context(), dir, "n", 3*fillBlock+5, piece)
		require.NoError(t, err)
		assert.EqualValues(t, 3*fillBlock+5, n)
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Empty(t, left)
	}
}

func TestFillEndsWithTheFirstError(t *testing.T) {
	_, err := Fill(t.Context(), filepath.Join(t.TempDir(), "none"), "n", fillBlock, fillBlock)
	assert.ErrorIs(t, err, fs.ErrNotExist)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n, err := Fill(ctx, t.TempDir(), "n", fillBlock, fillBlock)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Zero(t, n)
}
