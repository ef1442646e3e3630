// SPDX-License-Identifier: Apache-2.0

//go:build linux

package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/infra/node/engine/seal"
	"github.com/stockade-dev/stockade/infra/progress"
)

// DefaultName is the name of the sealed network namespace.
const DefaultName = "stockade"

// maxSocketPath is the longest path of a Unix socket (sockaddr_un in unix(7)),
// without its terminating zero.
const maxSocketPath = 107

// Options says where the engine lives.
type Options struct {
	// Home is STOCKADE_HOME; it must be set.
	Home string
	// Name is the network namespace, as `ip netns` shows it; empty means the
	// one this home was sealed with, or DefaultName. Two homes on one machine
	// need two names.
	Name string
	// Source is a checkout of this repository. It is needed only on hosts
	// that lack CAP_SYS_RESOURCE, to build the runtime wrapper.
	Source string
	// Progress tells a person what happens; nil is silent.
	Progress *progress.Reporter
	// Timeouts bound every wait; zero fields take their defaults.
	Timeouts Timeouts
}

// Timeouts names every wait of this package.
type Timeouts struct {
	// Ready bounds the time a daemon may take to answer on its socket.
	Ready time.Duration
	// Stop bounds the time a daemon may take to end before it is killed.
	Stop time.Duration
	// Answer bounds the time a daemon that runs may take to say that it does.
	Answer time.Duration
	// Remove bounds the time dockerd may take to remove all containers, before
	// they are removed by force.
	Remove time.Duration
}

func (t Timeouts) orDefaults() Timeouts {
	if t.Ready == 0 {
		t.Ready = 60 * time.Second
	}
	if t.Stop == 0 {
		t.Stop = 15 * time.Second
	}
	if t.Answer == 0 {
		// An answer takes milliseconds. The wait is long all the same, because an
		// engine that does not answer is taken for dead and its cluster is removed,
		// and a machine that is merely busy must not cause that.
		t.Answer = 30 * time.Second
	}
	if t.Remove == 0 {
		t.Remove = 2 * time.Minute
	}
	return t
}

// pollEvery is how often a wait looks again.
const pollEvery = 50 * time.Millisecond

// Engine is a handle; making one starts nothing.
type Engine struct {
	opts Options
	dir  string
}

