// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// KubeconfigPath is where Up writes the administrator's kubeconfig. The server's
// address is valid inside the seal, and may be another machine's outside: the
// file's name warns against using it with a kubectl outside (`stockade exec --
// kubectl` uses it inside).
func (o Options) KubeconfigPath() string { return filepath.Join(o.Home, "run", "sealed.kubeconfig") }

// writeKubeconfig writes the administrator's kubeconfig over the one that kind has
// written.
func (o Options) writeKubeconfig(config *clientcmdapi.Config) error {
	if err := clientcmd.WriteToFile(*config, o.KubeconfigPath()); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}

// APIServer returns host and port of the API server, as they are inside the
// seal. The error wraps os.ErrNotExist when there is no cluster.
func APIServer(home string) (string, error) {
	_, _, u, err := loadKubeconfig(home)
	if err != nil {
		return "", fmt.Errorf("finding the API server: %w", err)
	}
	return u.Host, nil
}

// GateKubeconfig returns the administrator's kubeconfig as it works from outside
// of the seal, through the gate at the given address. It is a secret.
func GateKubeconfig(home, gate string) (string, error) {
	config, server, u, err := loadKubeconfig(home)
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

// loadKubeconfig reads the administrator's kubeconfig. The server is the entry of
// its current context, and u that entry's address.
func loadKubeconfig(home string) (config *clientcmdapi.Config, server *clientcmdapi.Cluster, u *url.URL, err error) {
	if config, err = clientcmd.LoadFromFile(Options{Home: home}.KubeconfigPath()); err != nil {
		return nil, nil, nil, err
	}
	c := config.Contexts[config.CurrentContext]
	if c != nil {
		server = config.Clusters[c.Cluster]
	}
	if server == nil {
		return nil, nil, nil, errors.New("its current context leads nowhere; run `stockade up`")
	}
	u, err = url.Parse(server.Server)
	return config, server, u, err
}
