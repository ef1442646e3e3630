// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
)

// Executor prepares an exec in a Pod: over a WebSocket, and over SPDY where a
// proxy on the way does not let WebSockets through. Nothing is sent yet.
func Executor(config *rest.Config, client kubernetes.Interface, namespace, pod string, o *corev1.PodExecOptions) (remotecommand.Executor, error) {
	url := client.CoreV1().RESTClient().Post().
		Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
		VersionedParams(o, scheme.ParameterCodec).URL()
	ws, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, url.String())
	if err != nil {
		return nil, fmt.Errorf("preparing a WebSocket: %w", err)
	}
	spdy, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, url)
	if err != nil {
		return nil, fmt.Errorf("preparing SPDY: %w", err)
	}
	return remotecommand.NewFallbackExecutor(ws, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}
