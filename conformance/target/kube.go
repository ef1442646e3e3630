// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"errors"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"

	"github.com/stockade-dev/stockade/infra/kube"
)

// Kube is the Carrier over the API server's exec, by WebSocket, and by SPDY
// where a proxy on the way does not let WebSockets through.
type Kube struct {
	config *rest.Config
	client kubernetes.Interface
}

// maxOutput bounds one exec's standard output, in bytes; its standard error gets a
// sixteenth of that.
const maxOutput = 16 << 20

// NewKube returns a Kube.
func NewKube(config *rest.Config, client kubernetes.Interface) *Kube {
	return &Kube{config: config, client: client}
}

// Exec implements [Carrier]. It returns when the program ended or ctx did; a
// sandbox that talks more than is allowed ends it with [ErrTooMuch].
func (k *Kube) Exec(ctx context.Context, pod Pod, argv []string, s Streams) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := func() { cancel(ErrTooMuch) }
	opts := remotecommand.StreamOptions{Stdin: s.Stdin}
	if s.Stdout != nil {
		opts.Stdout = &bounded{w: s.Stdout, left: maxOutput, over: over}
	}
	// Standard error is always read, so that a program never blocks on it.
	stderr := s.Stderr
	if stderr == nil {
		stderr = io.Discard
	}
	opts.Stderr = &bounded{w: stderr, left: maxOutput / 16, over: over}
	exec, err := k.executor(pod, argv, s)
	if err != nil {
		return 0, &TransportError{Pod: pod, Err: err}
	}
	err = exec.StreamWithContext(ctx, opts)
	var exit utilexec.CodeExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit):
		return exit.Code, nil
	case ctx.Err() != nil:
		return 0, &TransportError{Pod: pod, Err: context.Cause(ctx)}
	}
	return 0, &TransportError{Pod: pod, Err: err}
}

func (k *Kube) executor(pod Pod, argv []string, s Streams) (remotecommand.Executor, error) {
	return kube.Executor(k.config, k.client, pod.Namespace, pod.Name, &corev1.PodExecOptions{
		Container: pod.Container, Command: argv,
		Stdin: s.Stdin != nil, Stdout: s.Stdout != nil, Stderr: true,
	})
}
