// SPDX-License-Identifier: Apache-2.0

// Package cluster is the sealed local cluster as a resource of a Pulumi program.
// The work is done by the plugin of package provider, in another process.
package cluster
