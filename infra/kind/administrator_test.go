// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/stockade-dev/stockade/infra/kube"
)

func TestAnAdministratorWhoMayNotDoEverythingIsWaitedFor(t *testing.T) {
	var serves, allowed bool
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/readyz" && serves:
		case r.URL.Path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","status":{"allowed":%t}}`, allowed)
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(api.Close)
	client, err := kube.NewForConfig(&rest.Config{Host: api.URL})
	require.NoError(t, err)
	bare := &bareCluster{client: client}
	require.Error(t, bare.ready(t.Context()), "the API server does not serve yet")
	serves = true
	require.ErrorContains(t, bare.ready(t.Context()), "may not do everything yet")
	allowed = true
	require.NoError(t, bare.ready(t.Context()))
}
