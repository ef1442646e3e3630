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
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
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

// The server's waits. endTimeout is longer than a run's Pod may take to be
// removed, and shorter than the grace of the service's own Pod.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 30 * time.Second
	removeTimeout = 10 * time.Second
	endTimeout    = 20 * time.Second
	sweepEvery    = time.Minute
)

func run(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("execution", flag.ContinueOnError)
	namespace := f.String("namespace", "", "the `namespace` of the runs")
	file := f.String("template", "", "the `file` with the PodTemplate of the runs")
	listen := f.String("listen", ":8080", "the `address` to serve on")
	start := f.Duration("start", time.Minute, "the `time` that the Pod of a run may take to start")
	limit := f.Duration("run", 10*time.Second, "the `time` that a program may run")
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
	// client-go's default of 5 requests a second is meant for controllers: a
	// dozen runs that wait for their Pods need more.
	config.QPS, config.Burst = 50, 100
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making the client: %w", err)
	}
	service, err := execution.New(execution.Options{
		Client: client, Exec: execution.OverAPI(config, client), Namespace: *namespace, Template: template,
		Timeouts: execution.Timeouts{Start: *start, Run: *limit, Remove: removeTimeout},
	})
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return serve(ctx, *listen, *start+*limit+endTimeout, service.Handler(log)) })
	g.Go(func() error {
		every(ctx, sweepEvery, func() {
			if err := service.Sweep(ctx); err != nil && ctx.Err() == nil {
				log.ErrorContext(ctx, "removing what was left behind", "error", err)
			}
		})
		return nil
	})
	return g.Wait()
}

// every does something at once, and again and again until ctx ends.
func every(ctx context.Context, d time.Duration, do func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for ctx.Err() == nil {
		do()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
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

// serve answers until ctx ends. That ends the runs that are under way, too:
// their callers are told that it is not known how they ended, and their Pods are
// removed before serve returns.
func serve(ctx context.Context, address string, answer time.Duration, h http.Handler) error {
	server := &http.Server{
		Addr: address, Handler: h, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: answer,
	}
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
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