// New returns the engine that lives under the given home.
//
// Errors: the home is missing, or its path is too long for a Unix socket.
func New(o Options) (*Engine, error) {
	if o.Home == "" {
		return nil, errors.New("locating the engine: no home folder given")
	}
	home, err := filepath.Abs(o.Home)
	if err != nil {
		return nil, fmt.Errorf("locating the engine: %w", err)
	}
	o.Home = home
	o.Timeouts = o.Timeouts.orDefaults()
	e := &Engine{opts: o, dir: filepath.Join(home, "engine")}
	if e.opts.Name == "" {
		e.opts.Name = DefaultName
		if name := Recorded(home); name != "" {
			e.opts.Name = name
		}
	}
	// containerd's is the longest of all.
	if longest := e.path("run/containerd.sock.ttrpc"); len(longest) > maxSocketPath {
		return nil, fmt.Errorf("locating the engine: %s is %d bytes long and a Unix socket allows %d; set STOCKADE_HOME to a shorter path",
			longest, len(longest), maxSocketPath)
	}
	// They separate paths where nothing can be quoted: in PATH, in docker's volumes,
	// in the options of an overlay mount.
	if i := strings.IndexAny(home, `:,\`); i >= 0 {
		return nil, fmt.Errorf("locating the engine: there is a %q in %s, which mounts cannot have in a path; set STOCKADE_HOME to another", home[i], home)
	}
	return e, nil
}

// Recorded returns the name of the network namespace that this home was sealed
// with, or nothing where it never was.
func Recorded(home string) string {
	text, err := os.ReadFile((&Engine{dir: filepath.Join(home, "engine")}).namePath())
	if err != nil {
		return ""
	}
	// It becomes part of a path.
	if name := strings.TrimSpace(string(text)); name == filepath.Base(name) && name != "." && name != ".." {
		return name
	}
	return ""
}

func (e *Engine) namePath() string { return e.path("namespace") }

func (e *Engine) path(elem string) string { return filepath.Join(e.dir, elem) }

// Dir is the folder that holds everything of the engine.
func (e *Engine) Dir() string { return e.dir }

// Name is the name of the sealed network namespace.
func (e *Engine) Name() string { return e.opts.Name }

// Socket is the path of the engine's API socket.
func (e *Engine) Socket() string { return e.path("run/docker.sock") }

// Host is the value of DOCKER_HOST that leads to the engine.
func (e *Engine) Host() string { return "unix://" + e.Socket() }

// containerdSocket is where our containerd listens. Giving dockerd one of our
// own matters: by itself it would use the machine's, outside the seal.
func (e *Engine) containerdSocket() string { return e.path("run/containerd.sock") }

// Env returns the environment variables that lead child processes, kind among
// them, to this engine and no other, and keep the user's settings for another
// Docker out: contexts, credentials, proxies that kind would hand to the nodes.
func (e *Engine) Env() []string {
	env := []string{"DOCKER_HOST=" + e.Host(), "DOCKER_CONFIG=" + e.path("cli")}
	for _, name := range []string{
		"DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_API_VERSION", "DOCKER_DEFAULT_PLATFORM",
		"KIND_EXPERIMENTAL_DOCKER_NETWORK", "KIND_EXPERIMENTAL_CONTAINERD_SNAPSHOTTER",
		"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy",
	} {
		env = append(env, name+"=") // empty counts as unset for all of them
	}
	return env
}

// Setenv sets Env in this process, for libraries that call the docker command.
func (e *Engine) Setenv() error {
	for _, kv := range e.Env() {
		k, v, _ := strings.Cut(kv, "=")
		err := os.Setenv(k, v)
		if v == "" {
			err = os.Unsetenv(k)
		}
		if err != nil {
			return fmt.Errorf("setting %s: %w", k, err)
		}
	}
	return nil
}

// Prove shows that nothing in the sealed namespace can reach the world. It
// sends nothing. The error wraps a *seal.OpenError when something is open.
func (e *Engine) Prove(ctx context.Context) error {
	// Pods come and go while facts are read, and a namespace that appeared in
	// between looks unknown. Only that is looked at again.
	const attempts = 3
	for n := 1; ; n++ {
		facts, err := seal.Gather(ctx, e.nsPath())
		if err != nil {
			return fmt.Errorf("proving the seal: %w", err)
		}
		err = seal.Judge(facts)
		var open *seal.OpenError
		if n < attempts && errors.As(err, &open) && onlyUnknown(open) {
			continue
		}
		if err != nil {
			return fmt.Errorf("proving the seal: %w", err)
		}
		return nil
	}
}

func onlyUnknown(open *seal.OpenError) bool {
	for _, o := range open.Openings {
		if o.Code != seal.ToUnknown {
			return false
		}
	}
	return true
}

// Ping asks dockerd whether it serves. One that takes the question and never
// answers does not.
func (e *Engine) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.opts.Timeouts.Answer)
	defer cancel()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", e.Socket())
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", nil)
	if err != nil {
		return fmt.Errorf("asking the engine: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("asking the engine: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("asking the engine: it answers %s", resp.Status)
	}
	return nil
}

// Docker runs the docker command against this engine and returns its standard
// output. The error carries what it wrote to standard error.
func (e *Engine) Docker(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Env = append(os.Environ(), e.Env()...)
	out, err := cmd.Output()
	if err == nil {
		return strings.TrimSpace(string(out)), nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return "", fmt.Errorf("running docker %s: %w", strings.Join(args, " "), err)
}
