// SPDX-License-Identifier: Apache-2.0

// Package ociwrap makes an OCI runtime usable on a host that has lost
// privileges for good.
//
// Docker asks for every capability the kernel knows when a container is
// privileged. Where the bounding set lacks one of them (CAP_SYS_RESOURCE is
// missing in many nested and CI machines), runc refuses to start anything:
// nothing can give that capability back. The wrapper stands in front of runc,
// removes from the container's description what the host cannot grant, and
// becomes runc. It only ever takes privileges away.
package ociwrap
