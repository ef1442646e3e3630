// SPDX-License-Identifier: Apache-2.0

// Command pulumi-language-go is the language host that `stockade pulumi` gives
// to the engine; see package langhost. With an official installation of Pulumi
// the host of that installation is used, and this one is not.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/stockade-dev/stockade/infra/langhost"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := langhost.Serve(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pulumi-language-go: "+err.Error())
		os.Exit(1)
	}
}
