// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestServersStopTogether(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := 0
	quiet := Server{Addr: "127.0.0.1:0", Handler: http.NotFoundHandler(), Log: slog.New(slog.DiscardHandler)}
	told := quiet
	told.Stop = func(context.Context) error { stopped++; return nil }
	require.NoError(t, HTTP(ctx, quiet, told))
	assert.Equal(t, 1, stopped)

	told.Stop = func(context.Context) error { return errors.New("something is left") }
	require.ErrorContains(t, HTTP(ctx, quiet, told), "something is left")
}

func TestAnAddressThatIsTakenIsAnError(t *testing.T) {
	bad := Server{Addr: "256.0.0.1:0", Handler: http.NotFoundHandler(), Log: slog.New(slog.DiscardHandler)}
	require.ErrorContains(t, HTTP(t.Context(), bad), "serving")
}

func TestAClusterThatIsNotThereIsAnError(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, path := range []string{"", filepath.Join(t.TempDir(), "none")} {
		_, err := Kube(path)
		assert.ErrorContains(t, err, "finding the cluster")
	}
}
