// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheAllowListIsWhatTheTextSays(t *testing.T) {
	hosts, err := Egress{}.Hosts()
	require.NoError(t, err)
	assert.Equal(t, []string{"*.googleapis.com"}, hosts)
	hosts, err = Egress{
		GoProxy: "https://modules.example.com/path|https://other.example.org,direct", Region: "europe-west1",
		Allow: "api.example.com, *.example.net other.example.org",
	}.Hosts()
	require.NoError(t, err)
	assert.Equal(t, []string{
		"*.europe-west1.gke.goog", "*.example.net", "*.googleapis.com", "api.example.com", "modules.example.com", "other.example.org",
	}, hosts)
	hosts, err = Egress{GoProxy: "off"}.Hosts()
	require.NoError(t, err)
	assert.Len(t, hosts, 1)
}

func TestAnAllowListThatOpensTheInsideIsRefused(t *testing.T) {
	for what, e := range map[string]Egress{
		"http":         {GoProxy: "http://modules.example.com"},
		"another port": {GoProxy: "https://modules.example.com:8443"},
		"a password":   {GoProxy: "https://u:hunter2@modules.example.com"},
		"an address":   {GoProxy: "https://10.0.0.1"},
		"a file":       {GoProxy: "file:///tmp/x"},
		"no region":    {Region: "*"},
		"everything":   {Allow: "*"},
		"all of .com":  {Allow: "*.com"},
		"metadata":     {Allow: "metadata.google.internal"},
		"the cluster":  {Allow: "kubernetes.default.svc.cluster.local"},
		"an IP":        {Allow: "169.254.169.254"},
		"a URL":        {Allow: "https://example.com"},
	} {
		_, err := e.Hosts()
		require.Error(t, err, what)
		assert.NotContains(t, err.Error(), "hunter2")
	}
}

func TestAGOPROXYIsReadAsSandboxesCanUseIt(t *testing.T) {
	for list, want := range map[string]string{
		"https://modules.example.com/p,direct":                  "https://modules.example.com/p",
		"https://a.example.com|https://b.example.com:443 , off": "https://a.example.com,https://b.example.com:443",
		"direct": "off", "": "off", "off": "off",
	} {
		proxy, hosts, err := Proxies(list)
		require.NoError(t, err)
		assert.Equal(t, want, proxy, list)
		assert.Equal(t, want == "off", len(hosts) == 0, list)
	}
	_, _, err := Proxies("https://modules.example.com,http://modules.example.com")
	assert.ErrorContains(t, err, "GOPROXY")
}
