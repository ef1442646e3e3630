// SPDX-License-Identifier: Apache-2.0

// Command execution is the playground's execution service. It runs in the
// cluster, as a service account that may manage the Pods of the runs' namespace
// and exec into them, and nothing else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/stockade-dev/stockade/workloads/execution"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "execution:", err)
		os.Exit(1)
	}
}

// The server's waits. A run may take a minute to start and ten seconds more.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = 2 * time.Minute
	endTimeout    = 20 * time.Second
)

func run(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("execution", flag.ContinueOnError)
	namespace := f.String("namespace", "", "the `namespace` of the runs")
	file := f.String("template", "", "the `file` with the PodTemplate of the runs")
	listen := f.String("listen", ":8080", "the `address` to serve on")
	if err := f.Parse(args); err != nil {
		return err
	}
	template, err := read(*file)
	if err != nil {
		return err
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("reading the service account: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making the client: %w", err)
	}
	service, err := execution.New(execution.Options{
		Client: client, Exec: execution.OverAPI(config, client), Namespace: *namespace, Template: template,
	})
	if err != nil {
		return err
	}
	return serve(ctx, *listen, service.Handler(slog.New(slog.NewJSONHandler(os.Stdout, nil))))
}

func read(path string) (*execution.Template, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the operator's own file
	if err != nil {
		return nil, fmt.Errorf("reading the template of runs: %w", err)
	}
	var t corev1.PodTemplate
	if err := yaml.UnmarshalStrict(text, &t); err != nil {
		return nil, fmt.Errorf("reading the template of runs in %s: %w", path, err)
	}
	return execution.Read(&t)
}

func serve(ctx context.Context, address string, h http.Handler) error {
	server := &http.Server{
		Addr: address, Handler: h,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
	}
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		// Runs that are under way may end, and are removed in any case.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		ended <- server.Shutdown(end)
	})
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return <-ended
}
