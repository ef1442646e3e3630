// SPDX-License-Identifier: Apache-2.0

// Command router passes requests on to sandboxes. See package router.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"k8s.io/client-go/dynamic"

	"github.com/stockade-dev/stockade/workloads/program"
	"github.com/stockade-dev/stockade/workloads/router"
	"github.com/stockade-dev/stockade/workloads/serve"
)

func main() {
	os.Exit(program.UntilSignal(func(ctx context.Context) int { return run(ctx, os.Args[1:], os.Stderr) }))
}

// run is main without the process around it: 0 served and stopped, 1 failed,
// 2 usage.
func run(ctx context.Context, args []string, stderr io.Writer) int {
	o := router.Options{Log: slog.New(slog.NewJSONHandler(stderr, nil))}
	var listen, namespaces, kubeconfig string
	fs := flag.NewFlagSet("router", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&listen, "listen", ":8080", "`address` to serve at")
	fs.StringVar(&namespaces, "namespaces", os.Getenv("POD_NAMESPACE"), "`names` of the sandboxes' namespaces, by comma; the first is meant when a caller names none")
	fs.IntVar(&o.Port, "port", 8888, "the sandboxes' server port")
	fs.StringVar(&kubeconfig, "kubeconfig", "", "`path` of a kubeconfig; empty inside of a cluster")
	if program.Parse(fs, args) != nil {
		return program.Usage
	}
	o.Namespaces = strings.FieldsFunc(namespaces, func(r rune) bool { return r == ',' })
	if err := start(ctx, listen, kubeconfig, o); err != nil {
		_, _ = fmt.Fprintln(stderr, "router:", err)
		return program.Failed
	}
	return program.Served
}

func start(ctx context.Context, listen, kubeconfig string, o router.Options) error {
	config, err := serve.Kube(kubeconfig)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	o.Resolver = router.Kube{Client: client}
	r, err := router.New(o)
	if err != nil {
		return err
	}
	return serve.HTTP(ctx, serve.Server{Addr: listen, Handler: r, Log: o.Log})
}
