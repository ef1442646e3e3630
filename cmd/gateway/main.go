// SPDX-License-Identifier: Apache-2.0

// Command gateway is kode-gopher's MCP server. See package gateway.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"

	"github.com/stockade-dev/stockade/workloads/gateway"
	"github.com/stockade-dev/stockade/workloads/gateway/auth"
	"github.com/stockade-dev/stockade/workloads/gateway/sandboxes"
	"github.com/stockade-dev/stockade/workloads/metadata"
	"github.com/stockade-dev/stockade/workloads/program"
	"github.com/stockade-dev/stockade/workloads/runner/wire"
	"github.com/stockade-dev/stockade/workloads/serve"
)

// softMemory has the collector hurry when requests are large, well before the
// limit of the server's Pod (overlays/base/kode-gopher/gateway.yaml). $GOMEMLIMIT
// replaces it.
const softMemory = 384 << 20 // bytes

func main() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softMemory)
	}
	os.Exit(program.UntilSignal(func(ctx context.Context) int { return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr) }))
}

// settings are the flags, each of which has an environment variable so that a
// ConfigMap can set it.
type settings struct {
	listen, kubeconfig, holder string
	stdio, open                bool
	pool                       sandboxes.Options
	router                     gateway.Router
	metadata                   string
	session                    time.Duration
	sessions                   int

	tokens, clientID, issuer, keysURL, keysFile, emails, domains string
}

func parse(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{}
	fs := flag.NewFlagSet("gateway", flag.ContinueOnError)
	fs.SetOutput(stderr)
	text := func(to *string, name, env, value, usage string) {
		if v := os.Getenv(env); v != "" {
			value = v
		}
		fs.StringVar(to, name, value, usage+" ($"+env+")")
	}
	text(&s.listen, "listen", "LISTEN", ":8080", "`address` to serve MCP over HTTP at, path "+gateway.MCPPath)
	fs.BoolVar(&s.stdio, "stdio", false, "serve one session on the standard streams instead")
	text(&s.kubeconfig, "kubeconfig", "KUBECONFIG_FILE", "", "`path` of a kubeconfig; empty inside of a cluster")
	text(&s.pool.Namespace, "namespace", "POD_NAMESPACE", "", "`name` of the sandboxes' namespace")
	text(&s.pool.Pool, "pool", "WARM_POOL", "kode-gopher", "`name` of the SandboxWarmPool")
	text(&s.holder, "holder", "POD_NAME", "", "`name` of this server, which no other has at the same time; empty for one by chance")
	text(&s.router.URL, "router", "ROUTER_URL", "http://kode-gopher-router:8080", "`URL` of the sandbox router")
	fs.IntVar(&s.router.Port, "port", 8888, "the sandboxes' server port")
	text(&s.metadata, "metadata", "METADATA_CONTROL_URL", "", "`URL` of the metadata server's control port; empty gives programs no identity")
	fs.DurationVar(&s.pool.TTL, "ttl", 2*time.Minute, "how long the sandboxes of a server that died are kept")
	fs.IntVar(&s.pool.MaxPerUser, "max-sandboxes", sandboxes.MaxPerUser, "how many sandboxes a user may have at a time")
	fs.IntVar(&s.sessions, "max-sessions", gateway.MaxSessions, "how many sessions a user may have at a time with this server")
	fs.DurationVar(&s.session, "session-timeout", 15*time.Minute, "how long a session may be silent")

	fs.BoolVar(&s.open, "no-auth", false, "let everybody who reaches the server use it, as one user")
	text(&s.tokens, "tokens", "TOKENS_FILE", "", "`path` of a file with static tokens, a line each: name sha256:digest; read again when it changes")
	text(&s.clientID, "google-client-id", "GOOGLE_CLIENT_ID", "", "OAuth client `id` of Google sign-in; empty is without")
	text(&s.issuer, "google-issuer", "GOOGLE_ISSUER", auth.GoogleIssuer, "`URL` of who signs ID tokens")
	text(&s.keysURL, "google-keys", "GOOGLE_KEYS_URL", auth.GoogleKeys, "`URL` of the signer's keys")
	text(&s.keysFile, "google-keys-file", "GOOGLE_KEYS_FILE", "", "`paths`, by comma, of the signer's keys, instead of asking for them; read again when they change")
	text(&s.emails, "allow-emails", "ALLOW_EMAILS", "", "`addresses` that may sign in, by comma")
	text(&s.domains, "allow-domains", "ALLOW_DOMAINS", "", "Workspace `domains` whose members may sign in, by comma")
	return s, program.Parse(fs, args)
}

