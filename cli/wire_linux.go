// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/mattn/go-isatty"
	"k8s.io/klog/v2"

	"github.com/stockade-dev/stockade/conformance/descriptor"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/infra/doctor"
	"github.com/stockade-dev/stockade/infra/home"
	"github.com/stockade-dev/stockade/infra/kind"
	"github.com/stockade-dev/stockade/infra/node"
	"github.com/stockade-dev/stockade/infra/node/engine"
	"github.com/stockade-dev/stockade/infra/progress"
	"github.com/stockade-dev/stockade/overlays"
	"github.com/stockade-dev/stockade/scenarios/all"
	rangehost "github.com/stockade-dev/stockade/workloads/range"
)

// Main is the stockade command on the real machine. It returns the exit code.
func Main(args []string) int {
	ctx, stop := interruptible(os.Stderr)
	defer stop()
	// client-go logs by itself whatever is cut under an exec, and returns it as
	// an error as well. The latter is judged; the former is noise on stderr.
	klog.SetLogger(logr.Discard())
	app := &App{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Now: time.Now, Color: isatty.IsTerminal(os.Stdout.Fd()),
		Registry: all.Registry, Mutants: overlays.LoadMutants, ServeRange: rangehost.Serve,
	}
	folder, err := home.Dir(os.Getenv)
	if err != nil {
		app.complain(err)
		return verdict.ExitUsage
	}
	// The gate and Pulumi's plugin are this program again, in other folders: a home that
	// was named by a relative path would be another one there.
	err = errors.Join(os.Setenv(home.Env, folder), os.Setenv("PATH", systemPath(os.Getenv("PATH"))))
	if err != nil {
		app.complain(err)
		return verdict.ExitInternal
	}
	m := machine{home: folder}
	app.Home = folder
	app.Seal, app.Host, app.Runner, app.Exec, app.Place, app.ServeGate = m, m, m, m.exec, m.place, m.serveGate
	app.Pulumi = pulumi{m}
	app.Prune = func(ctx context.Context, rep *progress.Reporter) (int64, error) {
		return node.Prune(ctx, m.images(rep))
	}
	app.Images, app.Layers = imageLayer{m}, m.layers()
	return app.Run(ctx, args)
}

// systemPath adds the folders of system programs where they are missing, as after
// Debian's su: dockerd, iptables and debootstrap would look as if they were not
// installed.
func systemPath(path string) string {
	dirs := filepath.SplitList(path)
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, ":")
}

// interruptible returns a context that ends with the first Ctrl-C, which asks for an
// orderly end and says so: that may take a minute. With the handler gone, the second
// one kills.
func interruptible(stderr io.Writer) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		stop()
		if signalled(ctx) {
			_, _ = fmt.Fprintln(stderr, "stockade: interrupted: cleaning up; the second Ctrl-C ends it at once")
		}
	})
	return ctx, stop
}

// signalled tells whether it was a signal that ended the context of signal.NotifyContext.
// Of an ordinary end the cause is the context's own error.
func signalled(ctx context.Context) bool {
	return context.Cause(ctx) != ctx.Err() //nolint:errorlint // a signal's error is that one too, by errors.Is
}

// The waits of `up`, `down` and the attacks.
const (
	waitSandboxes = 4 * time.Minute
	// waitRange is more than it takes to kill a range that does not end, and to
	// start another one.
	waitRange = 30 * time.Second
	// waitAnswer is how long the API server may take to say whose it is.
	waitAnswer = 30 * time.Second
	// waitEffect is how long a mutant's weakening may take to show.
	waitEffect = 20 * time.Second
	// waitGuestGone is how long the end of a run with a user's own template may
	// take.
	waitGuestGone = 150 * time.Second
)

// machine knows where everything of one home is. Nothing is held open: every
// method finds the state of the world anew.
type machine struct{ home string }

func (m machine) file(elem ...string) string {
	return filepath.Join(append([]string{m.home, "run"}, elem...)...)
}

// kubeconfig is the path of the administrator's, as it works inside of the seal.
func (m machine) kubeconfig() string { return kind.Options{Home: m.home}.KubeconfigPath() }

func (m machine) descriptorFile() string { return m.file("target.json") }

// netns names the network namespace: the one that this home was sealed with, if it
// ever was. Else the user's default home has the usual name, and every other home
// one of its own, so that two do not meet. What was recorded comes first because
// the default differs from user to user.
func (m machine) netns() string {
	if name := engine.Recorded(m.home); name != "" {
		return name
	}
	usual, err := home.Dir(func(k string) string {
		if k == home.Env {
			return ""
		}
		return os.Getenv(k)
	})
	if err == nil && usual == m.home {
		return engine.DefaultName
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(m.home)) // a hash's Write does not fail
	return fmt.Sprintf("%s-%08x", engine.DefaultName, h.Sum32())
}

// netnsPath is where iproute2 keeps the namespace (ip-netns(8)).
func (m machine) netnsPath() string { return filepath.Join("/run/netns", m.netns()) }

