// SPDX-License-Identifier: Apache-2.0

// Package stacks holds the environments that `pulumi up` can make, one a file:
// dev on kind, and three on Google Cloud.
//
// A program reads its [settings], which are checked before the first resource is
// declared, puts components of infra together, and exports where the sandboxes
// are, so that the suite can attack them.
package stacks
