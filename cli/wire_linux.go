// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
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
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/mattn/go-isatty"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"

	"github.com/stockade-dev/stockade/conformance/descriptor"
	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/infra/doctor"
	"github.com/stockade-dev/stockade/infra/kind"
	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/infra/node"
	"github.com/stockade-dev/stockade/infra/node/engine"
	"github.com/stockade-dev/stockade/infra/progress"
	"github.com/stockade-dev/stockade/overlays"
	"github.com/stockade-dev/stockade/scenarios/all"
	rangehost "github.com/stockade-dev/stockade/workloads/range"
	"github.com/stockade-dev/stockade/workloads/range/rangeclient"
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
		Registry: all.Registry, Mutants: describeMutants, ServeRange: rangehost.Serve,
	}
	home, err := Home(os.Getenv)
	if err != nil {
		app.complain(err)
		return verdict.ExitUsage
	}
	// The gate and Pulumi's plugin are this program again, in other folders: a home that
	// was named by a relative path would be another one there.
	err = errors.Join(os.Setenv(node.HomeEnv, home), os.Setenv("PATH", systemPath(os.Getenv("PATH"))))
	if err != nil {
		app.complain(err)
		return verdict.ExitInternal
	}
	m := machine{home: home}
	app.Home = home
	app.Seal, app.Host, app.Runner, app.Exec, app.Place, app.ServeGate = m, m, m, m.exec, m.place, m.serveGate
	app.Pulumi = pulumi{m}
	app.Prune = func(ctx context.Context, rep *progress.Reporter) (int64, error) {
		return node.Prune(ctx, m.images(rep))
	}
	app.Layers = m.layers()
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
	// waitSettle is how long a mutant's weakening may take to show.
	waitSettle = 20 * time.Second
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

