// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// homeWith returns a home whose kubeconfig leads to the server.
func homeWith(t *testing.T, server string) string {
	t.Helper()
	home := t.TempDir()
	config := clientcmdapi.NewConfig()
	config.CurrentContext = "kind"
	config.Contexts["kind"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "admin"}
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: []byte("ca")}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{ClientKeyData: []byte("key")}
	require.NoError(t, os.MkdirAll(filepath.Join(home, "run"), 0o755))
	require.NoError(t, clientcmd.WriteToFile(*config, Options{Home: home}.KubeconfigPath()))
	return home
}

func TestTheGatesKubeconfigStillKnowsItsServer(t *testing.T) {
	text, err := GateKubeconfig(homeWith(t, "https://172.18.0.2:6443"), "127.0.0.1:4711")
	require.NoError(t, err)
	config, err := clientcmd.Load([]byte(text))
	require.NoError(t, err)
	server := config.Clusters["c"]
	assert.Equal(t, "https://127.0.0.1:4711", server.Server)
	assert.Equal(t, "172.18.0.2", server.TLSServerName, "else any server with a certificate of that authority would do")
	assert.Equal(t, []byte("ca"), server.CertificateAuthorityData)
	assert.False(t, server.InsecureSkipTLSVerify)
}

func TestTheAPIServersAddressIsThatOfTheKubeconfig(t *testing.T) {
	for server, want := range map[string]string{"https://172.18.0.2:6443": "172.18.0.2:6443", "https://[fd00::2]:6443": "[fd00::2]:6443"} {
		got, err := APIServer(homeWith(t, server))
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err := APIServer(t.TempDir())
	assert.ErrorIs(t, err, os.ErrNotExist)
}
