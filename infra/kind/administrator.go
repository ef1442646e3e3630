// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"

	"github.com/stockade-dev/stockade/infra/kube"
)

// bareCluster is what kind has made as soon as its administrator may do everything:
// nodes and an API server, and nothing that Pods could run with.
type bareCluster struct {
	nodes   []string
	apiHost string
	config  *clientcmdapi.Config
	client  *kube.Client
}

// administrate takes the administrator's role in a cluster that kind is making. It is
// an error that kubeadm has not come that far yet. Once it has, all nodes are there:
// kind boots them before it calls kubeadm.
func (o Options) administrate(ctx context.Context, provider *cluster.Provider) (*bareCluster, error) {
	members, err := provider.ListInternalNodes(o.Name)
	if err != nil {
		return nil, fmt.Errorf("listing the nodes: %w", err)
	}
	bare := &bareCluster{nodes: make([]string, len(members))}
	for i, n := range members {
		bare.nodes[i] = n.String()
	}
	if bare.apiHost, err = controlPlane(members); err != nil {
		return nil, err
	}
	if bare.config, err = o.adminConfig(provider, bare.apiHost); err != nil {
		return nil, err
	}
	connection, err := clientcmd.NewDefaultClientConfig(*bare.config, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	if bare.client, err = kube.NewForConfig(connection); err != nil {
		return nil, err
	}
	return bare, bare.ready(ctx)
}

// controlPlane returns the control plane's own address: inside the seal it can be
// reached.
func controlPlane(members []nodes.Node) (string, error) {
	found, err := nodeutils.ControlPlaneNodes(members)
	if err != nil {
		return "", fmt.Errorf("listing the nodes: %w", err)
	}
	if len(found) == 0 {
		return "", errors.New("listing the nodes: there is no control plane")
	}
	host, _, err := found[0].IP()
	if err != nil {
		return "", fmt.Errorf("finding the control plane's address: %w", err)
	}
	return host, nil
}

// adminConfig returns the administrator's kubeconfig, pointed at the control plane
// itself: kind's leads through Docker's port forwarder. Before kubeadm has written it
// there is an error.
func (o Options) adminConfig(provider *cluster.Provider, apiHost string) (*clientcmdapi.Config, error) {
	text, err := provider.KubeConfig(o.Name, true)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config, err := clientcmd.Load([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	for _, c := range config.Clusters {
		c.Server = "https://" + apiHost + ":6443"
	}
	return config, nil
}

// ready is an error for as long as the API server does not serve or the
// administrator may not do everything. Ready means that the namespaces exist;
// kubeadm makes this user an administrator only after that.
func (b *bareCluster) ready(ctx context.Context) error {
	if _, err := b.client.Clientset.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		return err
	}
	review, err := b.client.Clientset.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
		&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"},
		}}, metav1.CreateOptions{})
	if err == nil && !review.Status.Allowed {
		err = errors.New("the administrator may not do everything yet")
	}
	return err
}
