// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/workloads/range/world"
)

const defaultSA = "/computeMetadata/v1/instance/service-accounts/default/"

func metadata(path string, header ...string) reply {
	r := httptest.NewRequest(http.MethodGet, "http://metadata.google.internal"+path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return metadataReply(r)
}

func TestMetadataDemandsItsHeader(t *testing.T) {
	assert.Equal(t, 403, metadata(defaultSA+"token").status)
	assert.Equal(t, 403, metadata(defaultSA+"token", "Metadata-Flavor", "google").status)
	assert.Equal(t, 403, metadata(defaultSA+"token", "Metadata-Flavor", "Google", "X-Forwarded-For", "10.0.0.1").status)
	assert.Empty(t, metadata(defaultSA+"token").canary)
	assert.Equal(t, 200, metadata("/").status, "libraries detect GCE without it")
	assert.Equal(t, "Google", metadata("/").header.Get("Metadata-Flavor"))
}

func TestMetadataHandsOutTokensThatAreOurs(t *testing.T) {
	r := metadata(defaultSA+"token", "Metadata-Flavor", "Google")
	require.Equal(t, 200, r.status)
	var got struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int    `json:"expires_in"`
		TokenType   string `json:"token_type"`
	}
	require.NoError(t, json.Unmarshal(r.body, &got))
	assert.Equal(t, r.canary, got.AccessToken)
	assert.True(t, strings.HasPrefix(r.canary, world.CanaryPrefix))
	assert.Equal(t, "Bearer", got.TokenType)
	assert.NotEqual(t, r.canary, metadata(defaultSA+"token", "Metadata-Flavor", "Google").canary, "each is its own")
	_, found, _ := findNonces(r.body)
	assert.Equal(t, []string{r.canary}, found, "the scanner must know it again")

	id := metadata(defaultSA+"identity?audience=https://x.test", "Metadata-Flavor", "Google")
	assert.Len(t, strings.Split(string(id.body), "."), 3)
	assert.True(t, strings.HasSuffix(string(id.body), id.canary))
	assert.Equal(t, 400, metadata(defaultSA+"identity", "Metadata-Flavor", "Google").status)
}

func TestMetadataServesTheTree(t *testing.T) {
	for path, want := range map[string]string{
		"/computeMetadata/v1/project/project-id":              metadataProject,
		defaultSA + "email":                                   metadataEmail,
		defaultSA + "scopes":                                  "cloud-platform",
		"/computeMetadata/v1/instance/attributes/kube-env":    "KUBELET_CERT",
		"/computeMetadata/v1/instance/service-accounts/":      "default/\n",
		"/computeMetadata/v1/instance/service-accounts":       metadataEmail + "/",
		"/computeMetadata/v1/":                                "instance/\nproject/\n",
		"/computeMetadata/v1/instance/?recursive=true":        `"machine-type":`,
		"/computeMetadata/v1/instance/attributes/kube-labels": "gvisor",
	} {
		r := metadata(path, "Metadata-Flavor", "Google")
		assert.Equal(t, 200, r.status, path)
		assert.Contains(t, string(r.body), want, path)
	}
	for _, path := range []string{"/computeMetadata/v1/nothing", "/latest/meta-data/", "/computeMetadata/v1beta1/instance/", "/computeMetadata/v1/instance/../../x"} {
		assert.Equal(t, 404, metadata(path, "Metadata-Flavor", "Google").status, path)
	}
}
