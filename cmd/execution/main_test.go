// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheServiceDoesNotStartWithoutATemplate(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--namespace", "x", "--template", "/nowhere"}, 1, "reading the template of runs"},
		{[]string{"--nothing"}, 2, "nothing"},
		{[]string{"nothing", "--namespace", "x"}, 2, "is no flag"},
	} {
		var stderr bytes.Buffer
		assert.Equal(t, c.code, run(t.Context(), c.args, &stderr), "%v", c.args)
		assert.Contains(t, stderr.String(), c.says)
	}
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
	assert.NoError(t, serve(ctx, "127.0.0.1:0", time.Minute, http.NotFoundHandler()))
	assert.ErrorContains(t, serve(t.Context(), "256.0.0.1:0", time.Minute, http.NotFoundHandler()), "serving")
}

// A run whose Pod is not removed before the process ends stays until the next
// start.
func TestTheEndOfTheServerEndsWhatItAnswersAndWaitsForIt(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	removed := false
	served := make(chan error, 1)
	go func() {
		served <- serve(ctx, address, time.Minute, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
			time.Sleep(50 * time.Millisecond) //nolint:forbidigo // as the removal takes
			removed = true
		}))
	}()
	require.Eventually(t, func() bool {
		answer, err := http.Get("http://" + address)
		if err != nil {
			return false
		}
		return assert.NoError(t, answer.Body.Close())
	}, 5*time.Second, 20*time.Millisecond)
	require.NoError(t, <-served)
	assert.True(t, removed)
}

func TestWhatIsDoneAgainAndAgainIsDoneAtOnceAndEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	every(ctx, time.Millisecond, func() {
		if n++; n == 3 {
			cancel()
		}
	})
	assert.Equal(t, 3, n)
	every(ctx, time.Hour, func() { n++ })
	assert.Equal(t, 3, n)
}
