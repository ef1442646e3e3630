// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"fmt"

	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/stockade-dev/stockade/infra/kind/provider"
)

// attached is a provider in the test's own process. Each operation of the engine
// ends with Cancel, and the next one gets a new provider, as it would a process.
type attached struct {
	*provider.Provider
	cli provider.CLI
	ctx context.Context
}

// Attach implements [pulumirpc.ResourceProviderServer].
func (a *attached) Attach(context.Context, *pulumirpc.PluginAttach) (*emptypb.Empty, error) {
	a.Provider = provider.New(a.ctx, provider.Options{CLI: func(string) provider.CLI { return a.cli }})
	return &emptypb.Empty{}, nil
}

// Serve serves the real provider with the command cli behind it, until ctx ends. An
// engine attaches to it by PULUMI_DEBUG_PROVIDERS=stockade:PORT.
func Serve(ctx context.Context, cli provider.CLI) (port int, err error) {
	a := &attached{cli: cli, ctx: ctx}
	a.Provider = provider.New(ctx, provider.Options{CLI: func(string) provider.CLI { return cli }})
	stop := make(chan bool)
	handle, err := rpcutil.ServeWithOptions(rpcutil.ServeOptions{Cancel: stop, Init: func(g *grpc.Server) error {
		pulumirpc.RegisterResourceProviderServer(g, a)
		return nil
	}})
	if err != nil {
		return 0, fmt.Errorf("serving the provider: %w", err)
	}
	context.AfterFunc(ctx, func() { close(stop) })
	return handle.Port, nil
}
