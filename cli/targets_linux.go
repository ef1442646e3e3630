// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stockade-dev/stockade/conformance/descriptor"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/infra/kind"
	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/infra/node"
	"github.com/stockade-dev/stockade/infra/progress"
	"github.com/stockade-dev/stockade/overlays"
)

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
