// SPDX-License-Identifier: Apache-2.0

// Package kind holds what a local cluster needs before anything is installed
// in it, and what a managed cluster would bring by itself: the network (Cilium)
// and the runtime class for gVisor.
package kind

import "embed"

// Cluster has one YAML file a component, in the folder cluster.
//
//go:embed cluster/*.yaml
var Cluster embed.FS
