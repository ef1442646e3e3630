// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/kind/pkg/cluster"
	kindexec "sigs.k8s.io/kind/pkg/exec"
	kindlog "sigs.k8s.io/kind/pkg/log"

	"github.com/stockade-dev/stockade/infra/node"
	"github.com/stockade-dev/stockade/infra/progress"
)

// create makes a cluster that Pods can run in, and records what it is.
func (o Options) create(ctx context.Context, in inputs, images node.Images, rep *progress.Reporter) error {
	bare, err := o.boot(ctx, in, rep)
	if err != nil {
		return err
	}
	// kind lets Docker boot the nodes again after a reboot; with new addresses
	// and without the seal's network they would only come up broken.
	if _, err := o.Engine.Docker(ctx, append([]string{"update", "--restart=no"}, bare.nodes...)...); err != nil {
		return err
	}
	if err := o.writeKubeconfig(bare.config); err != nil {
		return err
	}

	// Importing images and starting the network have nothing to do with each
	// other: the node image carries the system's images.
	ctx, cancel := context.WithTimeout(ctx, o.Timeouts.Network)
	defer cancel()
	g, gctx := errgroup.WithContext(ctx)
	var digests map[string]string
	g.Go(func() (err error) {
		digests, err = importImages(gctx, bare.nodes, images.Archives, rep)
		return err
	})
	g.Go(func() error { return waitNetwork(gctx, bare.client, bare.nodes, rep) })
	if err := g.Wait(); err != nil {
		return err
	}
	id, err := identify(ctx, bare.client, o.Name, in.digest)
	if err != nil {
		return err
	}
	id.Archives, id.Digests = baseNames(images.Archives), digests
	return id.write(o.identityPath())
}

// boot runs kind and, as soon as there is an API server, installs what makes
// Pods run. Cilium compiles its datapath on every node for as long as kubeadm takes,
// and kubeadm mostly waits: one after the other would cost a quarter of a minute.
func (o Options) boot(ctx context.Context, in inputs, rep *progress.Reporter) (*bareCluster, error) {
	log := &kindLog{}
	provider := cluster.NewProvider(cluster.ProviderWithDocker(), cluster.ProviderWithLogger(log))
	var bare *bareCluster
	err := beside(ctx,
		func() error { return o.runKind(provider, log, in.config, rep) },
		func(ctx context.Context) (err error) {
			bare, err = o.install(ctx, provider, in.system, rep)
			return err
		})
	return bare, err
}

// beside runs install while create makes the cluster. Where there is no control
// plane install fails, too, and may fail first; the error returned is then that of
// create, which is the cause.
func beside(ctx context.Context, create func() error, install func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	var broken error
	g.Go(func() error {
		broken = create()
		return broken
	})
	g.Go(func() error { return install(ctx) })
	if err := g.Wait(); broken == nil {
		return err
	}
	return broken
}

// runKind makes nodes and control plane. kind takes no context; its own waits are
// bounded.
func (o Options) runKind(provider *cluster.Provider, log *kindLog, config *clusterConfig, rep *progress.Reporter) (err error) {
	done := rep.Step("creating two nodes and the control plane")
	defer func() { done("", err) }()
	err = provider.Create(o.Name,
		cluster.CreateWithV1Alpha4Config(config),
		cluster.CreateWithKubeconfigPath(o.KubeconfigPath()),
		cluster.CreateWithDisplayUsage(false),
		cluster.CreateWithDisplaySalutation(false))
	if err != nil {
		words := log.tail(5)
		if run := kindexec.RunErrorForError(err); run != nil {
			words = lastLines(string(run.Output), 25)
		}
		return fmt.Errorf("creating the cluster: %w\n%s", err, words)
	}
	return nil
}

// kindLog keeps what kind says, for error messages.
type kindLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *kindLog) add(message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, strings.TrimSpace(message))
}

func (l *kindLog) tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines[max(0, len(l.lines)-n):], "\n")
}

func (l *kindLog) Warn(m string)                { l.add(m) }
func (l *kindLog) Warnf(f string, args ...any)  { l.add(fmt.Sprintf(f, args...)) }
func (l *kindLog) Error(m string)               { l.add(m) }
func (l *kindLog) Errorf(f string, args ...any) { l.add(fmt.Sprintf(f, args...)) }
func (l *kindLog) Info(m string)                { l.add(m) }
func (l *kindLog) Infof(f string, args ...any)  { l.add(fmt.Sprintf(f, args...)) }
func (l *kindLog) Enabled() bool                { return true }

// V drops everything but the messages for users.
func (l *kindLog) V(level kindlog.Level) kindlog.InfoLogger {
	if level > 0 {
		return kindlog.NoopInfoLogger{}
	}
	return l
}

// lastLines returns the last n lines of s.
func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
