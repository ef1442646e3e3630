// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheServiceDoesNotStartWithoutATemplate(t *testing.T) {
	assert.ErrorContains(t, run(t.Context(), []string{"--namespace", "x", "--template", "/nowhere"}), "reading the template of runs")
	assert.Error(t, run(t.Context(), []string{"--nothing"}))
	odd := filepath.Join(t.TempDir(), "t.yaml")
	require.NoError(t, os.WriteFile(odd, []byte("kind: PodTemplate\ntemplate: {specs: {}}\n"), 0o600))
	_, err := read(odd)
	assert.ErrorContains(t, err, "specs", "a field that nobody knows must not be passed over")
}

func TestTheTemplateIsTheOverlaysOwn(t *testing.T) {
	_, err := read("../../overlays/base/playground/sandbox/template.yaml")
	assert.NoError(t, err)
}

func TestTheServerEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.NoError(t, serve(ctx, "127.0.0.1:0", http.NotFoundHandler()))
	assert.ErrorContains(t, serve(t.Context(), "256.0.0.1:0", http.NotFoundHandler()), "serving")
}
