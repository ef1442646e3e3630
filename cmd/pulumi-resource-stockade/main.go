// SPDX-License-Identifier: Apache-2.0

// Command pulumi-resource-stockade is the Pulumi provider of the local cluster;
// see package provider.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/stockade-dev/stockade/infra/kind/provider"
)

func main() {
	// Under a signal, too, a command that runs is interrupted and waited for.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := provider.Serve(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pulumi-resource-stockade: "+err.Error())
		os.Exit(1)
	}
}
