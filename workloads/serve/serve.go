// SPDX-License-Identifier: Apache-2.0

// Package serve is what the gateway, the router and the metadata server have in
// common as programs: serving HTTP until they are told to stop, and finding the
// cluster.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Server is one address and who answers there.
type Server struct {
	Addr    string
	Handler http.Handler
	Log     *slog.Logger
	// Stop is called when the server is told to stop, before it waits for the
	// requests that are under way; nil for nothing to do.
	Stop func(context.Context) error
	// PerClient is how many connections one address may have at a time; 0 is no
	// bound. Where the clients are sandboxes, one of them must not take the
	// memory that the server has for all.
	PerClient int
}

// What a client may take, and how long a server waits for requests when it is
// told to stop. An answer may take as long as a program runs.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = time.Minute
	idleTimeout   = 2 * time.Minute
	stopTimeout   = 25 * time.Second // a Pod is given 30
	maxHeader     = 32 << 10         // bytes
)

// HTTP serves until ctx ends. It returns the first error of any server.
func HTTP(ctx context.Context, servers ...Server) error {
	// All addresses first: a server that cannot have its own starts no other.
	listeners := make([]net.Listener, 0, len(servers))
	for _, s := range servers {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Addr)
		if err != nil {
			for _, l := range listeners {
				_ = l.Close() // nobody has seen it
			}
			return fmt.Errorf("serving: %w", err)
		}
		if s.PerClient > 0 {
			l = &fair{Listener: l, most: s.PerClient, open: map[string][]*counted{}}
		}
		listeners = append(listeners, l)
	}
	g, ctx := errgroup.WithContext(ctx)
	for i, s := range servers {
		srv := &http.Server{
			Handler: s.Handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
			ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
		}
		g.Go(func() error {
			if err := srv.Serve(listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serving at %s: %w", s.Addr, err)
			}
			return nil
		})
		g.Go(func() error {
			<-ctx.Done()
			return stop(context.WithoutCancel(ctx), srv, s)
		})
	}
	return g.Wait()
}

func stop(ctx context.Context, srv *http.Server, s Server) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	var err error
	if s.Stop != nil {
		err = s.Stop(ctx)
	}
	if stopped := srv.Shutdown(ctx); stopped != nil {
		// Whoever is still connected has been told that it is over.
		return errors.Join(err, srv.Close())
	}
	return err
}

// Kube finds the cluster: that of a kubeconfig, or the one around this process.
func Kube(kubeconfig string) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if kubeconfig == "" {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	// client-go's default is meant for controllers; the API server has its own
	// fairness, and a hundred sessions may begin at once.
	config.QPS, config.Burst = 100, 200
	// A request that gets no answer is asked again by who made it.
	config.Timeout = 10 * time.Second
	return config, nil
}
