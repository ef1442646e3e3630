// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/conformance/witness"
)

// Baseline implements [Ground].
func (k *Kube) Baseline(ctx context.Context, p target.Pod) (witness.Baseline, error) {
	pod, err := k.o.Client.Clientset.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
	if err != nil {
		return witness.Baseline{}, fmt.Errorf("reading Pod %s: %w", p, err)
	}
	return witness.BaselineOf(pod, p.Container), nil
}

// Facts implements [Ground].
func (k *Kube) Facts(ctx context.Context, p target.Pod, since witness.Baseline) (suite.PodFacts, error) {
	pod, err := k.o.Client.Clientset.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
	if err != nil {
		return suite.PodFacts{}, fmt.Errorf("reading Pod %s: %w", p, err)
	}
	if string(pod.UID) != since.UID {
		return suite.PodFacts{}, fmt.Errorf("reading Pod %s: it was replaced meanwhile", p)
	}
	handler := ""
	if name := pod.Spec.RuntimeClassName; name != nil {
		rc, err := k.o.Client.Clientset.NodeV1().RuntimeClasses().Get(ctx, *name, metav1.GetOptions{})
		if err != nil {
			return suite.PodFacts{}, fmt.Errorf("reading RuntimeClass %s: %w", *name, err)
		}
		handler = rc.Handler
	}
	facts := witness.Facts(pod, p.Container, handler, since)
	declared(&facts, pod)
	return facts, nil
}

// factsNow are the facts of a Pod when nothing has been done to it: what has
// happened since a baseline that is taken now.
func (k *Kube) factsNow(ctx context.Context, p target.Pod) (suite.PodFacts, error) {
	base, err := k.Baseline(ctx, p)
	if err != nil {
		return suite.PodFacts{}, err
	}
	return k.Facts(ctx, p, base)
}

// maxFlowBytes is how much of the export's end is read.
const maxFlowBytes = 8 << 20

// readExport prints the end of Hubble's export, given the file and how many bytes.
// The agent begins a new file when one is full, every few minutes under attack, and
// what was seen just before that is at the end of the file before. Where it does so
// during the reading, a whole file may be missing in between, and it is an error.
const readExport = `set -e
files() { ls -1tr "${1%.log}"*.log | tail -n 2; }
[ -f "$1" ]
before=$(files "$1")
for f in $before; do tail -c "$2" "$f"; done | tail -c "$2"
[ "$before" = "$(files "$1")" ]`

// Flows implements [Ground].
func (k *Kube) Flows(ctx context.Context, node string) ([]witness.Flow, error) {
	agent, err := k.ciliumAgent(ctx, node)
	if err != nil {
		return nil, err
	}
	var out, errs bytes.Buffer
	code, err := k.o.Carrier.Exec(ctx, podRef(agent),
		[]string{"sh", "-c", readExport, "sh", hubbleFile, strconv.Itoa(maxFlowBytes)}, target.Streams{Stdout: &out, Stderr: &errs})
	if err != nil {
		return nil, fmt.Errorf("reading Hubble's export: %w", err)
	}
	if code != 0 {
		return nil, fmt.Errorf("reading Hubble's export: it ended with code %d: %.200q", code, errs.String())
	}
	flows, _, err := witness.ParseFlows(&out)
	return flows, err
}

// ciliumAgent returns the Pod of a node's Cilium agent.
func (k *Kube) ciliumAgent(ctx context.Context, node string) (*corev1.Pod, error) {
	pods, err := k.o.Client.Clientset.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{
		LabelSelector: "k8s-app=cilium", FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, fmt.Errorf("looking for the Cilium agent of node %s: %w", node, err)
	}
	if len(pods.Items) == 0 {
		return nil, fmt.Errorf("looking for the Cilium agent of node %s: there is none", node)
	}
	return &pods.Items[0], nil
}
