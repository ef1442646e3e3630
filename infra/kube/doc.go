// SPDX-License-Identifier: Apache-2.0

// Package kube is the small set of Kubernetes clients that the installer and
// the suite share, with the three things both do all the time: apply a list of
// objects, delete it, and wait until it works.
package kube
