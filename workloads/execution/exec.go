// SPDX-License-Identifier: Apache-2.0

package execution

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

// OverAPI executes over the API server.
func OverAPI(config *rest.Config, client kubernetes.Interface) Exec {
	return func(ctx context.Context, pod *corev1.Pod, argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
		x, err := kube.Executor(config, client, pod.Namespace, pod.Name, &corev1.PodExecOptions{
			Container: pod.Spec.Containers[0].Name, Command: argv, Stdin: true, Stdout: true, Stderr: true,
		})
		if err != nil {
			return 0, err
		}
		err = x.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout, Stderr: stderr})
		if exit, ok := errors.AsType[utilexec.CodeExitError](err); ok {
			return exit.Code, nil
		}
		return 0, err
	}
}
