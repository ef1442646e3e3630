// SPDX-License-Identifier: Apache-2.0

// Command range plays the outside world inside of the sealed engine's network
// namespace. See package rangehost.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	rangehost "github.com/stockade-dev/stockade/workloads/range"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process around it: 0 served and stopped, 1 failed,
// 2 usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	conf := rangehost.Config{Extra: map[string][]netip.Addr{}}
	fs := flag.NewFlagSet("range", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Func("bridge", "`interface` of the node network; may be repeated", func(s string) error {
		conf.Bridges = append(conf.Bridges, s)
		return nil
	})
	fs.StringVar(&conf.NetNS, "netns-guard", "", "refuse to run outside of the network namespace at this `path`")
	fs.StringVar(&conf.Socket, "socket", "", "`path` of the unix socket for the log's HTTP API")
	fs.StringVar(&conf.Log, "log", "", "`path` of the NDJSON log, appended to")
	fs.StringVar(&conf.PIDFile, "pidfile", "", "`path` of the pid file, locked while the range runs")
	fs.StringVar(&conf.GoProxyHost, "goproxy-host", "", "`name` of the Go module proxy, behind the shared front end")
	fs.IntVar(&conf.MaxConns, "max-conns", 0, "open TCP connections at a time (default 1024)")
	fs.Func("extra", "a further DNS name, `name=address[,address]`; may be repeated", func(s string) error {
		return rangehost.ParseExtra(conf.Extra, s)
	})
	if err := fs.Parse(args); err != nil {
		return 2
	}
	if fs.NArg() > 0 {
		_, _ = fmt.Fprintf(stderr, "range: %q is no flag; see range -h\n", fs.Arg(0))
		return 2
	}
	err := rangehost.Serve(ctx, conf, func(r rangehost.Ready) {
		_ = json.NewEncoder(stdout).Encode(r) // nobody reads it: serve all the same
	})
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "range:", err)
		return 1
	}
	return 0
}
