// SPDX-License-Identifier: Apache-2.0

// Package gke holds the parts of an environment on Google Cloud, one Pulumi
// component a file: network, names, firewall, cluster, pools, identities,
// registry, image policy and perimeter.
//
// A component decides nothing that its Args do not say, and what an environment
// must always have is no argument. What a plan of these components keeps is
// judged by conformance/plan, which knows nothing of this package.
//
// No component asks the cloud for anything while it is planned: every name,
// account and address that another resource needs is computed here, so that a
// preview of an empty project already shows what will be there. Where only the
// order matters, Args have a field After.
//
// No component names a version of Kubernetes. A release channel upgrades the
// cluster, and a version in the program would turn each upgrade into a
// difference.
package gke
