// SPDX-License-Identifier: Apache-2.0

package stacks

import "github.com/pulumi/pulumi/sdk/v3/go/pulumi"

// gkeAutopilot is one team's sandboxes on GKE Autopilot, which makes the nodes
// itself, gVisor included.
func gkeAutopilot(ctx *pulumi.Context) error {
	e, err := newEnvironment(ctx, "gke-autopilot")
	if err != nil {
		return err
	}
	if err := e.workloads(ctx); err != nil {
		return err
	}
	return e.finish(ctx)
}
