// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/overlays"
)

// Ready bounds the wait for the first sandbox.
const Ready = 3 * time.Minute

// Namespace returns a fresh name for the namespace of one run.
func Namespace() string {
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails
	return "guest-" + hex.EncodeToString(b)
}

// Ground is the ground of a run whose target is there for that run alone.
type Ground struct {
	// Ground is that of the target's namespace, which does not exist yet.
	runner.Ground
	Kube      *kube.Client
	Template  *Template
	Namespace string
	// Ready bounds the wait for the first sandbox; 0 means [Ready].
	Ready time.Duration
}

var _ runner.Ground = (*Ground)(nil)

// Open deploys the template, and then opens the field as usual. Its error is
// the reason why no sandbox of the template can be attacked.
func (g *Ground) Open(ctx context.Context, run string, led *runner.Ledger, t runner.Timeouts, sandboxes []suite.Role) (*runner.Field, error) {
	if err := g.deploy(ctx, run, led); err != nil {
		return nil, fmt.Errorf("deploying template %s: %w", g.Template.Name, err)
	}
	return g.Ground.Open(ctx, run, led, t, sandboxes)
}

func (g *Ground) deploy(ctx context.Context, run string, led *runner.Ledger) error {
	// Everything else lives in the namespace, and goes with it. It has no Pod
	// Security level: the template is judged, not what stands around it.
	if err := led.Creating(runner.Ref{APIVersion: "v1", Kind: "Namespace", Name: g.Namespace}); err != nil {
		return err
	}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: g.Namespace, Labels: map[string]string{runner.RunLabel: run}}}
	if _, err := g.Kube.Clientset.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating namespace %s: %w", g.Namespace, err)
	}
	template := g.Template.in(g.Namespace)
	if err := g.admitted(ctx, template); err != nil {
		return err
	}
	if err := g.Kube.Apply(ctx, []*unstructured.Unstructured{template, pool(g.Namespace)}); err != nil {
		return err
	}
	ready := g.Ready
	if ready == 0 {
		ready = Ready
	}
	err := target.AwaitPool(ctx, g.Kube, g.Namespace, overlays.PoolName, ready)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("no sandbox was ready within %s: %w", ready, err)
	}
	return err
}

// admitted asks for one of the template's Sandboxes without storing it. The
// controller would be refused as well, and tell its own log alone.
func (g *Ground) admitted(ctx context.Context, template *unstructured.Unstructured) error {
	if err := g.Kube.Try(ctx, runner.SandboxOf(template, g.Namespace, "dry-run"), false); err != nil {
		return fmt.Errorf("the cluster admits no sandbox of it: %w", err)
	}
	return nil
}