// run is main without the process around it: 0 served and stopped, 1 failed,
// 2 usage. In the mode of standard streams, stdout is the protocol's alone.
func run(ctx context.Context, args []string, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) int {
	s, err := parse(args, stderr)
	if err != nil {
		return program.Usage
	}
	log := slog.New(slog.NewJSONHandler(stderr, nil))
	if err := s.start(ctx, stdin, stdout, log); err != nil {
		_, _ = fmt.Fprintln(stderr, "gateway:", err)
		return program.Failed
	}
	return program.Served
}

func (s *settings) start(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, log *slog.Logger) error {
	guard, err := s.guard(log)
	if err != nil {
		return err
	}
	g, err := s.gateway(ctx, log)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	ctx, over := context.WithCancel(ctx)
	defer over()
	group.Go(func() error { return g.Maintain(ctx) })
	group.Go(func() error {
		defer over()
		if !s.stdio {
			return serve.HTTP(ctx, serve.Server{Addr: s.listen, Handler: g.Handler(guard), Log: log, Stop: g.Close})
		}
		err := g.ServeIO(ctx, stdin, stdout)
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		return errors.Join(err, g.Close(stop))
	})
	return group.Wait()
}

// closeTimeout is how long giving the sandboxes back may take.
const closeTimeout = 20 * time.Second

func (s *settings) gateway(ctx context.Context, log *slog.Logger) (*gateway.Gateway, error) {
	config, err := serve.Kube(s.kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	keep, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	s.pool.Client, s.pool.Keep, s.pool.Log, s.pool.Holder = client, keep, log, s.holder
	if s.pool.Holder == "" {
		s.pool.Holder = "server-" + strings.ToLower(rand.Text())
	}
	pool, err := sandboxes.New(s.pool)
	if err != nil {
		return nil, err
	}
	s.router.Namespace = s.pool.Namespace
	o := gateway.Options{Pool: pool, Runner: s.router, GoEnv: map[string]string{}, SessionTimeout: s.session, MaxSessions: s.sessions, Log: log}
	for _, name := range wire.GoNames {
		if v := os.Getenv(name); v != "" {
			o.GoEnv[name] = v
		}
	}
	if s.metadata != "" {
		o.Identities = metadata.Client{URL: s.metadata}
	}
	// The sessions outlive ctx by as long as Close takes to end them.
	return gateway.New(context.WithoutCancel(ctx), o)
}

// guard returns how callers authenticate. That nobody has to must be said.
func (s *settings) guard(log *slog.Logger) (func(http.Handler) http.Handler, error) {
	var all []auth.Verifier
	if s.tokens != "" {
		static, err := auth.OpenStatic(s.tokens, log)
		if err != nil {
			return nil, err
		}
		all = append(all, static)
	}
	if s.clientID != "" {
		keys, err := s.keys(log)
		if err != nil {
			return nil, err
		}
		google, err := auth.NewGoogle(auth.GoogleOptions{
			ClientID: s.clientID, Issuer: s.issuer, Keys: keys, Emails: list(s.emails), Domains: list(s.domains),
		})
		if err != nil {
			return nil, err
		}
		all = append(all, google)
	}
	switch {
	case len(all) > 0 && s.open:
		return nil, errors.New("setting up the gateway: -no-auth and a way to authenticate exclude each other")
	case len(all) == 0 && !s.open && !s.stdio:
		return nil, errors.New("setting up the gateway: nobody could authenticate; name -tokens or -google-client-id, or say -no-auth")
	case len(all) == 0:
		return nil, nil // said by -no-auth, or by whoever holds the streams
	}
	return auth.Middleware(auth.Any(all...), log), nil
}

func (s *settings) keys(log *slog.Logger) (auth.KeySet, error) {
	if s.keysFile == "" {
		return auth.NewRemoteKeys(s.keysURL), nil
	}
	return auth.OpenKeys(list(s.keysFile), log)
}

func list(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}