func (m machine) engine(rep *progress.Reporter) (*engine.Engine, error) {
	// Without a checkout the engine still starts where no wrapper is needed.
	source, _ := node.FindSource()
	return engine.New(engine.Options{Home: m.home, Name: m.netns(), Source: source, Progress: rep})
}

func (m machine) images(rep *progress.Reporter) node.Options {
	return node.Options{Home: m.home, Progress: rep}
}

func (m machine) layers() []Layer {
	return []Layer{engineLayer{m}, gateLayer{m}, rangeLayer{m}, clusterLayer{m}, callersLayer{m},
		sandboxLayer{m}, targetLayer{m}}
}

// Doctor implements [Host].
func (m machine) Doctor(ctx context.Context) ([]doctor.Finding, error) {
	facts, err := doctor.Gather(ctx, m.home, m.netns())
	if err != nil {
		return nil, err
	}
	return doctor.Judge(facts), nil
}

// Inside implements [Seal].
func (m machine) Inside() (bool, error) {
	e, err := m.engine(nil)
	if err != nil {
		return false, err
	}
	return e.Inside()
}

// Standing implements [Seal].
func (m machine) Standing(ctx context.Context) (bool, error) {
	e, err := m.engine(nil)
	if err != nil {
		return false, err
	}
	s, err := e.Status(ctx)
	if err == nil {
		err = mayEnter(s, os.Geteuid())
	}
	return s.Exists && s.Running, err
}

// mayEnter refuses whoever cannot tell a place that stands from one that does not: it
// would look like none, and be brought up again and again. That is no exit code 3, by
// which Pulumi's plugin is told that there is no cluster any more.
func mayEnter(s engine.Status, uid int) error {
	if s.Exists && uid != 0 {
		return fmt.Errorf("the network namespace %s is there, and only root can look into it: run the command with sudo, as `stockade up`", s.Namespace)
	}
	return nil
}

// Enter implements [Seal]: it replaces this process.
func (m machine) Enter(context.Context) (int, error) {
	e, err := m.engine(nil)
	if err != nil {
		return 0, err
	}
	if err := e.Enter(); err != nil {
		return 0, err
	}
	return 0, errors.New("this process is inside already; run `stockade down` and `stockade up`")
}

func (m machine) exec(ctx context.Context, argv []string) (int, error) {
	e, err := m.engine(nil)
	if err != nil {
		return 0, err
	}
	// Not Cached: after a change of any program of ours not all is built, and kubectl
	// is there all the same. Outside of a checkout there are none, which the program's
	// own absence says.
	tools, _ := node.Tools(ctx, m.images(nil))
	env := append(e.Env(), "KUBECONFIG="+m.kubeconfig(), "PATH="+toolPath(tools, os.Getenv("PATH")))
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		if err := os.Setenv(k, v); err != nil {
			return 0, err
		}
	}
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return 0, err
	}
	return 0, syscall.Exec(program, argv, os.Environ())
}

// toolPath is a PATH on which the programs for the cluster come first.
func toolPath(tools map[string]string, path string) string {
	for _, tool := range []string{"kubectl", "ctr", "crictl"} {
		if p, ok := tools[tool]; ok {
			path = filepath.Dir(p) + ":" + path
		}
	}
	return path
}

// place implements App.Place.
func (m machine) place(ctx context.Context, rep *progress.Reporter) (*Place, error) {
	o, err := clusterLayer{m}.options(nil)
	if err != nil {
		return nil, err
	}
	// Pulumi replaces a cluster that is not healthy.
	s, err := kind.AwaitStatus(ctx, o, rep)
	if err != nil {
		return nil, err
	}
	if !s.Exists {
		return nil, fmt.Errorf("looking for the cluster: %w", fs.ErrNotExist)
	}
	p := &Place{
		Name: s.Identity.Name, UID: s.Identity.UID, Healthy: s.Healthy, Reason: s.Reason, Nodes: []string{}, Seal: m.netns(),
		Images: maps.Clone(s.Identity.Digests),
	}
	if p.Images == nil {
		p.Images = map[string]string{}
	}
	for _, n := range s.Nodes {
		if n.Ready {
			p.Nodes = append(p.Nodes, n.Name)
		}
		p.KubernetesVersion = n.Kubelet
	}
	slices.Sort(p.Nodes)
	gate, err := o.Engine.GateAddress()
	if err != nil {
		return nil, err
	}
	if gate == "" {
		p.Healthy, p.Reason = false, "the gate is closed; `stockade up` opens it"
		return p, nil
	}
	g, err := m.given(ctx)
	if err != nil && p.Healthy {
		// Without it nobody can deploy kode-gopher. `up` makes it again: like a closed
		// gate, it is no reason to make another cluster.
		p.Healthy, p.Reason = false, err.Error()
		return p, nil
	}
	p.Tokens, p.SignerKeys, p.RangeCA = g.tokens, g.signerKeys, g.ca
	if p.Kubeconfig, err = kind.GateKubeconfig(m.home, gate); err != nil {
		return nil, err
	}
	p.Descriptor, err = descriptor.Read(m.descriptorFile())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return p, err
}
