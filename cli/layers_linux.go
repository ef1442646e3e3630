// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/infra/kind"
	"github.com/stockade-dev/stockade/infra/node"
	"github.com/stockade-dev/stockade/infra/node/engine"
	"github.com/stockade-dev/stockade/infra/progress"
	"github.com/stockade-dev/stockade/overlays"
	rangehost "github.com/stockade-dev/stockade/workloads/range"
	"github.com/stockade-dev/stockade/workloads/range/rangeclient"
)

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
