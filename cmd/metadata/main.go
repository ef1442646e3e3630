// SPDX-License-Identifier: Apache-2.0

// Command metadata plays Google's metadata server for sandboxes. See package
// metadata.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/stockade-dev/stockade/workloads/metadata"
	"github.com/stockade-dev/stockade/workloads/program"
	"github.com/stockade-dev/stockade/workloads/serve"
)

// perSandbox is more connections than any client library has open at a time.
const perSandbox = 64

func main() {
	os.Exit(program.UntilSignal(func(ctx context.Context) int { return run(ctx, os.Args[1:], os.Stderr) }))
}

// run is main without the process around it: 0 served and stopped, 1 failed,
// 2 usage.
func run(ctx context.Context, args []string, stderr io.Writer) int {
	o := metadata.Options{Log: slog.New(slog.NewJSONHandler(stderr, nil))}
	var listen, control, scopes, source string
	fs := flag.NewFlagSet("metadata", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&listen, "listen", ":8080", "`address` for sandboxes")
	fs.StringVar(&control, "control", ":8081", "`address` for the gateway; nobody else may reach it")
	fs.StringVar(&o.Account, "account", os.Getenv("SNIPPET_ACCOUNT"), "`e-mail` address of the service account whose tokens runs get")
	fs.StringVar(&o.Project, "project", os.Getenv("GOOGLE_CLOUD_PROJECT"), "`id` of the project that runs are told")
	fs.DurationVar(&o.Grace, "grace", 0, "how long a run's identity outlives it, for what a program sent last to arrive")
	fs.StringVar(&scopes, "scopes", "https://www.googleapis.com/auth/cloud-platform", "scopes of the tokens, by comma")
	fs.StringVar(&source, "source", "iam", "where tokens come from: iam (Google's IAM Credentials API) or random (tokens that mean nothing to Google, for a cluster without it)")
	if program.Parse(fs, args) != nil {
		return program.Usage
	}
	o.Scopes = strings.FieldsFunc(scopes, func(r rune) bool { return r == ',' })
	switch source {
	case "iam":
		o.Source = metadata.IAM{Account: o.Account, Scopes: o.Scopes}
	case "random":
		o.Source = metadata.Random{}
	default:
		_, _ = fmt.Fprintf(stderr, "metadata: -source %q is neither iam nor random\n", source)
		return program.Usage
	}
	s, err := metadata.New(o)
	if err == nil {
		err = serve.HTTP(ctx,
			serve.Server{Addr: listen, Handler: s, Log: o.Log, PerClient: perSandbox},
			serve.Server{Addr: control, Handler: metadata.Control(s), Log: o.Log})
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "metadata:", err)
		return program.Failed
	}
	return program.Served
}
