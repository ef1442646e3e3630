// SPDX-License-Identifier: Apache-2.0

// Package provider is the Pulumi provider of the local cluster: a resource
// stockade:kind:Cluster, which is the sealed place of one STOCKADE_HOME with the
// cluster in it.
//
// It does all of its work through the stockade command, as a child process. That
// enters the seal, which a process with a gRPC server in it must not, and the
// same command mends by hand whatever Pulumi has left half done.
//
// A home has one place, so the resource and `stockade up` mean the same cluster:
// Create takes over what stands, and Delete removes it whoever has made it.
package provider
