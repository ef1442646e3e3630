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
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/stockade-dev/stockade/workloads/execution"
	"github.com/stockade-dev/stockade/workloads/program"
)

func main() {
	os.Exit(program.UntilSignal(func(ctx context.Context) int { return run(ctx, os.Args[1:], os.Stderr) }))
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

// run is main without the process around it: 0 served and stopped, 1 failed,
// 2 usage.
func run(ctx context.Context, args []string, stderr io.Writer) int {
	o := execution.Options{Timeouts: execution.Timeouts{Remove: removeTimeout}}
	var file, listen string
	fs := flag.NewFlagSet("execution", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.Namespace, "namespace", "", "the `namespace` of the runs")
	fs.StringVar(&file, "template", "", "the `file` with the PodTemplate of the runs")
	fs.StringVar(&listen, "listen", ":8080", "the `address` to serve on")
	fs.DurationVar(&o.Timeouts.Start, "start", time.Minute, "the `time` that the Pod of a run may take to start")
	fs.DurationVar(&o.Timeouts.Run, "run", 10*time.Second, "the `time` that a program may run")
	if program.Parse(fs, args) != nil {
		return program.Usage
	}
	if err := start(ctx, listen, file, o, slog.New(slog.NewJSONHandler(stderr, nil))); err != nil {
		_, _ = fmt.Fprintln(stderr, "execution:", err)
		return program.Failed
	}
	return program.Served
}

func start(ctx context.Context, listen, file string, o execution.Options, log *slog.Logger) error {
	template, err := read(file)
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
	o.Client, o.Exec, o.Template = client, execution.OverAPI(config, client), template
	service, err := execution.New(o)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return serve(ctx, listen, o.Timeouts.Start+o.Timeouts.Run+endTimeout, service.Handler(log))
	})
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
	text, err := os.ReadFile(path)
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
