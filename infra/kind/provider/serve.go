// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"

	"github.com/pulumi/pulumi/sdk/v3/go/common/diag"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	sdk "github.com/pulumi/pulumi/sdk/v3/go/pulumi/provider"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
)

// Serve is the whole plugin, on the process's own arguments and streams: it
// serves until ctx ends or the engine is gone, and then for as long as a command
// that it has interrupted takes to clean up.
func Serve(ctx context.Context) error {
	err := sdk.MainContext(ctx, "stockade", func(host *sdk.HostClient) (pulumirpc.ResourceProviderServer, error) {
		o := Options{CLI: func(configured string) CLI { return Command{Configured: configured} }}
		if host != nil { // nil where the engine attaches to a plugin that runs already
			o.Status = func(urn, line string) {
				// Whoever shows it may be gone, and the work goes on.
				_ = host.LogStatus(context.WithoutCancel(ctx), diag.Info, resource.URN(urn), line)
			}
		}
		return New(ctx, o), nil
	})
	if err != nil {
		return fmt.Errorf("serving the provider: %w", err)
	}
	return nil
}
