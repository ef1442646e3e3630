// SPDX-License-Identifier: Apache-2.0

//go:build linux

package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
)

// The one network of the engine. Its addresses are fixed so that logs of
// different runs can be compared; inside the seal they cannot collide with
// anything.
const (
	// NetworkName is the Docker network that kind uses when it exists.
	NetworkName = "kind"
	// Bridge is the interface in the sealed namespace that all nodes hang on,
	// and so the one the range listens behind.
	Bridge = "stockade0"
)

// The network's prefixes and the addresses of the bridge, which are the nodes'
// default gateways. fd73:746f:636b::/48 is a unique local prefix (RFC 4193).
var (
	Subnet4  = netip.MustParsePrefix("172.30.0.0/24")
	Gateway4 = netip.MustParseAddr("172.30.0.1")
	Subnet6  = netip.MustParsePrefix("fd73:746f:636b::/64")
	Gateway6 = netip.MustParseAddr("fd73:746f:636b::1")
)

// EnsureNetwork makes the network that nodes are attached to. It is idempotent.
func (e *Engine) EnsureNetwork(ctx context.Context) error {
	if out, err := e.Docker(ctx, "network", "ls", "--filter", "name=^"+NetworkName+"$", "--format", "{{.Name}}"); err != nil {
		return fmt.Errorf("looking for the nodes' network: %w", err)
	} else if out != "" {
		return nil
	}
	_, err := e.Docker(ctx, "network", "create", "--driver", "bridge",
		"--opt", "com.docker.network.bridge.name="+Bridge,
		// Nothing is forwarded, so there is nothing to masquerade; and the
		// range wants to see which node spoke.
		"--opt", "com.docker.network.bridge.enable_ip_masquerade=false",
		"--subnet", Subnet4.String(), "--gateway", Gateway4.String(),
		"--ipv6", "--subnet", Subnet6.String(), "--gateway", Gateway6.String(),
		NetworkName)
	if err != nil {
		return fmt.Errorf("making the nodes' network: %w", err)
	}
	return nil
}

// Status is the state of the engine as `stockade status` shows it.
type Status struct {
	Namespace string `json:"namespace"`
	Exists    bool   `json:"exists"`  // the namespace
	Sealed    bool   `json:"sealed"`  // proved just now
	Opening   string `json:"opening"` // why not, when it exists and is not sealed
	Running   bool   `json:"running"` // both daemons are ours and answer
	Host      string `json:"dockerHost"`
	Version   string `json:"version,omitempty"`
	Wrapped   bool   `json:"wrappedRuntime"` // runc runs through the wrapper
	Bridge    string `json:"bridge,omitempty"`
	Gateway4  string `json:"gateway4,omitempty"`
	Gateway6  string `json:"gateway6,omitempty"`
}

// Status looks and changes nothing.
func (e *Engine) Status(ctx context.Context) (Status, error) {
	s := Status{Namespace: e.opts.Name, Host: e.Host()}
	var err error
	if s.Exists, err = isNsfs(e.nsPath()); err != nil || !s.Exists {
		return s, err
	}
	if other, err := e.other(); err != nil || other != "" {
		s.Exists = false // that one is not ours
		return s, err
	}
	if err := e.Prove(ctx); err != nil {
		s.Opening = err.Error()
	} else {
		s.Sealed = true
	}
	if s.Running = e.healthy(ctx); !s.Running {
		return s, nil
	}
	out, err := e.Docker(ctx, "info", "--format", "{{json .}}")
	if err != nil {
		return s, err
	}
	var info struct{ ServerVersion, DefaultRuntime string }
	if err := json.Unmarshal([]byte(out), &info); err != nil {
		return s, fmt.Errorf("reading the engine's state: %w", err)
	}
	s.Version, s.Wrapped = info.ServerVersion, info.DefaultRuntime == runtimeName
	if out, err := e.Docker(ctx, "network", "ls", "--filter", "name=^"+NetworkName+"$", "--format", "{{.Name}}"); err == nil && out != "" {
		s.Bridge, s.Gateway4, s.Gateway6 = Bridge, Gateway4.String(), Gateway6.String()
	}
	return s, nil
}
