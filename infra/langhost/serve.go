// SPDX-License-Identifier: Apache-2.0

package langhost

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"
)

// healthPeriod is how often the engine is asked whether it still lives. The
// usual end is its signal; this is for an engine that was killed.
const healthPeriod = time.Minute

// Serve is the whole program: it serves the protocol on a port of the loopback
// address, which it writes to stdout as its first line, until ctx ends or the
// engine is gone. After that line, stdout and stderr are the program's.
//
// The arguments are the engine's: flags for logs and traces, which are accepted
// and have no effect, and the address of its gRPC server, which is missing where
// the engine attaches to a host that runs already.
func Serve(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("pulumi-language-go", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Bool("logtostderr", false, "no effect")
	flags.Int("v", 0, "no effect")
	flags.String("tracing", "", "no effect")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("reading the arguments: %w", err)
	}
	if flags.NArg() > 1 {
		return errors.New("reading the arguments: one address, that of the engine, is expected")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if engine := flags.Arg(0); engine != "" {
		if err := rpcutil.Healthcheck(ctx, engine, healthPeriod, cancel); err != nil {
			return fmt.Errorf("watching the engine: %w", err)
		}
	}
	h := newHost(ctx, flags.Arg(0), stdout, stderr)
	stop := make(chan bool)
	context.AfterFunc(ctx, func() { close(stop) })
	handle, err := rpcutil.ServeWithOptions(rpcutil.ServeOptions{
		Cancel: stop,
		Init: func(s *grpc.Server) error {
			pulumirpc.RegisterLanguageRuntimeServer(s, h)
			return nil
		},
	})
	if err != nil {
		return fmt.Errorf("serving: %w", err)
	}
	if _, err := fmt.Fprintln(stdout, handle.Port); err != nil {
		return fmt.Errorf("telling the engine the port: %w", err)
	}
	if err := <-handle.Done; err != nil {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}
