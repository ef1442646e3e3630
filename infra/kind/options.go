// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"errors"
	"time"

	"github.com/stockade-dev/stockade/infra/node/engine"
)

// DefaultName is the cluster's name, and the beginning of its nodes' names.
const DefaultName = "stockade"

// Options says which cluster is meant.
type Options struct {
	// Home is STOCKADE_HOME; it must be set.
	Home string
	// Name of the cluster; empty means DefaultName.
	Name string
	// Engine runs the nodes. The calling process must be inside its seal.
	Engine *engine.Engine
	// CiliumDir is the folder of the module github.com/cilium/cilium (see
	// node.ModuleDir), which the definitions are read from.
	CiliumDir string
	// Timeouts bound every wait; zero fields take their defaults.
	Timeouts Timeouts
}

// Timeouts names every wait of this package.
type Timeouts struct {
	// Probe bounds the question whether a cluster is healthy.
	Probe time.Duration
	// Settle bounds the time that a cluster which is not well gets before it is
	// replaced.
	Settle time.Duration
	// Network bounds the time until Cilium and DNS serve.
	Network time.Duration
	// Remove bounds the removal of a cluster that could not be finished.
	Remove time.Duration
}

func (o Options) orDefaults() (Options, error) {
	if o.Home == "" || o.Engine == nil {
		return o, errors.New("locating the cluster: the home folder or the engine is not given")
	}
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.Timeouts.Probe == 0 {
		o.Timeouts.Probe = 5 * time.Second
	}
	if o.Timeouts.Settle == 0 {
		o.Timeouts.Settle = 30 * time.Second
	}
	if o.Timeouts.Network == 0 {
		// A minute on two idle cores; compiling the datapath is what grows
		// when they are not.
		o.Timeouts.Network = 10 * time.Minute
	}
	if o.Timeouts.Remove == 0 {
		o.Timeouts.Remove = 2 * time.Minute
	}
	return o, nil
}

// nodeFilter is Docker's for the nodes, by the label that kind gives them.
func (o Options) nodeFilter() string { return "label=io.x-k8s.kind.cluster=" + o.Name }