// netns names the network namespace: the one that this home was sealed with, since
// which home is the default one depends on who asks. Every home but that gets a name
// of its own, so that two of them do not meet.
func (m machine) netns() string {
	if name := engine.Recorded(m.home); name != "" {
		return name
	}
	usual, err := Home(func(k string) string {
		if k == "STOCKADE_HOME" {
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
	return []Layer{imageLayer{m}, engineLayer{m}, gateLayer{m}, rangeLayer{m}, clusterLayer{m}, callersLayer{m},
		sandboxLayer{m}, targetLayer{m}}
}

// Doctor implements [Host].
func (m machine) Doctor(ctx context.Context) ([]Check, error) {
	facts, err := doctor.Gather(ctx, m.home, m.netns())
	if err != nil {
		return nil, err
	}
	var out []Check
	for _, f := range doctor.Judge(facts) {
		out = append(out, Check{Name: f.Check, Level: string(f.Level), Detail: f.Detail, Remedy: f.Remedy})
	}
	return out, nil
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

func describeMutants() ([]Mutant, error) {
	loaded, err := overlays.LoadMutants()
	if err != nil {
		return nil, err
	}
	out := make([]Mutant, 0, len(loaded))
	for _, m := range loaded {
		out = append(out, Mutant{ID: m.ID, Title: m.Title, Base: m.Base})
	}
	return out, nil
}

// imageLayer is everything that is built once.
type imageLayer struct{ m machine }

func (imageLayer) Name() string { return "images" }
func (imageLayer) Sealed() bool { return false }

func (l imageLayer) Up(ctx context.Context, _ UpOptions, rep *progress.Reporter) error {
	_, err := node.Build(ctx, l.m.images(rep))
	return err
}

func (l imageLayer) Status(ctx context.Context) (State, error) {
	images, ok, err := node.Cached(ctx, l.m.images(nil))
	if err != nil || !ok {
		return State{Detail: "not all built: `stockade images build`"}, err
	}
	return State{Up: true, Detail: images.NodeTag}, nil
}

// Down keeps the images: they took long, and are only files.
func (imageLayer) Down(context.Context, *progress.Reporter) error { return nil }

// engineLayer is the seal, proved, and the engine in it.
type engineLayer struct{ m machine }

func (engineLayer) Name() string { return "sealed engine" }
func (engineLayer) Sealed() bool { return false }

func (l engineLayer) Up(ctx context.Context, _ UpOptions, rep *progress.Reporter) error {
	e, err := l.m.engine(rep)
	if err != nil {
		return err
	}
	if err := e.Start(ctx); err != nil {
		return err
	}
	return e.EnsureNetwork(ctx)
}

func (l engineLayer) Status(ctx context.Context) (State, error) {
	e, err := l.m.engine(nil)
	if err != nil {
		return State{}, err
	}
	s, err := e.Status(ctx)
	switch {
	case err != nil:
		return State{}, err
	case !s.Exists:
		return State{Detail: "there is no seal"}, nil
	case !s.Sealed:
		return State{Left: true, Detail: "NOT SEALED: " + s.Opening}, nil
	case !s.Running:
		return State{Left: true, Detail: "sealed, and the engine does not answer"}, nil
	}
	return State{Up: true, Detail: fmt.Sprintf("namespace %s, sealed; Docker %s", s.Namespace, s.Version)}, nil
}

func (l engineLayer) Down(ctx context.Context, rep *progress.Reporter) error {
	e, err := l.m.engine(rep)
	if err != nil {
		return err
	}
	return e.Stop(ctx)
}

// gateLayer is the way in for programs that live outside, Pulumi's first.
type gateLayer struct{ m machine }

func (gateLayer) Name() string { return "gate" }
func (gateLayer) Sealed() bool { return false }

func (l gateLayer) Up(ctx context.Context, _ UpOptions, rep *progress.Reporter) error {
	e, err := l.m.engine(rep)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	_, err = e.OpenGate(ctx, []string{self, "gate", "serve"})
	return err
}

func (l gateLayer) Status(context.Context) (State, error) {
	e, err := l.m.engine(nil)
	if err != nil {
		return State{}, err
	}
	address, err := e.GateAddress()
	if err != nil || address == "" {
		return State{Detail: "closed"}, err
	}
	return State{Up: true, Detail: address}, nil
}

func (l gateLayer) Down(ctx context.Context, rep *progress.Reporter) error {
	e, err := l.m.engine(rep)
	if err != nil {
		return err
	}
	return e.CloseGate(ctx)
}

// serveGate is the process that [gateLayer] starts.
func (m machine) serveGate(ctx context.Context) error {
	e, err := m.engine(nil)
	if err != nil {
		return err
	}
	return e.ServeGate(ctx, func() (string, error) { return kind.APIServer(m.home) })
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
	if p.Kubeconfig, err = kind.GateKubeconfig(m.home, gate); err != nil {
		return nil, err
	}
	if p.Tokens, p.RangeCA, err = m.given(ctx); err != nil && p.Healthy {
		// Without them nobody can deploy kode-gopher.
		p.Healthy, p.Reason = false, err.Error()
	}
	p.Descriptor, err = descriptor.Read(m.descriptorFile())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return p, err
}

// clusterLayer is the nodes with Kubernetes, Cilium and gVisor.
type clusterLayer struct{ m machine }

func (clusterLayer) Name() string { return "cluster" }
func (clusterLayer) Sealed() bool { return true }

func (l clusterLayer) options(rep *progress.Reporter) (kind.Options, error) {
	e, err := l.m.engine(rep)
	return kind.Options{Home: l.m.home, Engine: e}, err
}

func (l clusterLayer) Up(ctx context.Context, up UpOptions, rep *progress.Reporter) error {
	o, err := l.options(rep)
	if err != nil {
		return err
	}
	images, ok, err := node.Cached(ctx, l.m.images(nil))
	if err != nil {
		return err
	}
	if !ok {
		return errors.New("the images are not built: `stockade images build`")
	}
	if o.CiliumDir, err = node.ModuleDir(ctx, l.m.images(nil), "cilium", "github.com/cilium/cilium"); err != nil {
		return err
	}
	// The images of all systems have a gigabyte, and importing that keeps Cilium
	// waiting.
	parts, err := overlays.Parts(up.Profiles...)
	if err != nil {
		return err
	}
	module, err := agentSandbox(ctx)
	if err != nil {
		return err
	}
	names, err := overlays.Images(module, parts)
	if err != nil {
		return err
	}
	if images.Archives, err = images.ArchivesOf(names); err != nil {
		return err
	}
	return kind.Up(ctx, o, images, rep)
}

// agentSandbox are the files of the agent-sandbox module that overlays use.
func agentSandbox(ctx context.Context) (fs.FS, error) {
	source, err := node.FindSource()
	if err != nil {
		return nil, err
	}
	return overlays.ModuleFS(ctx, source)
}

func (l clusterLayer) Status(ctx context.Context) (State, error) {
	o, err := l.options(nil)
	if err != nil {
		return State{}, err
	}
	s, err := kind.GetStatus(ctx, o)
	switch {
	case err != nil:
		return State{}, err
	case !s.Exists:
		return State{Detail: "there is none"}, nil
	case !s.Healthy:
		return State{Left: true, Detail: s.Reason}, nil
	}
	version := ""
	for _, n := range s.Nodes {
		version = n.Kubelet
	}
	return State{Up: true, Detail: fmt.Sprintf("%d nodes, Kubernetes %s", len(s.Nodes), version)}, nil
}

func (l clusterLayer) Down(ctx context.Context, rep *progress.Reporter) error {
	o, err := l.options(rep)
	if err != nil {
		return err
	}
	if err := kind.Down(ctx, o); err != nil {
		return err
	}
	return runner.Forget(l.m.ledgerDir())
}

// rangeLayer is the outside world.
type rangeLayer struct{ m machine }

func (rangeLayer) Name() string { return "range" }
func (rangeLayer) Sealed() bool { return true }

func (l rangeLayer) socket() string  { return l.m.file("range.sock") }
func (l rangeLayer) pidFile() string { return l.m.file("range.pid") }

func (l rangeLayer) Up(ctx context.Context, _ UpOptions, _ *progress.Reporter) error {
	ctx, cancel := context.WithTimeout(ctx, waitRange)
	defer cancel()
	_, host, err := goProxy(ctx)
	if err != nil {
		return err
	}
	if l.plays(ctx, host) {
		return nil
	}
	// One that does not answer, cannot hear, or plays another module proxy is
	// replaced.
	if err := rangehost.Terminate(ctx, l.pidFile()); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	_, err = rangehost.Spawn(ctx, rangehost.SpawnConfig{
		NetNS: l.m.netnsPath(),
		Argv: []string{self, "range", "serve", "--bridge", engine.Bridge, "--netns-guard", l.m.netnsPath(),
			"--socket", l.socket(), "--pidfile", l.pidFile(), "--log", l.m.file("range.ndjson"), "--goproxy-host", host},
		Stderr: l.m.file("range.stderr"),
	})
	return err
}

// plays tells whether a range is there that hears, and is the module proxy of
// this name.
func (l rangeLayer) plays(ctx context.Context, host string) bool {
	c := rangeclient.New(l.socket())
	defer c.Close()
	h, err := c.Health(ctx)
	return err == nil && h.OK && h.GoProxyHost == host
}

func (l rangeLayer) Status(ctx context.Context) (State, error) {
	c := rangeclient.New(l.socket())
	defer c.Close()
	if _, err := os.Stat(l.socket()); errors.Is(err, fs.ErrNotExist) {
		return State{Detail: "not running"}, nil
	}
	h, err := c.Health(ctx)
	switch {
	case err != nil:
		return State{}, err
	case !h.OK:
		return State{Left: true, Detail: h.Problem}, nil
	}
	return State{Up: true, Detail: fmt.Sprintf("process %d, %d events", h.PID, h.Seq)}, nil
}

func (l rangeLayer) Down(ctx context.Context, _ *progress.Reporter) error {
	ctx, cancel := context.WithTimeout(ctx, waitRange)
	defer cancel()
	if err := rangehost.Terminate(ctx, l.pidFile()); err != nil {
		return err
	}
	// What a range that was killed had noted is of a namespace that goes as well.
	return remove(l.socket(), l.pidFile(), l.pidFile()+rangehost.NoteSuffix)
}

func remove(paths ...string) error {
	var failed error
	for _, p := range paths {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// sandboxLayer is the Agent Sandbox with the templates and pools, the playground's
// execution service, and the controls.
type sandboxLayer struct{ m machine }

func (sandboxLayer) Name() string { return sandboxesName }
func (sandboxLayer) Sealed() bool { return true }

// targets are the deployments that `up` puts on the cluster.
var targets = map[string]descriptor.Target{
	"reference": pooled(overlays.ReferenceNamespace),
	seedTarget:  pooled(overlays.SeedNamespace),
	"default":   pooled(overlays.DefaultNamespace),
	playground:  executed(overlays.PlaygroundNamespace),

	kodeGopherLocal:  served(overlays.KodeGopherNamespace),
	kodeGopherShared: served(overlays.KodeGopherSharedNamespace),
}

// The names of targets that something else here has to know.
const (
	playground       = "playground"
	kodeGopherLocal  = "kode-gopher-local"
	kodeGopherShared = "kode-gopher-shared"
)

// pooled is a target of Agent Sandbox, executed one whose Pods an execution
// service makes.
func pooled(namespace string) descriptor.Target {
	return descriptor.Target{Namespace: namespace, Template: overlays.TemplateName, Pool: overlays.PoolName}
}

func executed(namespace string) descriptor.Target {
	return descriptor.Target{Namespace: namespace, PodTemplate: overlays.PodTemplateName, Service: overlays.ExecutionAccount}
}

// differs is what a report from here must say.
var differs = []string{
	"the data plane is Cilium with its own configuration, not Dataplane V2",
	"gVisor (systrap) runs in containers on this machine's kernel, not in VMs with Container-Optimized OS",
	"the metadata server is the range's; there is no Workload Identity",
	"a Pod may have 256 tasks, so that reaching the limit takes seconds; GKE sets at least 1024",
	"the allow-list of host names is Cilium's policy, not GKE's FQDNNetworkPolicy; Google's front ends, the module proxy and the perimeter are the range's stand-ins",
	"no VPC, and none of GKE's own admission policies",
}

func (l sandboxLayer) Up(ctx context.Context, o UpOptions, rep *progress.Reporter) error {
	ctx, cancel := context.WithTimeout(ctx, waitSandboxes)
	defer cancel()
	module, err := agentSandbox(ctx)
	if err != nil {
		return err
	}
	c, err := kube.New(l.m.kubeconfig())
	if err != nil {
		return err
	}
	id, err := kind.ReadIdentity(l.m.home)
	if err != nil {
		return err
	}
	settings, err := l.m.kodeGopher(ctx)
	if err != nil {
		return err
	}
	configure := map[string]func([]unstructured.Unstructured) ([]unstructured.Unstructured, error){
		overlays.KodeGopherDev: settings.Local, overlays.KodeGopherSharedDev: settings.Shared,
	}
	parts, err := overlays.Parts(o.Profiles...)
	if err != nil {
		return err
	}
	// Everything first, and the waiting after: Pods of all of them start together.
	var deployed []*unstructured.Unstructured
	for _, part := range parts {
		objects, err := overlays.Render(module, part.Overlay)
		if change := configure[part.Overlay]; err == nil && change != nil {
			objects, err = change(objects)
		}
		if err == nil {
			err = overlays.Pin(objects, id.Digests)
		}
		if err != nil {
			return err
		}
		if err := c.Apply(ctx, kube.Refs(objects)); err != nil {
			return fmt.Errorf("applying %s: %w", part.Name, err)
		}
		deployed = append(deployed, kube.Refs(objects)...)
	}
	if err := c.WaitReady(ctx, deployed); err != nil {
		return fmt.Errorf("waiting for the controller, the servers and the control Pods: %w", err)
	}
	for _, part := range parts {
		t := targets[part.Name]
		if t.Pool == "" {
			continue
		}
		if err := target.AwaitPool(ctx, c, t.Namespace, t.Pool, waitSandboxes); err != nil {
			return err
		}
	}
	return nil
}

func (l sandboxLayer) Status(ctx context.Context) (State, error) {
	if _, err := os.Stat(l.m.kubeconfig()); errors.Is(err, fs.ErrNotExist) {
		return State{Detail: "not deployed"}, nil
	}
	c, err := kube.New(l.m.kubeconfig())
	if err != nil {
		return State{}, err
	}
	var there []string
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		t := targets[name]
		deployed, err := hasNamespace(ctx, c, t.Namespace)
		if err != nil {
			return State{}, err
		}
		if !deployed {
			continue
		}
		there = append(there, name)
		if t.Pool != "" {
			ready, err := target.PoolReady(ctx, c, t.Namespace, t.Pool)
			if err != nil {
				return State{}, err
			}
			if !ready {
				return State{Detail: "the pool of " + name + " is not ready"}, nil
			}
		}
		up, err := serves(ctx, c, t)
		if err != nil {
			return State{}, err
		}
		if !up {
			return State{Detail: "the server of " + name + " is not ready"}, nil
		}
	}
	if there == nil {
		return State{Detail: "not deployed"}, nil
	}
	return State{Up: true, Detail: strings.Join(there, ", ")}, nil
}

// hasNamespace tells whether a namespace is there.
func hasNamespace(ctx context.Context, c *kube.Client, name string) (bool, error) {
	_, err := c.Clientset.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// Down leaves them to the cluster, which goes as a whole.
func (sandboxLayer) Down(context.Context, *progress.Reporter) error { return nil }

// targetLayer is the descriptor that says where the targets are, and the probe
// that goes there.
type targetLayer struct{ m machine }

func (targetLayer) Name() string { return "target" }
func (targetLayer) Sealed() bool { return true }

func (l targetLayer) Up(ctx context.Context, _ UpOptions, _ *progress.Reporter) error {
	c, err := kube.New(l.m.kubeconfig())
	if err != nil {
		return err
	}
	probe, err := l.probe(ctx)
	if err != nil {
		return err
	}
	return l.m.describe(ctx, c, probe)
}

// probe takes the static probe out of its image, so that the one which goes
// into sandboxes is the very one that the control Pods run.
func (l targetLayer) probe(ctx context.Context) (string, error) {
	images, ok, err := node.Cached(ctx, l.m.images(nil))
	if err != nil {
		return "", err
	}
	if !ok {
		return "", errors.New("the images are not built: `stockade images build`")
	}
	to := l.m.file("probe")
	for _, archive := range images.Archives {
		if !strings.HasPrefix(filepath.Base(archive), "probe-") {
			continue
		}
		image, err := tarball.ImageFromPath(archive, nil)
		if err != nil {
			return "", fmt.Errorf("reading the probe's image: %w", err)
		}
		if err := extract(image, "probe", to); err != nil {
			return "", fmt.Errorf("taking the probe out of its image: %w", err)
		}
		return to, nil
	}
	return "", errors.New("taking the probe out of its image: no archive holds it; `stockade images build`")
}

func extract(image v1.Image, name, to string) (err error) {
	files := mutate.Extract(image)
	defer func() { err = errors.Join(err, files.Close()) }()
	for in := tar.NewReader(files); ; {
		h, err := in.Next()
		if err != nil {
			return fmt.Errorf("looking for %s: %w", name, err)
		}
		if strings.TrimPrefix(filepath.Clean(h.Name), "/") != name || h.Typeflag != tar.TypeReg {
			continue
		}
		return writeFile(to, func(w io.Writer) error {
			_, err := io.CopyN(w, in, h.Size)
			return err
		})
	}
}

// describe writes the descriptor: the cluster may be attacked from now on.
func (m machine) describe(ctx context.Context, c *kube.Client, probe string) error {
	if err := kind.Confirm(ctx, c, m.home); err != nil {
		return err
	}
	id, err := kind.ReadIdentity(m.home)
	if err != nil {
		return err
	}
	host, err := kind.DetectHost()
	if err != nil {
		return err
	}
	features := []suite.Feature{suite.GVisor, suite.Admission, suite.WarmPool}
	if host.IPv6 {
		features = append(features, suite.IPv6)
	}
	return descriptor.Descriptor{
		Kubeconfig: m.kubeconfig(), ClusterUID: id.UID, Targets: m.targets(),
		Controls: overlays.ControlsNamespace, Probe: probe, RangeSocket: rangeLayer{m}.socket(), Seal: m.netns(),
		Features: features, Disruptive: true, DiffersFromGKE: differs,
	}.Write(m.descriptorFile())
}

func (l targetLayer) Status(ctx context.Context) (State, error) {
	d, err := descriptor.Read(l.m.descriptorFile())
	if errors.Is(err, fs.ErrNotExist) {
		return State{Detail: "not deployed"}, nil
	}
	if err != nil {
		return State{}, err
	}
	c, err := kube.New(d.Kubeconfig)
	if err != nil {
		return State{}, err
	}
	id, err := kind.ReadIdentity(l.m.home)
	if err == nil {
		err = kind.Confirm(ctx, c, l.m.home)
	}
	switch {
	case err != nil:
		return State{}, err
	case id.UID != d.ClusterUID:
		return State{Detail: "the descriptor is of another cluster: `stockade up`"}, nil
	}
	return State{Up: true, Detail: strings.Join(slices.Sorted(maps.Keys(d.Targets)), ", ")}, nil
}

func (l targetLayer) Down(context.Context, *progress.Reporter) error {
	return remove(l.m.descriptorFile(), l.m.file("probe"))
}
