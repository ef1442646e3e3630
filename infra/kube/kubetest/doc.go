// SPDX-License-Identifier: Apache-2.0

// Package kubetest is a Kubernetes cluster in which nothing runs, for tests: the
// real etcd, kube-apiserver, kube-controller-manager and kube-scheduler, on this
// machine's loopback address, with keys and tokens that are thrown away.
//
// The nodes are fake. A [Kubelet] calls a Pod running and ready once the scheduler
// has given it a node, pulls no image and starts no container; a controller that
// the test wants to be real it starts as a process of this machine. So what a
// cluster of this package shows is what the API server accepts, admits, stores and
// deletes, and in which order; it says nothing about what runs.
//
// No shipped program links it.
package kubetest
