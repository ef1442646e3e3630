// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"errors"
	"fmt"
	"net/url"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// APIServer returns host and port of the API server, as they are inside the
// seal. The error wraps os.ErrNotExist when there is no cluster.
func APIServer(home string) (string, error) {
	config, err := clientcmd.LoadFromFile(Options{Home: home}.KubeconfigPath())
	if err != nil {
		return "", fmt.Errorf("finding the API server: %w", err)
	}
	server, err := currentCluster(config)
	if err != nil {
		return "", fmt.Errorf("finding the API server: %w", err)
	}
	u, err := url.Parse(server.Server)
	if err != nil {
		return "", fmt.Errorf("finding the API server: %w", err)
	}
	return u.Host, nil
}

// GateKubeconfig returns the administrator's kubeconfig as it works from outside
// of the seal, through the gate at the given address. It is a secret.
func GateKubeconfig(home, gate string) (string, error) {
	config, err := clientcmd.LoadFromFile(Options{Home: home}.KubeconfigPath())
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	server, err := currentCluster(config)
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	u, err := url.Parse(server.Server)
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	// The server goes on proving that it is the one behind the gate.
	server.TLSServerName = u.Hostname()
	server.Server = "https://" + gate
	text, err := clientcmd.Write(*config)
	if err != nil {
		return "", fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return string(text), nil
}

func currentCluster(config *clientcmdapi.Config) (*clientcmdapi.Cluster, error) {
	if c := config.Contexts[config.CurrentContext]; c != nil {
		if server := config.Clusters[c.Cluster]; server != nil {
			return server, nil
		}
	}
	return nil, errors.New("its current context leads nowhere; run `stockade up`")
}
